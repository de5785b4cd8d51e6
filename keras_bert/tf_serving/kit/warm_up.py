"""Writes the warm-up file of a SavedModel: requests that a server runs before it accepts requests of clients.

The first call of each signature takes many times as long as later calls. The messages are those of
tensorflow-serving-api.
"""

import os
import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.record_files import framed_record
from keras_bert.tf_serving.client.request_batches import as_arrays
from keras_bert.tf_serving.loading import load_saved_model

WARM_UP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
# A server refuses a longer file.
MOST_RECORDS = 1000
DEFAULT_BATCH_SIZES = (1, 2, 8, 32)
# Words of the made-up texts: a headline, a sentence, a paragraph.
_TEXT_LENGTHS = (4, 24, 96)
# Common words of English vocabularies; other vocabularies split them into pieces.
_WORDS = ("the", "of", "and", "to", "in", "a", "is", "that", "it", "was", "for", "on", "with", "he", "be", "by", "at")
_DEFAULT_SIGNATURE = "serving_default"
# Inputs of these names take serialised examples.
_EXAMPLE_INPUTS = ("examples", "inputs")
# Made-up inputs have this length in all variable axes after the batch, and as lengths and counts.
_LENGTH = 4


def write_warm_up(
    version_folder: str | os.PathLike,
    examples: Sequence[Mapping] = (),
    batch_sizes: Sequence[int] = DEFAULT_BATCH_SIZES,
) -> int:
    """Writes `assets.extra/tf_serving_warmup_requests` and returns how many requests it has.

    The file has predict requests of every batch size for `serving_default`, and one small predict request for every
    other signature. The SavedModel runs all of them first, since a failing request keeps a server from loading it.

    Args:
        version_folder: one version of a SavedModel.
        examples: rows for `serving_default`, input -> text or list of texts, such as {"text": "a wonderful film"},
            similar to the requests of clients. By default, made-up texts of several lengths.
        batch_sizes: the numbers of rows of the requests.

    Raises:
        InputError: there is no SavedModel, it does not accept or answer an example, there are more than 1000 requests,
            the file cannot be written, or tensorflow-serving-api is not installed.
    """
    import tensorflow as tf

    require_messages()
    if not batch_sizes or min(batch_sizes) < 1:
        raise InputError(f"Batch sizes are whole numbers from 1. Received: {list(batch_sizes)}")
    model = load_saved_model(version_folder)
    if _DEFAULT_SIGNATURE not in model.signatures:
        raise InputError(f"{os.fspath(version_folder)} has no signature {_DEFAULT_SIGNATURE}.")
    # Signature -> input -> tf.TensorSpec.
    specs = {name: signature.structured_input_signature[1] for name, signature in sorted(model.signatures.items())}
    requests = list(_requests(specs, examples, sorted(set(batch_sizes))))
    if len(requests) > MOST_RECORDS:
        raise InputError(f"A server takes {MOST_RECORDS} warm-up requests at most. Received: {len(requests)}")
    for number, (name, inputs) in enumerate(requests, start=1):
        try:
            model.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        except (tf.errors.OpError, TypeError, ValueError) as error:
            raise InputError(
                f"Warm-up request {number}, for the signature {name}, fails, so a server would not load the model: "
                f"{' '.join(str(error).split())[:500]}"
            ) from error
    with atomic_file(os.path.join(version_folder, WARM_UP_FILE)) as file:
        for name, inputs in requests:
            file.write(framed_record(_log(name, inputs).SerializeToString(deterministic=True)))
    return len(requests)


def require_messages():
    """Returns the module of the message `PredictionLog`. Raises `InputError` without tensorflow-serving-api."""
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError as error:
        raise InputError(
            f"tensorflow-serving-api is not installed; a warm-up file needs it. {how_to_install('client')}"
        ) from error
    return prediction_log_pb2


def is_made_up(row: Mapping[str, str]) -> bool:
    """Returns whether every word of a row of texts is one of those that requests are made up of."""
    return set(" ".join(row.values()).split()) <= set(_WORDS)


def _requests(specs: Mapping, examples: Sequence[Mapping], batch_sizes: Sequence[int]) -> Iterator[tuple[str, dict]]:
    """Yields (signature, its inputs) for each request."""
    default = specs[_DEFAULT_SIGNATURE]
    for number, example in enumerate(examples, start=1):
        if set(example) != set(default):
            raise InputError(
                f"Example {number} has the inputs {', '.join(sorted(example)) or 'nothing'}, but the model takes "
                f"{', '.join(sorted(default))}."
            )
    draw = random.Random(0)
    groups = [list(examples)] if examples else [[_made_up_row(default, length, draw)] for length in _TEXT_LENGTHS]
    for rows in groups:
        for size in batch_sizes:
            yield _DEFAULT_SIGNATURE, _as_arrays([rows[number % len(rows)] for number in range(size)])
    for name in specs:
        if name != _DEFAULT_SIGNATURE:
            yield name, _made_up_inputs(specs[name], groups[0][0])


def _made_up_row(specs: Mapping, num_words: int, draw: random.Random) -> dict:
    """Returns input -> a text of `num_words` words, or a list of two. Raises `InputError` if an input is not a text."""
    row = {}
    for name, spec in sorted(specs.items()):
        if spec.dtype.name != "string" or spec.shape.rank not in (1, 2):
            raise InputError(
                f"The input {name} is not a text, so no request can be made up for it. Give examples of your own."
            )
        texts = [" ".join(draw.choice(_WORDS) for _ in range(num_words)) for _ in range(spec.shape.rank)]
        row[name] = texts[0] if spec.shape.rank == 1 else texts
    return row


def _as_arrays(rows: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Joins rows into inputs, arrays of bytes `[B]`, or `[B, N]` for lists; short lists are padded with ""."""
    columns = {}
    for name in sorted(rows[0]):
        values = [row[name] for row in rows]
        texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"The input {name} of a request must be a text or a list of texts.")
        if all(isinstance(value, list) for value in values):
            width = max(map(len, values))
            values = [value + [""] * (width - len(value)) for value in values]
        columns[name] = values
    return as_arrays(columns)


def _made_up_inputs(specs: Mapping, row: Mapping) -> dict[str, np.ndarray]:
    """Returns one row for any signature: `row` if it has the same inputs, else values of its types and shapes."""
    if set(specs) == set(row):
        return _as_arrays([row])
    inputs = {}
    for name, spec in sorted(specs.items()):
        inner = spec.shape.as_list()[1:] if spec.shape.rank else []
        shape = [1, *(_LENGTH if size is None else size for size in inner)]
        if spec.dtype.name != "string":
            is_count = "length" in name or name.startswith("num")
            inputs[name] = np.full(shape, _LENGTH if is_count else 0, spec.dtype.as_numpy_dtype)
        else:
            inputs[name] = np.full(shape, _example(row) if name in _EXAMPLE_INPUTS else b"the", object)
    return inputs


def _example(row: Mapping) -> bytes:
    """Returns a row as a serialised `tf.train.Example`."""
    import tensorflow as tf

    example = tf.train.Example()
    for name, array in _as_arrays([row]).items():
        example.features.feature[name].bytes_list.value.extend(array.ravel().tolist())
    return example.SerializeToString(deterministic=True)


def _log(signature: str, inputs: Mapping):
    """Returns the `PredictionLog` of a predict request."""
    import tensorflow as tf

    log = require_messages().PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    for name, array in inputs.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    return log
