"""A gRPC server made from the official tensorflow-serving-api, for tests of clients.

Its messages, services and paths are Google's. What it answers comes from a `Model` of this file or of a test.
"""

import concurrent.futures
import functools
import pathlib

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)


class Refused(Exception):
    """A request is refused: (name of a gRPC status, text)."""


class Model:
    """What a server serves. Subclasses have these attributes, and say what they answer with these methods:

    predict(signature, inputs) returns arrays for arrays; strings are bytes.
    classify(signature, examples) returns (class, score) for each class of each tf.train.Example.
    regress(signature, examples) returns a number for each tf.train.Example.

    Attributes:
        name: the model's name.
        versions: version -> state.
        labels: label -> version.
        signature_defs: name -> SignatureDef.
    """

    name, versions, labels = "toy", {1: "AVAILABLE"}, {}

    def find(self, name: str, version: int | None = None, label: str | None = None) -> int:
        """Returns the version to ask: the named one, or the newest that is available."""
        newest = max(number for number, state in self.versions.items() if state == "AVAILABLE")
        number = self.labels.get(label) if label is not None else newest if version is None else version
        if name != self.name or self.versions.get(number) != "AVAILABLE":
            is_latest = version is None and label is None
            asked = f"Latest({name})" if is_latest else f"Specific({name}, {number})"
            raise Refused("NOT_FOUND", f"Servable not found for request: {asked}")
        return number

    def status(self):
        """Returns the GetModelStatusResponse, which REST servers print as JSON."""
        answer = get_model_status_pb2.GetModelStatusResponse()
        for number, state in self.versions.items():
            states = get_model_status_pb2.ModelVersionStatus.State
            answer.model_version_status.add(version=number, state=states.Value(state)).status.SetInParent()
        return answer

    def metadata(self):
        """Returns the SignatureDefMap."""
        return get_model_metadata_pb2.SignatureDefMap(signature_def=self.signature_defs)

    def checked(self, signature: str, names) -> None:
        """Refuses signatures that there are not, and inputs with other names."""
        if signature not in self.signature_defs:
            raise Refused("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
        taken = sorted(self.signature_defs[signature].inputs)
        if sorted(names) != taken:
            raise Refused("INVALID_ARGUMENT", f"The signature {signature} takes {taken}.")


class OfficialGrpcServer:
    """Serves a model over gRPC until `close`.

    Args:
        model: a `Model`.
        before: called with the method's name, the request and the context before each answer.
        certificate: the files (certificate, key) in PEM for TLS.
    """

    def __init__(self, model: Model, before=lambda name, request, context: None, certificate=None):
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        services = _Services(model, before)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(services, self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(services, self._server)
        if certificate:
            pem, key = (pathlib.Path(name).read_bytes() for name in certificate)
            credentials = grpc.ssl_server_credentials([(key, pem)])
            self.address = f"127.0.0.1:{self._server.add_secure_port('127.0.0.1:0', credentials)}"
        else:
            self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()


def _method(answer):
    """Returns a method of a service, whose `Refused` becomes the status of the call."""

    @functools.wraps(answer)
    def method(self, request, context):
        self.before(answer.__name__, request, context)
        try:
            spec = request.model_spec
            kind = spec.WhichOneof("version_choice")
            version = spec.version.value if kind == "version" else None
            version = self.model.find(spec.name, version, spec.version_label if kind == "version_label" else None)
            response = answer(self, request, spec.signature_name or "serving_default")
        except Refused as refusal:
            context.abort(grpc.StatusCode[refusal.args[0]], refusal.args[1])
        if answer.__name__ != "GetModelStatus":
            response.model_spec.CopyFrom(spec)
            response.model_spec.version.value = version
        return response

    return method


class _Services(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, model: Model, before):
        self.model, self.before = model, before

    @_method
    def Predict(self, request, signature):
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        outputs = self.model.predict(signature, inputs)
        return predict_pb2.PredictResponse(outputs={name: tf.make_tensor_proto(outputs[name]) for name in outputs})

    @_method
    def Classify(self, request, signature):
        response = classification_pb2.ClassificationResponse()
        for row in self.model.classify(signature, request.input.example_list.examples):
            classes = response.result.classifications.add().classes
            for label, score in row:
                classes.add(label=label, score=score)
        return response

    @_method
    def Regress(self, request, signature):
        response = regression_pb2.RegressionResponse()
        for value in self.model.regress(signature, request.input.example_list.examples):
            response.result.regressions.add(value=value)
        return response

    @_method
    def GetModelMetadata(self, request, signature):
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(self.model.metadata())
        return response

    @_method
    def GetModelStatus(self, request, signature):
        return self.model.status()
