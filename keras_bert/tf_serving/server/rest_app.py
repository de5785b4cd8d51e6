"""TensorFlow Serving's REST API as an ASGI application, with OpenAI's embeddings, health and the page."""

import asyncio
import contextlib
import json
import logging
import re
import urllib.parse
from collections.abc import AsyncIterator

from keras_bert.tf_serving.server.http_protocol import PLAIN_TEXT, HttpAnswer, send_answer
from keras_bert.tf_serving.server.inference import Inference, ModelSpec, signature_or_default
from keras_bert.tf_serving.server.json_examples import classification_body, examples_from_request, regression_body
from keras_bert.tf_serving.server.json_tensors import arrays_from_request, response_body
from keras_bert.tf_serving.server.json_text import error_body, parse_object, shown
from keras_bert.tf_serving.server.model_messages import metadata_body, status_body
from keras_bert.tf_serving.server.model_store import ServedVersion
from keras_bert.tf_serving.server.openai_embeddings import EMBEDDINGS_PATH, answer_embeddings, openai_error_body
from keras_bert.tf_serving.server.page import PAGE_HEADERS, page_html
from keras_bert.tf_serving.server.page_examples import about_model
from keras_bert.tf_serving.server.server_options import ServerOptions
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire.methods import http_status

logger = logging.getLogger(__name__)

# After refusing a body that is too large, up to so many times the limit is read and dropped, so that clients get the
# answer.
_DROPPED_BODIES = 8
# Larger bodies are parsed and formatted in a thread, so that other clients need not wait.
_LARGE_BODY = 1 << 16
_LARGE_ANSWER = 1 << 14

_VERSION = r"(?:(?:/versions/([0-9]+))|(?:/labels/([^/:]+)))?"
_ASK = re.compile(rf"(?i:/v1/models/([^/:]+){_VERSION}:(classify|regress|predict))")
_LOOK = re.compile(rf"(?i:/v1/models(?:/([^/:]+))?{_VERSION}(?:/(metadata))?)")


class RefusedBody(StatusError):
    """A body is larger than the server accepts, or did not arrive in time. The connection is closed after the answer.

    Attributes:
        http_status: 413 or 408, which no status code of TensorFlow Serving stands for.
    """

    def __init__(self, http_status: int, message: str):
        super().__init__(Code.INVALID_ARGUMENT, message)
        self.http_status = http_status


class RestApp:
    """The ASGI application.

    Args:
        inference: answers requests.
        options: the options of the server.
    """

    def __init__(self, inference: Inference, options: ServerOptions):
        self._inference, self._options = inference, options

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"][:4].lower() == "/v1/":
            answer = await self._api(scope, receive)
        else:
            answer = self._look_around(scope["method"], scope["path"])
        await send_answer(scope, send, answer)

    def _look_around(self, method: str, path: str) -> HttpAnswer:
        """Returns the page, a health check, the names of the models, or what the page shows of one."""
        if method not in ("GET", "HEAD"):
            return HttpAnswer(
                405, error_body(f"{path} answers GET only. Received: {method}"), headers={"allow": "GET, HEAD"}
            )
        if path == "/":
            return HttpAnswer(200, page_html(), "text/html; charset=utf-8", PAGE_HEADERS)
        if path == "/models":
            return HttpAnswer(200, json.dumps(self._inference.store.listing()).encode())
        if path.startswith("/models/"):
            return self._about(path.removeprefix("/models/"))
        if path in ("/healthz", "/healthz/live"):
            return HttpAnswer(200, b"ok\n", PLAIN_TEXT)
        if path == "/healthz/ready":
            if self._inference.store.is_ready:
                return HttpAnswer(200, b"ready\n", PLAIN_TEXT)
            return HttpAnswer(503, b"not every model is loaded\n", PLAIN_TEXT)
        return HttpAnswer(404, error_body(f"Not found: {path}"))

    def _about(self, name: str) -> HttpAnswer:
        """Returns what the page shows of a model."""
        try:
            model = self._inference.find(ModelSpec(name, None, None)).model
        except StatusError as failure:
            return HttpAnswer(http_status(failure.code.name), error_body(failure.message))
        return HttpAnswer(200, json.dumps(about_model(model)).encode())

    async def _api(self, scope, receive) -> HttpAnswer:
        """Returns the answer of the API below /v1/, in any case."""
        headers = {}
        try:
            return HttpAnswer(200, await self._answer(scope, receive))
        except RefusedBody as failure:
            status, error, headers = failure.http_status, failure, {"connection": "close"}
        except StatusError as failure:
            status, error = http_status(failure.code.name), failure
        except Exception:
            logger.exception("%s %s", scope["method"], scope["path"])
            status, error = 500, StatusError(Code.INTERNAL, "Internal error; the server's log says more.")
        is_openai = _path(scope) == EMBEDDINGS_PATH
        body = openai_error_body(status, error) if is_openai else error_body(error.message)
        return HttpAnswer(status, body, headers=headers)

    async def _answer(self, scope, receive) -> bytes:
        if scope["method"] != "POST":  # its body is not read
            return await self._answer_to(scope, b"", receive)
        with self._inference.under_way():
            return await self._answer_to(scope, await self._body(receive), receive)

    async def _answer_to(self, scope, body: bytes, receive) -> bytes:
        method, path = scope["method"], _path(scope)
        if method == "POST" and path == EMBEDDINGS_PATH:
            async with _while_connected(receive):
                return await answer_embeddings(self._inference, body, self._options.timeout_seconds)
        found = {"POST": _ASK, "GET": _LOOK}.get(method, re.compile("(?!)")).fullmatch(path)
        if not found:
            raise invalid_argument("Malformed request: ", method, " ", path)
        name, version, label, what = found.groups()
        spec = ModelSpec(_unquoted(name or ""), _version_number(version), None if label is None else _unquoted(label))
        if method == "GET":
            return self._look(spec, what)
        if what not in ("predict", "classify", "regress"):  # lower case only
            raise invalid_argument("Malformed request: ", method, " ", path)
        async with _while_connected(receive):
            return await self._ask(spec, what, body)

    def _look(self, spec: ModelSpec, what: str | None) -> bytes:
        if not spec.name:
            raise invalid_argument("Missing model name in request.")
        # Lower case only, as in TensorFlow Serving.
        return (
            metadata_body(self._inference.find(spec))
            if what == "metadata"
            else status_body(self._inference.status(spec))
        )

    async def _ask(self, spec: ModelSpec, what: str, body: bytes) -> bytes:
        request = parse_object(body) if len(body) < _LARGE_BODY else await asyncio.to_thread(parse_object, body)
        signature_name = request.get("signature_name", "")
        if not isinstance(signature_name, str):
            raise invalid_argument('"signature_name" must be a string. Received: ', shown(signature_name))
        signature_name = signature_or_default(signature_name)
        if what == "predict":
            version = self._inference.find(spec)
            with version.in_use():
                return await self._predict(version, signature_name, request, len(body))
        examples = examples_from_request(request, self._options.max_body_bytes)
        version = self._inference.find(spec)
        with version.in_use():
            if what == "classify":
                return classification_body(await self._inference.classify(version, signature_name, examples))
            return regression_body(await self._inference.regress(version, signature_name, examples))

    async def _predict(self, version: ServedVersion, signature_name: str, request: dict, size: int) -> bytes:
        signature = version.model.signatures.get(signature_name)
        if signature is None:
            raise invalid_argument('Serving signature name: "', signature_name, '" not found in signature def')
        dtypes = {name: spec.dtype for name, spec in signature.inputs.items()}
        if not dtypes:
            raise invalid_argument("Failed to get input map for signature: ", signature_name)
        if size < _LARGE_BODY:
            inputs, as_rows = arrays_from_request(request, dtypes)
        else:
            inputs, as_rows = await asyncio.to_thread(arrays_from_request, request, dtypes)
        outputs = await self._inference.predict(version, signature_name, inputs)
        if sum(array.size for array in outputs.values()) < _LARGE_ANSWER:
            return response_body(outputs, as_rows)
        return await asyncio.to_thread(response_body, outputs, as_rows)

    async def _body(self, receive) -> bytes:
        most, chunks, size, is_complete = self._options.max_body_bytes, [], 0, False
        try:
            async with asyncio.timeout(self._options.body_seconds):
                while not is_complete and size <= _DROPPED_BODIES * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise StatusError(Code.CANCELLED, "The client has disconnected.")
                    chunk, is_complete = message.get("body", b""), not message.get("more_body", False)
                    size += len(chunk)
                    if size <= most:
                        chunks.append(chunk)
                    else:
                        chunks.clear()
        except TimeoutError:
            seconds = f"{self._options.body_seconds:g} seconds"
            raise RefusedBody(408, f"The body did not arrive within {seconds}.") from None
        if size > most:
            raise RefusedBody(413, f"The body is larger than {most} bytes, the limit of this server.")
        return b"".join(chunks)


@contextlib.asynccontextmanager
async def _while_connected(receive) -> AsyncIterator[None]:
    """Cancels the work inside the block if the client disconnects, since nobody waits for the answer.

    Raises:
        StatusError: CANCELLED: the client has disconnected.
    """
    work, has_gone = asyncio.current_task(), False

    async def watch() -> None:
        nonlocal has_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        work.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not has_gone:
            raise
        work.uncancel()
        raise StatusError(Code.CANCELLED, "The client has disconnected.") from None
    finally:
        watcher.cancel()


def _path(scope) -> str:
    return scope["raw_path"].decode("latin-1").partition("?")[0]


def _unquoted(text: str) -> str:
    return urllib.parse.unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _version_number(text: str | None) -> int | None:
    if text is None:
        return None
    if len(text.lstrip("0")) > 19 or int(text) >= 2**63:
        raise invalid_argument("Failed to convert version: ", text, " to numeric.")
    return int(text)
