"""TensorFlow Serving's gRPC API: PredictionService and ModelService."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable

import grpc

from keras_bert.tf_serving.server.inference import Inference, ModelSpec, signature_of, signature_or_default
from keras_bert.tf_serving.server.model_config import model_configs
from keras_bert.tf_serving.server.model_messages import arrays_of, metadata_message, serialized_examples, status_message
from keras_bert.tf_serving.server.model_store import ModelVersion
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.methods import METHODS
from keras_bert.tf_serving.wire.tensors import array_to_tensor_proto

logger = logging.getLogger(__name__)

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_LARGE_MESSAGE = 1 << 16
_SIGNATURE_DEF = "signature_def"
_CLASSIFY, _REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


class GrpcService:
    """The methods of both services.

    Args:
        inference: answers requests.
        max_bytes: the limit for the memory of a request's inputs.
    """

    def __init__(self, inference: Inference, max_bytes: int):
        self._inference, self._max_bytes = inference, max_bytes

    def handlers(self) -> list:
        """Returns the argument for `grpc.aio.Server.add_generic_rpc_handlers`."""
        methods = {
            "Predict": self._counted("predict", self.predict),
            "Classify": self._counted("classify", self.classify),
            "Regress": self._counted("regress", self.regress),
            "MultiInference": _answering(self.multi_inference),
            "GetModelMetadata": _answering(self.metadata),
            "GetModelStatus": _answering(self.status),
            "HandleReloadConfigRequest": _answering(self.reload),
        }
        services = {}
        for name, answer in methods.items():
            path, request, response = METHODS[name]
            _, service, method = path.split("/")
            services.setdefault(service, {})[method] = grpc.unary_unary_rpc_method_handler(
                answer, _reader(getattr(messages, request)), getattr(messages, response).SerializeToString
            )
        return [grpc.method_handlers_generic_handler(name, handlers) for name, handlers in services.items()]

    def _counted(self, api: str, answer: Callable) -> Callable:
        async def counted(request, context):
            with self._inference.under_way(), self._inference.request(request.model_spec.name, api, "GRPC"):
                return await answer(request, context)

        return _answering(counted)

    async def predict(self, request, context):
        """Answers a `PredictRequest`."""
        version = self._find(request)
        signature_name = signature_or_default(request.model_spec.signature_name)
        with version.in_use():
            signature = signature_of(version, signature_name)
            inputs = await _in_thread_if_large(request, arrays_of, request, self._max_bytes)
            output_names = list(request.output_filter)
            for number, name in enumerate(output_names):
                if name not in signature.outputs:
                    raise invalid_argument(
                        "output tensor alias not found in signature: ", name,
                        " Outputs expected to be in the set {", ",".join(signature.outputs), "}.",
                    )  # fmt: skip
                if name in output_names[:number]:
                    raise invalid_argument("duplicate output tensor alias: ", name)
            outputs = await self._inference.predict(version, signature_name, inputs, context.time_remaining())
        response = messages.PredictResponse()
        _fill_spec(response.model_spec, version, signature_name)
        for name in output_names or outputs:
            response.outputs[name].CopyFrom(array_to_tensor_proto(outputs[name]))
        return response

    async def classify(self, request, context):
        """Answers a `ClassificationRequest`."""
        response = messages.ClassificationResponse()
        for row in await self._answers(self._inference.classify, request, context, response):
            classes = response.result.classifications.add().classes
            for name, score in row:
                classes.add(label=name.decode("utf-8", "replace"), score=score)
        return response

    async def regress(self, request, context):
        """Answers a `RegressionRequest`."""
        response = messages.RegressionResponse()
        for value in await self._answers(self._inference.regress, request, context, response):
            response.result.regressions.add(value=value)
        return response

    async def _answers(self, ask: Callable, request, context, response):
        """Returns what `ask` answers to the examples of a request, and writes who answers into the response."""
        version = self._find(request)
        signature_name = signature_or_default(request.model_spec.signature_name)
        with version.in_use():
            examples = serialized_examples(request.input, self._max_bytes)
            answers = await ask(version, signature_name, examples, context.time_remaining())
        _fill_spec(response.model_spec, version, signature_name)
        return answers

    async def multi_inference(self, request, context):
        """Answers a `MultiInferenceRequest`: several signatures of one model for the same examples."""
        if not request.tasks:
            raise invalid_argument("Inference request must contain at least one task.")
        names = {task.model_spec.name for task in request.tasks}
        if len(names) > 1:
            raise invalid_argument("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        signatures = [signature_or_default(task.model_spec.signature_name) for task in request.tasks]
        if len(set(signatures)) < len(signatures):
            twice = next(name for number, name in enumerate(signatures) if name in signatures[:number])
            raise invalid_argument("Duplicate evaluation of signature: ", twice)
        response = messages.MultiInferenceResponse()
        (name,) = names
        with self._inference.under_way(), self._inference.request(name, "multi_inference", "GRPC"):
            for task in request.tasks:
                part = {"model_spec": task.model_spec, "input": request.input}
                result = response.results.add()
                if task.method_name == _CLASSIFY:
                    answer = await self.classify(messages.ClassificationRequest(**part), context)
                    result.classification_result.CopyFrom(answer.result)
                elif task.method_name == _REGRESS:
                    answer = await self.regress(messages.RegressionRequest(**part), context)
                    result.regression_result.CopyFrom(answer.result)
                else:
                    raise StatusError(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {task.method_name}")
                result.model_spec.CopyFrom(answer.model_spec)
        return response

    async def metadata(self, request, context):
        """Answers a `GetModelMetadataRequest`."""
        if not request.HasField("model_spec"):
            raise invalid_argument("Missing ModelSpec")
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise invalid_argument("Metadata field ", field, " is not supported")
        if not request.metadata_field:
            return messages.GetModelMetadataResponse()
        return metadata_message(self._find(request))

    async def status(self, request, context):
        """Answers a `GetModelStatusRequest`."""
        if not request.HasField("model_spec"):
            raise invalid_argument("Missing ModelSpec")
        return status_message(self._inference.status(_spec(request.model_spec)))

    async def reload(self, request, context):
        """Answers a `ReloadConfigRequest`, which replaces the list of served models."""
        response = messages.ReloadConfigResponse()
        try:
            await self._inference.store.configure(model_configs(request.config))
        except StatusError as error:
            response.status.error_code, response.status.error_message = error.code, error.message
        return response

    def _find(self, request) -> ModelVersion:
        if not request.HasField("model_spec"):
            raise invalid_argument("Missing ModelSpec")
        return self._inference.find(_spec(request.model_spec))


def _answering(answer: Callable[..., Awaitable]) -> Callable[..., Awaitable]:
    """Returns the method with each `StatusError` converted to the status of the call."""

    @functools.wraps(answer)
    async def answering(request, context):
        try:
            if request is None:
                raise invalid_argument("The request is not a message of this method.")
            return await answer(request, context)
        except StatusError as error:
            code, message = _CODES[error.code], error.message
        except Exception:
            logger.exception("gRPC")
            code, message = grpc.StatusCode.INTERNAL, "Internal error. See the server's log."
        await context.abort(code, message)

    return answering


def _reader(message_class) -> Callable[[bytes], object]:
    def read(data: bytes):
        from google.protobuf.message import DecodeError

        try:
            return message_class.FromString(data)
        except DecodeError:
            return None  # rejected later, where a status can be returned

    return read


async def _in_thread_if_large(message, function: Callable, *arguments):
    if message.ByteSize() < _LARGE_MESSAGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def _spec(model_spec) -> ModelSpec:
    chosen = model_spec.WhichOneof("version_choice")
    return ModelSpec(
        model_spec.name,
        model_spec.version.value if chosen == "version" else None,
        model_spec.version_label if chosen == "version_label" else None,
    )


def _fill_spec(model_spec, version: ModelVersion, signature_name: str) -> None:
    model_spec.name = version.name
    model_spec.version.value = version.number
    model_spec.signature_name = signature_name
