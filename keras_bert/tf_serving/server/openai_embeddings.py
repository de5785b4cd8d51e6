"""OpenAI's POST /v1/embeddings, for models whose default signature turns texts into vectors."""

import asyncio
import base64
import dataclasses
import json
import time
from collections.abc import Mapping

import numpy as np

from keras_bert.tf_serving.server.inference import Inference, ModelSpec
from keras_bert.tf_serving.server.json_tensors import bytes_of, decimals
from keras_bert.tf_serving.server.json_text import parse_object, quoted, shown
from keras_bert.tf_serving.server.loaded_model import DEFAULT_SIGNATURE, ServedModel, ServedSignature
from keras_bert.tf_serving.server.model_store import ServedVersion
from keras_bert.tf_serving.server.status import Code, StatusError
from keras_bert.tf_serving.wire.strings import string_array

EMBEDDINGS_PATH = "/v1/embeddings"
MAX_TEXTS = 2048  # OpenAI's bound

_EMBEDDING, _TOKENIZE, _LENGTHS = "embedding", "tokenize", "lengths"
_MEMBERS = ("model", "input", "encoding_format", "dimensions", "user")
_FLOATS = ("float", "double", "half", "bfloat16")
_TOO_MANY_REQUESTS = 429
_TOKEN_IDS = (
    '"input" must be a string or a list of strings. Received token ids, which are of no use without their vocabulary. '
    "Send texts; LangChain's OpenAIEmbeddings does so with check_embedding_ctx_length=False."
)


class EmbeddingsError(StatusError):
    """A request for embeddings was refused.

    Attributes:
        param: the member of the request that is wrong, or None.
        openai_code: OpenAI's name of the error, or None.
    """

    def __init__(self, message: str, param: str | None, *, code: Code = Code.INVALID_ARGUMENT, openai_code=None):
        super().__init__(code, message)
        self.param, self.openai_code = param, openai_code


def openai_error_body(http_status: int, error: StatusError) -> bytes:
    """Returns the body of an error as OpenAI's clients read it."""
    kind = "server_error" if http_status >= 500 else "invalid_request_error"
    if http_status == _TOO_MANY_REQUESTS:
        kind = "rate_limit_error"
    param, code = getattr(error, "param", None), getattr(error, "openai_code", None)
    members = {"message": error.message, "type": kind, "param": param, "code": code}
    return json.dumps({"error": members}, ensure_ascii=False).encode("utf-8", "surrogateescape")


@dataclasses.dataclass(frozen=True)
class _Request:
    """A request that is well-formed.

    Attributes:
        texts: bytes, object `[B]`.
        dimensions: how many numbers of each vector the client wants; None for all.
    """

    model: str
    texts: np.ndarray
    as_base64: bool
    dimensions: int | None


async def answer_embeddings(inference: Inference, body: bytes, timeout_seconds: float) -> bytes:
    """Returns the body of the answer to POST /v1/embeddings.

    Raises:
        StatusError: the request is wrong, or the model has not answered it.
    """
    request = _checked(await asyncio.to_thread(parse_object, body))
    version = _find(inference, request.model)
    with version.in_use():
        return await _answer(inference, version, request, timeout_seconds)


async def _answer(inference: Inference, version: ServedVersion, request: _Request, timeout_seconds: float) -> bytes:
    text = _text_input(version)
    _check_dimensions(request.dimensions, version.model.signatures[DEFAULT_SIGNATURE].outputs[_EMBEDDING].shape)
    end = time.monotonic() + timeout_seconds
    num_tokens = 0
    if tokenize_input := _tokenize_input(version.model):
        lengths = await inference.predict(version, _TOKENIZE, {tokenize_input: request.texts})
        num_tokens = int(lengths[_LENGTHS].sum())
    outputs = await inference.predict(
        version, DEFAULT_SIGNATURE, {text: request.texts}, timeout_seconds=end - time.monotonic()
    )
    vectors = outputs[_EMBEDDING]
    if vectors.ndim != 2 or len(vectors) != len(request.texts):
        raise _no_embeddings(version, f"its answer to {len(request.texts)} texts has the shape {vectors.shape}")
    _check_dimensions(request.dimensions, vectors.shape)
    return await asyncio.to_thread(_answer_body, request, vectors.astype(np.float32), num_tokens)


def _checked(members: Mapping) -> _Request:
    unknown = [name for name in members if name not in _MEMBERS]
    if unknown:
        raise EmbeddingsError(f"Unrecognized request argument supplied: {', '.join(unknown)}", None)
    model, encoding = members.get("model"), members.get("encoding_format")
    if not isinstance(model, str) or not model:
        raise EmbeddingsError('"model" must be the name of a model. ' + _received(model), "model")
    if encoding not in (None, "float", "base64"):
        message = '"encoding_format" must be "float" or "base64". ' + _received(encoding)
        raise EmbeddingsError(message, "encoding_format")
    dimensions = members.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise EmbeddingsError('"dimensions" must be a whole number from 1. ' + _received(dimensions), "dimensions")
    return _Request(model, _texts(members.get("input")), encoding == "base64", dimensions)


def _texts(given) -> np.ndarray:
    """Returns the bytes of "input", a text or a list of texts, as an object array `[B]`."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list):
        raise EmbeddingsError('"input" must be a string or a list of strings. ' + _received(given), "input")
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise EmbeddingsError(f'"input" must have 1 to {MAX_TEXTS} texts. Received: {len(texts)}', "input")
    for number, text in enumerate(texts):
        if _is_token_ids(text):
            raise EmbeddingsError(_TOKEN_IDS, "input")
        if not isinstance(text, str):
            raise EmbeddingsError(f'"input[{number}]" must be a string. ' + _received(text), "input")
    return string_array(list(map(bytes_of, texts)))


def _is_token_ids(value) -> bool:
    return type(value) is int or (isinstance(value, list) and any(type(item) is int for item in value))


def _received(value) -> str:
    return f"Received: {'nothing' if value is None else shown(value)}"


def _find(inference: Inference, model: str) -> ServedVersion:
    try:
        return inference.find(ModelSpec(model))
    except StatusError as error:
        if error.code != Code.NOT_FOUND:
            raise
        message = f"The model {quoted(model)} does not exist, or no version of it is loaded."
        raise EmbeddingsError(message, "model", code=Code.NOT_FOUND, openai_code="model_not_found") from None


def _text_input(version: ServedVersion) -> str:
    """Returns the name of the input that takes the texts. Raises unless the default signature gives embeddings."""
    signature = version.model.signatures.get(DEFAULT_SIGNATURE)
    if signature is None:
        raise _no_embeddings(version, f"it has no signature {DEFAULT_SIGNATURE}")
    text, output = _only_text_input(signature), signature.outputs.get(_EMBEDDING)
    if text is None or output is None or output.dtype not in _FLOATS:
        wanted = f"{DEFAULT_SIGNATURE} must take one string for each row and give vectors {_EMBEDDING}"
        found = f"it takes {', '.join(signature.inputs)} and gives {', '.join(signature.outputs)}"
        raise _no_embeddings(version, f"{wanted}; {found}")
    return text


def _only_text_input(signature: ServedSignature) -> str | None:
    if len(signature.inputs) != 1:
        return None
    ((name, spec),) = signature.inputs.items()
    return name if spec.dtype == "string" and spec.shape in (None, (None,)) else None


def _tokenize_input(model: ServedModel) -> str | None:
    """Returns the input of the signature that counts tokens, None if the model has none."""
    signature = model.signatures.get(_TOKENIZE)
    return _only_text_input(signature) if signature and _LENGTHS in signature.outputs else None


def _no_embeddings(version: ServedVersion, reason: str) -> EmbeddingsError:
    return EmbeddingsError(f"The model {quoted(version.name)} gives no embeddings: {reason}.", "model")


def _check_dimensions(dimensions: int | None, shape: tuple | None) -> None:
    """Refuses more dimensions than vectors `[B, width]` have, as far as the width is known."""
    width = shape[1] if shape is not None and len(shape) == 2 else None
    if dimensions is not None and width is not None and dimensions > width:
        message = f'"dimensions" must be at most {width}, the width of this model. Received: {dimensions}'
        raise EmbeddingsError(message, "dimensions")


def shortened(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """Returns the first numbers of vectors, float32 `[B, width]`, divided by their new lengths; zeros stay zeros.

    >>> shortened(np.float32([[3, 4, 12], [0, 0, 5]]), 2)
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    kept = vectors[:, :dimensions]
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    return np.divide(kept, lengths, out=np.zeros_like(kept), where=lengths != 0)


def _answer_body(request: _Request, vectors: np.ndarray, num_tokens: int) -> bytes:
    if request.dimensions is not None:
        vectors = shortened(vectors, request.dimensions)
    values = _base64_texts(vectors) if request.as_base64 else _number_texts(vectors)
    data = ", ".join(
        f'{{"object": "embedding", "index": {index}, "embedding": {value}}}' for index, value in enumerate(values)
    )
    usage = f'{{"prompt_tokens": {num_tokens}, "total_tokens": {num_tokens}}}'
    text = f'{{"object": "list", "data": [{data}], "model": {quoted(request.model)}, "usage": {usage}}}'
    return text.encode("utf-8", "surrogateescape")


def _base64_texts(vectors: np.ndarray) -> list[str]:
    return [f'"{base64.b64encode(row.tobytes()).decode()}"' for row in vectors.astype("<f4")]


def _number_texts(vectors: np.ndarray) -> list[str]:
    return [f"[{', '.join(decimals(row))}]" for row in vectors]
