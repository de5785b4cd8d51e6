"""The JSON of classify and regress requests and answers.

{"examples": [{"text": "a film", "year": 1999}]}  ->  serialised tf.Example
[[("positive", 0.75)]]                            ->  {"results": [[["positive", 0.75]]]}
"""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.server.json_tensors import base64_bytes, bytes_of, decimals, is_base64
from keras_bert.tf_serving.server.json_text import format_error, quoted, type_name
from keras_bert.tf_serving.server.model_messages import with_context
from keras_bert.tf_serving.server.status import invalid_argument
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import MAX_BYTES


def examples_from_request(request: Mapping, max_bytes: int = MAX_BYTES) -> list[bytes]:
    """Returns a serialised `tf.Example` for each of the request's, the features of its "context" in each of them.

    Raises:
        StatusError: INVALID_ARGUMENT, in TensorFlow Serving's words; or the contexts take more than `max_bytes`.
    """
    # What stands later in the bytes counts: an example may say otherwise than the context.
    context = _example(request["context"]) if "context" in request else b""
    if "examples" not in request:
        raise format_error(request, "When method is classify, key 'examples' is expected and was not found")
    examples = request["examples"]
    if not isinstance(examples, list):
        raise format_error(request, "Expecting 'examples' value to be an list/array")
    if not examples:
        raise format_error(request, "'examples' value is an empty array")
    return with_context(context, [_example(example) for example in examples], max_bytes)


def _example(value) -> bytes:
    if not isinstance(value, dict):
        raise invalid_argument("Example must be JSON object but got JSON ", type_name(value))
    example = messages.Example()
    for name, content in value.items():
        try:
            feature = example.features.feature[name]
        except (ValueError, UnicodeEncodeError):
            raise invalid_argument("The name of a feature is not UTF-8: ", ascii(name)) from None
        for item in content if isinstance(content, list) else [content]:
            _add(feature, item, name)
    return example.SerializeToString(deterministic=True)


def _add(feature, value, name: str) -> None:
    if value is None or isinstance(value, list) or (isinstance(value, dict) and not is_base64(value)):
        raise invalid_argument("Feature: ", name, " has element with unexpected JSON type: ", type_name(value))
    if isinstance(value, (str, dict)):
        kind, value = "bytes_list", bytes_of(value) if isinstance(value, str) else base64_bytes(value)
    elif isinstance(value, float):
        kind = "float_list"
        with np.errstate(over="ignore"):
            value = float(np.float32(value))  # beyond the range is infinity
    else:
        kind, value = "int64_list", int(value)
    given = feature.WhichOneof("kind")
    if given not in (None, kind):
        raise invalid_argument(
            "Unexpected element type in feature: ", name, " expecting type: ", given.removesuffix("_list")
        )
    if kind == "int64_list" and value >= 2**63:
        raise invalid_argument("Feature: ", name, " has uint64_t element. Only int64_t is supported.")
    getattr(feature, kind).value.append(value)


def classification_body(results: Sequence[Sequence[tuple[bytes, float]]]) -> bytes:
    """Returns the body of an answer: for each example its classes with their scores."""
    if not results:
        raise invalid_argument("Cannot convert empty ClassificationResults to JSON")
    rows = []
    for classes in results:
        scores = decimals(np.array([score for _, score in classes], np.float32))
        names = [quoted(name.decode("utf-8", "surrogateescape")) for name, _ in classes]
        rows.append("[" + ", ".join(f"[{name}, {score}]" for name, score in zip(names, scores, strict=True)) + "]")
    return f'{{\n    "results": [{", ".join(rows)}\n    ]\n}}'.encode("utf-8", "surrogateescape")


def regression_body(results: Sequence[float]) -> bytes:
    """Returns the body of an answer: a number for each example."""
    if not results:
        raise invalid_argument("Cannot convert empty RegressionResults to JSON")
    return f'{{\n    "results": [{", ".join(decimals(np.array(results, np.float32)))}]\n}}'.encode()
