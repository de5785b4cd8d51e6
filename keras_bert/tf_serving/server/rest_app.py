"""The routes of the server as an ASGI application: TensorFlow Serving's REST API, OpenAI's embeddings, and the page."""

import functools
import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.server.http_protocol import HttpAnswer, error_body, send_answer
from keras_bert.tf_serving.server.model_requests import metadata_body, predict_body, status_body
from keras_bert.tf_serving.server.openai_embeddings import EMBEDDINGS_PATH, embeddings_body, openai_error_body
from keras_bert.tf_serving.server.page import PAGE_HEADERS, about_model, page_html
from keras_bert.tf_serving.server.request_limits import RequestError, RequestLimits, ServerOptions

logger = logging.getLogger(__name__)

_MODEL = re.compile(r"/v1/models/([^/:]+)(/(?:versions|labels)/[^/:]+)?(/metadata|:[a-z]+)?")


class RestApp:
    """The ASGI application. `models`: name in requests -> loaded export."""

    def __init__(self, models: Mapping[str, Any], options: ServerOptions):
        self._models, self._options, self._limits = models, options, RequestLimits(options)

    def close(self) -> None:
        self._limits.close()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http":
            await send_answer(scope, send, await self._answer(scope, receive))

    async def _answer(self, scope, receive) -> HttpAnswer:
        method, path = scope["method"], scope["path"]
        try:
            if path == "/":
                _check_method(method, path, "GET")
                return HttpAnswer(200, page_html(), "text/html; charset=utf-8", PAGE_HEADERS)
            return HttpAnswer(200, await self._api(method, path, receive))
        except RequestError as error:
            refusal = error
        except InputError as error:
            refusal = RequestError(400, str(error))
        except Exception:
            logger.exception("%s %s", method, path)
            refusal = RequestError(500, "Internal error; the server's log says more.")
        body = openai_error_body(refusal) if path == EMBEDDINGS_PATH else error_body(refusal.message)
        return HttpAnswer(refusal.status, body, headers=refusal.headers)

    async def _api(self, method: str, path: str, receive) -> bytes:
        """Returns the body of an answer in JSON. Raises `RequestError` or `InputError` if there is none."""
        if path == EMBEDDINGS_PATH:
            _check_method(method, path, "POST")
            return await self._computed(functools.partial(embeddings_body, self._models), receive)
        if path == "/models":
            _check_method(method, path, "GET")
            return json.dumps({"models": list(self._models)}).encode()
        if path.startswith("/models/"):
            _check_method(method, path, "GET")
            return json.dumps(about_model(self._model(path.removeprefix("/models/")))).encode()
        found = _MODEL.fullmatch(path)
        if not found:
            raise RequestError(404, f"Not found: {path}")
        name, version, what = found.groups()
        if version:
            raise RequestError(
                404,
                f"This server has one version of a model, and no numbers or labels of versions. Ask /v1/models/{name}, "
                "or serve the folder with TensorFlow Serving.",
            )
        model = self._model(name)
        if what in (None, "/metadata"):
            _check_method(method, path, "GET")
            return metadata_body(name, model) if what else status_body()
        if what != ":predict":
            raise RequestError(
                501,
                f"This server answers {name}:predict only. Ask predict for the same numbers, or serve the folder with "
                f"TensorFlow Serving. Received: {name}{what}",
            )
        _check_method(method, path, "POST")
        return await self._computed(functools.partial(predict_body, model), receive)

    async def _computed(self, answer: Callable[[bytes, int], bytes], receive) -> bytes:
        """Returns the answer of a function of the body and the largest number of rows."""
        with self._limits.under_way():
            body = await self._limits.body(receive)
            return await self._limits.computed(functools.partial(answer, body, self._options.max_rows))

    def _model(self, name: str) -> Any:
        if name not in self._models:
            raise RequestError(404, f"There is no model {name}. This server has: {', '.join(self._models)}")
        return self._models[name]


def _check_method(method: str, path: str, expected: str) -> None:
    allowed = ("GET", "HEAD") if expected == "GET" else (expected,)
    if method not in allowed:
        message = f"{path} answers {expected} only. Received: {method}"
        raise RequestError(405, message, {"allow": ", ".join(allowed)})
