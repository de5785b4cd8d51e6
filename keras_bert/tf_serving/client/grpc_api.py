"""TF Serving's gRPC API: a format and a channel, with the messages and services of tensorflow-serving-api.

Importing this file imports TensorFlow, which these messages need.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.tf_serving.client.errors import ServingError, serving_error
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion, Signature, Tensor
from keras_bert.tf_serving.client.request_batches import bytes_to_string, map_strings

try:
    import grpc
    from tensorflow_serving.apis.classification_pb2 import ClassificationRequest
    from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest, SignatureDefMap
    from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest
    from tensorflow_serving.apis.input_pb2 import Input
    from tensorflow_serving.apis.model_pb2 import ModelSpec
    from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub
    from tensorflow_serving.apis.predict_pb2 import PredictRequest
    from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub
    from tensorflow_serving.apis.regression_pb2 import RegressionRequest
except ImportError as error:
    raise InputError(
        f"A gRPC client needs tensorflow-serving-api, which is not installed ({error}); REST clients do not. "
        f"{how_to_install('client')}"
    ) from error

_OPTIONS = [
    # The server limits sizes itself; the library's limit is 4 MB.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Only asking.py decides when a request is sent again.
    ("grpc.enable_retries", 0),
    # A server that has just started must be found within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
# The values of a tensor that an answer may fill. A shape of a few bytes can ask for any memory.
_MOST_VALUES = 1 << 28


@dataclasses.dataclass(frozen=True)
class GrpcRequest:
    """A request: the name of a method of TF Serving, its message, and the server, for error messages."""

    method: str
    message: object
    server: str


class GrpcFormat:
    """Writes the requests for one model and reads the answers. `address` is for error messages."""

    def __init__(self, address: str, model: str, version: int | None, label: str | None):
        self._spec = ModelSpec(name=model)
        if version is not None:
            self._spec.version.value = version
        if label is not None:
            self._spec.version_label = label
        place = f"/versions/{version}" if version is not None else f"/labels/{label}" if label is not None else ""
        self.server = f"{address} (model {model}{place})"

    def predict(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> GrpcRequest:
        import tensorflow as tf

        message = PredictRequest(model_spec=self._named(signature_name))
        for name, array in inputs.items():
            try:
                message.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            except (TypeError, ValueError) as error:  # no such type, or 2 GB
                raise InputError(
                    f"The input {name}, an array of type {array.dtype}, cannot be sent: {error}"
                ) from error
        return GrpcRequest("Predict", message, self.server)

    def read_predict(self, answer: Any) -> dict[str, np.ndarray]:
        return {name: self._array(name, proto) for name, proto in sorted(answer.outputs.items())}

    def classify(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> GrpcRequest:
        message = ClassificationRequest(model_spec=self._named(signature_name), input=_examples(inputs))
        return GrpcRequest("Classify", message, self.server)

    def read_classify(self, answer: Any) -> dict[str, np.ndarray]:
        rows = [row.classes for row in answer.result.classifications]
        scores = np.array([[item.score for item in row] for row in rows], np.float32)
        classes = np.array([[item.label for item in row] for row in rows], object)
        return {"classes": classes.reshape(scores.shape), "scores": scores}

    def regress(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> GrpcRequest:
        message = RegressionRequest(model_spec=self._named(signature_name), input=_examples(inputs))
        return GrpcRequest("Regress", message, self.server)

    def read_regress(self, answer: Any) -> np.ndarray:
        return np.array([item.value for item in answer.result.regressions], np.float32)

    def status(self) -> GrpcRequest:
        return GrpcRequest("GetModelStatus", GetModelStatusRequest(model_spec=self._spec), self.server)

    def read_status(self, answer: Any) -> list[ModelVersion]:
        return [
            ModelVersion(
                version.version,
                _enum_name(version, "state", version.state),
                _enum_name(version.status, "error_code", version.status.error_code),
                version.status.error_message,
            )
            for version in answer.model_version_status
        ]

    def metadata(self) -> GrpcRequest:
        message = GetModelMetadataRequest(model_spec=self._spec, metadata_field=["signature_def"])
        return GrpcRequest("GetModelMetadata", message, self.server)

    def read_metadata(self, answer: Any) -> ModelMetadata:
        found = SignatureDefMap()
        if "signature_def" not in answer.metadata or not answer.metadata["signature_def"].Unpack(found):
            raise self._unknown("the metadata has no signatures")
        signatures = {
            name: Signature(
                {key: _tensor(info) for key, info in sorted(signature.inputs.items())},
                {key: _tensor(info) for key, info in sorted(signature.outputs.items())},
                signature.method_name,
            )
            for name, signature in sorted(found.signature_def.items())
        }
        return ModelMetadata(answer.model_spec.name, answer.model_spec.version.value, signatures)

    def _named(self, signature_name: str) -> ModelSpec:
        spec = ModelSpec()
        spec.CopyFrom(self._spec)
        spec.signature_name = signature_name
        return spec

    def _array(self, name: str, proto: Any) -> np.ndarray:
        import tensorflow as tf

        shape = [dim.size for dim in proto.tensor_shape.dim]
        try:
            if min(shape, default=0) < 0 or math.prod(shape) > _MOST_VALUES:
                raise ValueError(f"its shape is {shape}")
            array = tf.make_ndarray(proto)
        except (TypeError, ValueError) as error:
            raise self._unknown(f"the output {name} cannot be read: {error}") from error
        # As in the REST API, outputs named ..._bytes stay bytes.
        return map_strings(bytes_to_string, array) if array.dtype == object and not name.endswith("_bytes") else array

    def _unknown(self, text: str) -> ServingError:
        return serving_error(self.server, "UNKNOWN", text)


def _examples(inputs: Mapping[str, np.ndarray]) -> Input:
    """Returns rows of features as tf.train.Example messages."""
    message = Input()
    message.example_list.SetInParent()
    for row in range(min(map(len, inputs.values()))):
        features = message.example_list.examples.add().features.feature
        for name, array in inputs.items():
            # A slice, because a single object would lose its trailing NULs.
            values, kind = array[row : row + 1].ravel().tolist(), array.dtype.kind
            if kind == "O":
                features[name].bytes_list.value.extend(values)
            elif kind in "iub":
                features[name].int64_list.value.extend(map(int, values))
            else:
                features[name].float_list.value.extend(values)
    return message


def _enum_name(message: Any, field: str, number: int) -> str:
    values = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return values[number].name if number in values else str(number)


def _tensor(info: Any) -> Tensor:
    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
    return Tensor(_enum_name(info, "dtype", info.dtype).removeprefix("DT_").lower(), shape)


class GrpcChannel:
    """Sends requests to one server. Threads may share it; one for asyncio belongs to the event loop it is created in.

    Args:
        address, headers, credentials: as in `GrpcClient`; the headers are sent as gRPC's metadata.
        is_asyncio: whether `send` suspends its task instead of blocking its thread.

    Raises:
        InputError: the address is a URL or empty.
    """

    def __init__(
        self, address: str, headers: Mapping[str, str], credentials: grpc.ChannelCredentials | None, *, is_asyncio: bool
    ):
        if "://" in address or not address:
            raise InputError(
                f"{address!r} is not the address of a gRPC server. Write host:port; for TLS give credentials."
            )
        self._headers = [(name.lower(), value) for name, value in headers.items()]
        self._is_asyncio = is_asyncio
        library = grpc.aio if is_asyncio else grpc
        if credentials is None:
            self._channel = library.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = library.secure_channel(address, credentials, options=_OPTIONS)
        # The methods of both services, by name.
        self._methods = {**vars(PredictionServiceStub(self._channel)), **vars(ModelServiceStub(self._channel))}

    async def send(self, request: GrpcRequest, timeout: float) -> Any:
        """Returns the message that answers a request. Raises `ServingError` if none does in `timeout` seconds."""
        try:
            answer = self._methods[request.method](request.message, timeout=timeout, metadata=self._headers)
            return await answer if self._is_asyncio else answer
        except grpc.RpcError as error:
            raise serving_error(request.server, error.code().name, error.details() or "(no text)") from error

    async def close(self) -> None:
        closing = self._channel.close()
        if self._is_asyncio:
            await closing


def tls_credentials(certificates: bytes | None) -> grpc.ChannelCredentials:
    """Returns the credentials for TLS; `certificates` are those to trust, in PEM, None for those of the system."""
    return grpc.ssl_channel_credentials(certificates)
