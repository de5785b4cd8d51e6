"""Converts the JSON of classify and regress requests and answers.

{"examples": [{"text": "a film", "year": 1999}]}  ->  serialised tf.Example
[[("positive", 0.75)]]                            ->  {"results": [[["positive", 0.75]]]}
"""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.server.json_tensors import base64_bytes, bytes_of, decimals, is_base64
from keras_bert.tf_serving.server.json_text import quoted, shown
from keras_bert.tf_serving.server.status import invalid_argument
from keras_bert.tf_serving.wire import messages


def examples_from_request(request: Mapping, max_bytes: int = 1 << 31) -> list[bytes]:
    """Returns each example of a request as a serialised `tf.Example`, which includes the features of the "context".

    Raises:
        StatusError: INVALID_ARGUMENT: the request is malformed, or the contexts take more than `max_bytes`.
    """
    # In a message, later values win: the features of an example override those of the context.
    context = _example(request["context"]) if "context" in request else b""
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise invalid_argument('"examples" must be a list of at least one object. Received: ', shown(examples))
    if len(context) * len(examples) > max_bytes:
        raise invalid_argument(
            "The request takes more than ", max_bytes, " bytes with its context in every example (the limit of this "
            "server is --max_body_bytes). Send fewer rows at a time.",
        )  # fmt: skip
    return [context + _example(example) for example in examples]


def _example(value) -> bytes:
    if not isinstance(value, dict):
        raise invalid_argument("An example must be an object. Received: ", shown(value))
    example = messages.Example()
    for name, content in value.items():
        try:
            feature = example.features.feature[name]
        except (ValueError, UnicodeEncodeError):
            raise invalid_argument("The name of a feature must be UTF-8. Received: ", shown(name)) from None
        for item in content if isinstance(content, list) else [content]:
            _add(feature, item, name)
    return example.SerializeToString(deterministic=True)


def _add(feature, value, name: str) -> None:
    if value is None or isinstance(value, list) or (isinstance(value, dict) and not is_base64(value)):
        raise invalid_argument(f"The feature {name} must hold strings or numbers. Received: ", shown(value))
    if isinstance(value, (str, dict)):
        kind, value = "bytes_list", bytes_of(value) if isinstance(value, str) else base64_bytes(value)
    elif isinstance(value, float):
        kind = "float_list"
        with np.errstate(over="ignore"):
            value = float(np.float32(value))  # numbers out of range become infinity
    else:
        kind, value = "int64_list", int(value)
    given = feature.WhichOneof("kind")
    if given not in (None, kind):
        raise invalid_argument(f"All values of the feature {name} must have one type. Received: ", shown(value))
    if kind == "int64_list" and value >= 2**63:
        raise invalid_argument(f"The feature {name} must hold whole numbers below 2**63. Received: {value}")
    getattr(feature, kind).value.append(value)


def classification_body(results: Sequence[Sequence[tuple[bytes, float]]]) -> bytes:
    """Returns the body of an answer: the classes of each example with their scores."""
    if not results:
        raise invalid_argument("The model returned no result")
    rows = []
    for classes in results:
        scores = decimals(np.array([score for _, score in classes], np.float32))
        names = [quoted(name.decode("utf-8", "surrogateescape")) for name, _ in classes]
        rows.append("[" + ", ".join(f"[{name}, {score}]" for name, score in zip(names, scores, strict=True)) + "]")
    return f'{{"results": [{", ".join(rows)}]}}'.encode("utf-8", "surrogateescape")


def regression_body(results: Sequence[float]) -> bytes:
    """Returns the body of an answer: one number per example."""
    if not results:
        raise invalid_argument("The model returned no result")
    return f'{{"results": [{", ".join(decimals(np.array(results, np.float32)))}]}}'.encode()
