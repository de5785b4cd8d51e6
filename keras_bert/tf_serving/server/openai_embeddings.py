"""OpenAI's POST /v1/embeddings, for models whose default signature turns texts into vectors."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.tf_serving.server.json_tensors import parse_object, shown
from keras_bert.tf_serving.server.model_requests import DEFAULT_SIGNATURE, check_rows
from keras_bert.tf_serving.server.request_limits import RequestError

EMBEDDINGS_PATH = "/v1/embeddings"
MAX_TEXTS = 2048  # OpenAI's bound

_EMBEDDING, _TOKENIZE, _LENGTHS = "embedding", "tokenize", "lengths"
_MEMBERS = ("model", "input", "encoding_format", "dimensions", "user")
_TOO_MANY_REQUESTS = 429
_TOKEN_IDS = (
    '"input" must be a string or a list of strings. Received token ids, which are of no use without their vocabulary. '
    "Send texts; LangChain's OpenAIEmbeddings does so with check_embedding_ctx_length=False."
)


class EmbeddingsError(RequestError):
    """A request for embeddings was refused because of its member `param`, or None; `openai_code` is OpenAI's code."""

    def __init__(self, message: str, param: str | None, status: int = 400, openai_code: str | None = None):
        super().__init__(status, message)
        self.param, self.openai_code = param, openai_code


def openai_error_body(error: RequestError) -> bytes:
    """Returns the body of an error as OpenAI's clients read it."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    if error.status == _TOO_MANY_REQUESTS:
        kind = "rate_limit_error"
    param, code = getattr(error, "param", None), getattr(error, "openai_code", None)
    return json.dumps({"error": {"message": error.message, "type": kind, "param": param, "code": code}}).encode()


def embeddings_body(models: Mapping[str, Any], body: bytes, max_rows: int) -> bytes:
    """Returns the body of the answer to POST /v1/embeddings.

    Raises:
        RequestError: the request is wrong, or names no model that gives embeddings.
        InputError: the body is not JSON, has too many texts, or the model cannot take them.
    """
    request = parse_object(body)
    if unknown := [name for name in request if name not in _MEMBERS]:
        raise EmbeddingsError(f"Unrecognized request argument supplied: {', '.join(unknown)}", None)
    name, encoding, dimensions = (request.get(member) for member in ("model", "encoding_format", "dimensions"))
    if not isinstance(name, str) or not name:
        raise EmbeddingsError(f'"model" must be the name of a model. {_received(name)}', "model")
    if encoding not in (None, "float", "base64"):
        message = f'"encoding_format" must be "float" or "base64". {_received(encoding)}'
        raise EmbeddingsError(message, "encoding_format")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise EmbeddingsError(f'"dimensions" must be a whole number from 1. {_received(dimensions)}', "dimensions")
    texts = _texts(request.get("input"))
    check_rows(len(texts), max_rows)
    if name not in models:
        raise EmbeddingsError(f"The model {name!r} does not exist.", "model", 404, "model_not_found")
    vectors = _vectors(name, models[name], texts)
    if dimensions is not None:
        if dimensions > vectors.shape[1]:
            message = (
                f'"dimensions" must be at most {vectors.shape[1]}, the width of this model. Received: {dimensions}'
            )
            raise EmbeddingsError(message, "dimensions")
        vectors = shortened(vectors, dimensions)
    num_tokens = _num_tokens(models[name], texts)
    values = [base64.b64encode(row.tobytes()).decode() if encoding == "base64" else row.tolist() for row in vectors]
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    return json.dumps({"object": "list", "data": data, "model": name, "usage": usage}).encode()


def _texts(given: Any) -> list[str]:
    """Returns the texts of "input", which is a text or a list of texts."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list):
        raise EmbeddingsError(f'"input" must be a string or a list of strings. {_received(given)}', "input")
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise EmbeddingsError(f'"input" must have 1 to {MAX_TEXTS} texts. Received: {len(texts)}', "input")
    for number, text in enumerate(texts):
        if type(text) is int or (isinstance(text, list) and any(type(item) is int for item in text)):
            raise EmbeddingsError(_TOKEN_IDS, "input")
        if not isinstance(text, str):
            raise EmbeddingsError(f'"input[{number}]" must be a string. {_received(text)}', "input")
    return texts


def _received(value: Any) -> str:
    return f"Received: {'nothing' if value is None else shown(value)}"


def _vectors(name: str, model: Any, texts: list[str]) -> np.ndarray:
    """Returns the vectors of texts, float32 `[B, D]`. Raises `EmbeddingsError` if the model gives none."""
    signature = model.signatures.get(DEFAULT_SIGNATURE)
    text = _only_text_input(signature)
    if text is None or _EMBEDDING not in signature.output_tensors:
        found = "it has no such signature"
        if signature is not None:
            found = f"it takes {', '.join(signature.input_tensors)} and gives {', '.join(signature.output_tensors)}"
        raise EmbeddingsError(
            f"The model {name!r} gives no embeddings: {DEFAULT_SIGNATURE} must take one string for each row and give "
            f"vectors {_EMBEDDING}; {found}.",
            "model",
        )
    vectors = np.asarray(signature(**{text: texts})[_EMBEDDING], "<f4")
    if vectors.ndim != 2 or len(vectors) != len(texts):
        message = (
            f"The model {name!r} gives no embeddings: its answer to {len(texts)} texts has the shape {vectors.shape}."
        )
        raise EmbeddingsError(message, "model")
    return vectors


def _num_tokens(model: Any, texts: list[str]) -> int:
    """Returns the number of tokens of all texts, 0 for a model without a signature that counts them."""
    signature = model.signatures.get(_TOKENIZE)
    text = _only_text_input(signature)
    if text is None or _LENGTHS not in signature.output_tensors:
        return 0
    return int(signature(**{text: texts})[_LENGTHS].sum())


def _only_text_input(signature: Any) -> str | None:
    """Returns the input of a signature that takes nothing but a string for each row; None for others."""
    if signature is None or len(signature.input_tensors) != 1:
        return None
    ((name, tensor),) = signature.input_tensors.items()
    return name if tensor.dtype == "string" and tensor.shape in (None, (None,)) else None


def shortened(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """Returns the first numbers of vectors, float32 `[B, width]`, divided by their new lengths; zeros stay zeros.

    >>> shortened(np.float32([[3, 4, 12], [0, 0, 5]]), 2)
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    kept = vectors[:, :dimensions]
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    return np.divide(kept, lengths, out=np.zeros_like(kept), where=lengths != 0)
