"""What the page shows of one model before anybody asks it: its labels, and examples from its warm-up requests."""

import contextlib
import itertools
import os

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object
from keras_bert.program.record_files import iterate_records
from keras_bert.tf_serving.kit.warm_up import MOST_RECORDS, WARM_UP_FILE, is_made_up
from keras_bert.tf_serving.server.loaded_model import DEFAULT_SIGNATURE, ServedModel
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import tensor_proto_to_array

_EXPORT_FILE = os.path.join("assets", "export.json")  # what our exports say of themselves
_MOST_EXAMPLES = 3
_MOST_LABELS = 100
_LONGEST_TEXT = 1000  # bytes


def about_model(model: ServedModel) -> dict[str, list]:
    """Returns the labels of a model, and examples: each is input -> text, a row of a warm-up request.

    A model that says nothing of itself, or whose files are damaged, has none.
    """
    return {"labels": _labels(model.folder), "examples": _examples(model)}


def _labels(folder: str) -> list[str]:
    paths = [os.path.join(folder, name) for name in (_EXPORT_FILE, os.path.basename(_EXPORT_FILE))]
    with contextlib.suppress(InputError):
        settings = read_json_object(next(filter(os.path.isfile, paths), paths[0])).get("settings")
        labels = settings.get("labels") if isinstance(settings, dict) else None
        if isinstance(labels, list):
            return [str(label)[:_LONGEST_TEXT] for label in labels[:_MOST_LABELS]]
    return []


def _examples(model: ServedModel) -> list[dict[str, str]]:
    from google.protobuf.message import DecodeError

    path, examples = os.path.join(model.folder, WARM_UP_FILE), []
    if not os.path.isfile(path):
        return []
    with contextlib.suppress(InputError, DecodeError):
        for record in itertools.islice(iterate_records(path), MOST_RECORDS):
            for example in _rows(messages.PredictionLog.FromString(record)):
                if example not in examples and not is_made_up(example):
                    examples.append(example)
            if len(examples) >= _MOST_EXAMPLES:
                break
    return examples[:_MOST_EXAMPLES]


def _rows(log) -> list[dict[str, str]]:
    """Returns the rows of a request to the signature that the page asks; none if its inputs are not short texts."""
    request = log.predict_log.request
    if not request.inputs or request.model_spec.signature_name not in ("", DEFAULT_SIGNATURE):
        return []
    columns = [tensor_proto_to_array(tensor) for tensor in request.inputs.values()]
    if any(column.dtype != object or column.ndim != 1 for column in columns):
        return []
    return [
        dict(zip(request.inputs, (text.decode("utf-8", "replace") for text in texts), strict=True))
        for texts in zip(*columns, strict=False)
        if max(map(len, texts)) <= _LONGEST_TEXT
    ]
