"""Requests and answers of TF Serving's gRPC API."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.errors import serving_error
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion, Signature, Tensor
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.strings import bytes_to_string, map_strings
from keras_bert.tf_serving.wire.tensors import array_to_tensor_proto, tensor_proto_to_array


@dataclasses.dataclass(frozen=True)
class GrpcRequest:
    """A request: the name of a method in `wire.methods`, its message, and the server, for error messages."""

    method: str
    message: object
    server: str


class GrpcFormat:
    """Writes the requests for one model and reads the answers.

    Args:
        address: the server's address, for error messages.
        model, version, label: the model to ask; the newest version if neither version nor label is given.
    """

    def __init__(self, address: str, model: str, version: int | None, label: str | None):
        self._spec = messages.ModelSpec(name=model)
        if version is not None:
            self._spec.version.value = version
        if label is not None:
            self._spec.version_label = label
        place = f"/versions/{version}" if version is not None else f"/labels/{label}" if label is not None else ""
        self.server = f"{address} (model {model}{place})"

    def predict(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> GrpcRequest:
        message = messages.PredictRequest(model_spec=self._named(signature_name))
        for name, array in inputs.items():
            message.inputs[name].CopyFrom(array_to_tensor_proto(array))
        return GrpcRequest("Predict", message, self.server)

    def read_predict(self, answer) -> dict[str, np.ndarray]:
        return {name: self._array(name, proto) for name, proto in sorted(answer.outputs.items())}

    def classify(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> GrpcRequest:
        message = messages.ClassificationRequest(model_spec=self._named(signature_name), input=_examples(inputs))
        return GrpcRequest("Classify", message, self.server)

    def read_classify(self, answer) -> dict[str, np.ndarray]:
        rows = [row.classes for row in answer.result.classifications]
        scores = np.array([[item.score for item in row] for row in rows], np.float32)
        classes = np.array([[item.label for item in row] for row in rows], object)
        return {"classes": classes.reshape(scores.shape), "scores": scores}

    def regress(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> GrpcRequest:
        message = messages.RegressionRequest(model_spec=self._named(signature_name), input=_examples(inputs))
        return GrpcRequest("Regress", message, self.server)

    def read_regress(self, answer) -> np.ndarray:
        return np.array([item.value for item in answer.result.regressions], np.float32)

    def status(self) -> GrpcRequest:
        return GrpcRequest("GetModelStatus", messages.GetModelStatusRequest(model_spec=self._spec), self.server)

    def read_status(self, answer) -> list[ModelVersion]:
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
        message = messages.GetModelMetadataRequest(model_spec=self._spec, metadata_field=["signature_def"])
        return GrpcRequest("GetModelMetadata", message, self.server)

    def read_metadata(self, answer) -> ModelMetadata:
        found = messages.SignatureDefMap()
        if "signature_def" not in answer.metadata or not answer.metadata["signature_def"].Unpack(found):
            raise serving_error(self.server, "UNKNOWN", "the metadata has no signatures")
        signatures = {
            name: Signature(
                {key: _tensor(info) for key, info in sorted(signature.inputs.items())},
                {key: _tensor(info) for key, info in sorted(signature.outputs.items())},
                signature.method_name,
            )
            for name, signature in sorted(found.signature_def.items())
        }
        return ModelMetadata(answer.model_spec.name, answer.model_spec.version.value, signatures)

    def _named(self, signature_name: str) -> "messages.ModelSpec":
        spec = messages.ModelSpec()
        spec.CopyFrom(self._spec)
        spec.signature_name = signature_name
        return spec

    def _array(self, name: str, proto) -> np.ndarray:
        try:
            array = tensor_proto_to_array(proto)
        except InputError as error:
            raise serving_error(self.server, "UNKNOWN", f"the output {name} cannot be read: {error}") from error
        # As in the REST API, outputs named ..._bytes stay bytes.
        return map_strings(bytes_to_string, array) if array.dtype == object and not name.endswith("_bytes") else array


def serialized_examples(inputs: Mapping[str, np.ndarray]) -> list[bytes]:
    """Returns each row of features as the bytes of a tf.train.Example."""
    examples = _examples(inputs).example_list.examples
    return [example.SerializeToString(deterministic=True) for example in examples]


def _examples(inputs: Mapping[str, np.ndarray]) -> "messages.Input":
    """Returns rows of features as tf.train.Example messages."""
    message = messages.Input()
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


def _enum_name(message, field: str, number: int) -> str:
    values = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return values[number].name if number in values else str(number)


def _tensor(info) -> Tensor:
    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
    return Tensor(_enum_name(info, "dtype", info.dtype).removeprefix("DT_").lower(), shape)
