"""TensorFlow Serving's REST API as an ASGI application, with OpenAI's embeddings, health, metrics and the page."""

import asyncio
import contextlib
import logging
import re
import time
import urllib.parse
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from keras_bert.tf_serving.server.inference import Inference, ModelSpec, signature_or_default
from keras_bert.tf_serving.server.json_examples import classification_body, examples_from_request, regression_body
from keras_bert.tf_serving.server.json_tensors import arrays_from_request, response_body
from keras_bert.tf_serving.server.json_text import error_body, parse_object, shown
from keras_bert.tf_serving.server.model_messages import metadata_body, status_body
from keras_bert.tf_serving.server.model_store import ModelVersion
from keras_bert.tf_serving.server.openai_embeddings import EMBEDDINGS_PATH, answer_embeddings, openai_error_body
from keras_bert.tf_serving.server.page import PAGE_HEADERS, page_html
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire.methods import DEFAULT_METRICS_PATH, http_status

logger = logging.getLogger(__name__)

DEFAULT_MAX_BODY_BYTES = 64 << 20
# After refusing a body that is too large, up to so many times the limit is read and dropped, so that clients get the
# answer.
_DROPPED_BODIES = 8
# Larger bodies are parsed and formatted in a thread, so that other clients need not wait.
_LARGE_BODY = 1 << 16
_LARGE_ANSWER = 1 << 14

_VERSION = r"(?:(?:/versions/([0-9]+))|(?:/labels/([^/:]+)))?"
_ASK = re.compile(rf"(?i:/v1/models/([^/:]+){_VERSION}:(classify|regress|predict))")
_LOOK = re.compile(rf"(?i:/v1/models(?:/([^/:]+))?{_VERSION}(?:/(metadata))?)")


class TooLarge(Exception):
    """A body is larger than the server accepts."""


class TooSlow(Exception):
    """A body did not arrive in time."""


class RestApi:
    """The part of the API below /v1, as an ASGI application.

    Args:
        inference: answers requests.
        max_body_bytes: larger bodies are refused with status 413.
        body_seconds: bodies that take longer to arrive are refused with status 408.
    """

    def __init__(self, inference: Inference, *, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES, body_seconds: float = 60):
        self._inference = inference
        self._max_body_bytes, self._body_seconds = max_body_bytes, body_seconds

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        status, headers, error = 200, [], None
        try:
            body = await self._answer(scope, receive)
        except StatusError as failure:
            status, error = http_status(failure.code.name), failure
        except TooLarge:
            text = f"The body is larger than {self._max_body_bytes} bytes, the limit of this server."
            status, error, headers = 413, invalid_argument(text), [(b"connection", b"close")]
        except TooSlow:
            text = f"The body did not arrive within {self._body_seconds:g} seconds."
            status, error, headers = 408, invalid_argument(text), [(b"connection", b"close")]
        except Exception:
            logger.exception("%s %s", scope["method"], scope["path"])
            status, error = 500, StatusError(Code.INTERNAL, "Internal error; the server's log says more.")
        if error is not None:
            is_openai = _path(scope) == EMBEDDINGS_PATH
            body = openai_error_body(status, error) if is_openai else error_body(error.message)
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope, receive) -> bytes:
        if scope["method"] != "POST":  # its body is not read
            return await self._answer_to(scope, b"", receive)
        with self._inference.under_way():
            return await self._answer_to(scope, await self._body(receive), receive)

    async def _answer_to(self, scope, body: bytes, receive) -> bytes:
        method, path = scope["method"], _path(scope)
        if method == "POST" and path == EMBEDDINGS_PATH:
            async with _while_connected(receive):
                return await answer_embeddings(self._inference, body)
        found = {"POST": _ASK, "GET": _LOOK}.get(method, re.compile("(?!)")).fullmatch(path)
        if not found:
            raise invalid_argument("Malformed request: ", method, " ", path)
        name, version, label, what = found.groups()
        spec = ModelSpec(_unquoted(name or ""), _version_number(version), None if label is None else _unquoted(label))
        if method == "GET":
            return self._look(spec, what)
        if what not in ("predict", "classify", "regress"):  # lower case only
            raise invalid_argument("Malformed request: ", method, " ", path)
        with self._inference.request(spec.name, what, "REST"):
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
        examples = examples_from_request(request, self._max_body_bytes)
        version = self._inference.find(spec)
        with version.in_use():
            if what == "classify":
                return classification_body(await self._inference.classify(version, signature_name, examples))
            return regression_body(await self._inference.regress(version, signature_name, examples))

    async def _predict(self, version: ModelVersion, signature_name: str, request: dict, size: int) -> bytes:
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
        message = await self._message(receive, time.monotonic() + self._body_seconds)
        if not message["more_body"] and len(message["body"]) <= self._max_body_bytes:
            return message["body"]
        return await self._long_body(message, receive)

    async def _long_body(self, message: dict, receive) -> bytes:
        end = time.monotonic() + self._body_seconds
        chunks, size = [message["body"]], len(message["body"])
        while message["more_body"] and size <= _DROPPED_BODIES * self._max_body_bytes:
            message = await self._message(receive, end)
            size += len(message["body"])
            if size <= self._max_body_bytes:
                chunks.append(message["body"])
            else:
                chunks.clear()
        if size > self._max_body_bytes:
            raise TooLarge
        return b"".join(chunks)

    async def _message(self, receive, end: float) -> dict:
        try:
            async with asyncio.timeout(max(0, end - time.monotonic())):
                message = await receive()
        except TimeoutError:
            raise TooSlow from None
        if message["type"] == "http.disconnect":
            raise StatusError(Code.CANCELLED, "The client has disconnected.")
        return {"body": message.get("body", b""), "more_body": message.get("more_body", False)}


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


def make_app(inference: Inference, api: RestApi, *, metrics_path: str | None = DEFAULT_METRICS_PATH):
    """Returns the whole application: the API, the page at /, health check and metrics.

    Args:
        metrics_path: the path of the metrics for Prometheus; None for no metrics.
    """

    async def live(request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def ready(request: Request) -> Response:
        if inference.store.is_ready:
            return Response("ready\n", media_type="text/plain")
        return Response("not every model is loaded\n", 503, media_type="text/plain")

    async def metrics(request: Request) -> Response:
        return Response(inference.metrics.page(), media_type="text/plain")

    async def page(request: Request) -> Response:
        return Response(page_html(), media_type="text/html", headers=PAGE_HEADERS)

    async def models(request: Request) -> Response:
        return JSONResponse({"models": sorted(inference.store.configs)})

    async def unknown(request: Request, error: Exception) -> Response:
        return Response(error_body(f"Not found: {request.url.path}"), 404, media_type="application/json")

    routes = [
        Route("/", page),
        Route("/models", models),
        Route("/healthz", live),
        Route("/healthz/live", live),
        Route("/healthz/ready", ready),
    ]
    if metrics_path is not None:
        routes.append(Route(metrics_path, metrics))
    return _ApiFirst(api, Starlette(routes=routes, exception_handlers={404: unknown}))


class _ApiFirst:
    """Passes paths below /v1/, in any case, to the API, and all others to `others`."""

    def __init__(self, api: RestApi, others: Starlette):
        self._api, self._others = api, others

    async def __call__(self, scope, receive, send) -> None:
        is_api = scope["type"] == "http" and scope["path"][:4].lower() == "/v1/"
        await (self._api if is_api else self._others)(scope, receive, send)
