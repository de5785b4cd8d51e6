"""The page at /: one HTML file without external resources, with the labels and examples of each model."""

import contextlib
import functools
import importlib.resources
import itertools
import os
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.tf_serving.kit.warm_up import MOST_RECORDS, WARM_UP_FILE, is_made_up, require_messages

# The page may run its own code and send requests to this server only.
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
_SCRIPT = "page_lines.js"  # the page names it in a line of its own, which its content replaces
_MOST_EXAMPLES = 3
_MOST_LABELS = 100
_LONGEST_TEXT = 1000  # bytes


@functools.cache
def page_html() -> bytes:
    """Returns the page, with its script in it."""
    files = importlib.resources.files("keras_bert.tf_serving.server")
    page, script = (files.joinpath(name).read_bytes() for name in ("page.html", _SCRIPT))
    return page.replace(f"// {_SCRIPT}\n".encode(), script)


def about_model(model: Any) -> dict[str, list]:
    """Returns the labels of a model, and examples: each is input -> text, a row of a warm-up request of a kit."""
    labels = [str(label)[:_LONGEST_TEXT] for label in (getattr(model, "labels", None) or ())[:_MOST_LABELS]]
    return {"labels": labels, "examples": kit_examples(model.path)}


def kit_examples(folder: str) -> list[dict[str, str]]:
    """Returns the first texts of `make_serving_kit --examples` in a SavedModel; none for other folders.

    The file has messages of TensorFlow Serving. Without the extra `client`, which can read them, there are none either.
    """
    path, examples = os.path.join(folder, WARM_UP_FILE), []
    if not os.path.isfile(path):
        return []
    from google.protobuf.message import DecodeError

    with contextlib.suppress(InputError, DecodeError):  # the extra is missing, or the file is damaged
        read = require_messages().PredictionLog.FromString
        for record in itertools.islice(iterate_records(path), MOST_RECORDS):
            for example in _rows(read(record).predict_log.request):
                if example not in examples and not is_made_up(example):
                    examples.append(example)
            if len(examples) >= _MOST_EXAMPLES:
                break
    return examples[:_MOST_EXAMPLES]


def _rows(request) -> list[dict[str, str]]:
    """Returns the rows of a request to the signature that the page asks; none if its inputs are not short texts."""
    if not request.inputs or request.model_spec.signature_name not in ("", "serving_default"):
        return []
    if any(len(tensor.tensor_shape.dim) != 1 for tensor in request.inputs.values()):
        return []
    return [
        dict(zip(request.inputs, (text.decode("utf-8", "replace") for text in texts), strict=True))
        for texts in zip(*(tensor.string_val for tensor in request.inputs.values()), strict=False)
        if max(map(len, texts)) <= _LONGEST_TEXT
    ]
