"""Runs the requests of a version's warm-up file before the version is available, as TensorFlow Serving does."""

import os

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.tf_serving.kit.warm_up import MOST_RECORDS, WARM_UP_FILE
from keras_bert.tf_serving.server.loaded_model import DEFAULT_SIGNATURE, Arrays, ServedModel
from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.strings import string_array
from keras_bert.tf_serving.wire.tensors import tensor_proto_to_array


def load_and_warm_up(folder: str) -> ServedModel:
    """Loads a SavedModel and runs the requests of its warm-up file, if it has one.

    Raises:
        StatusError: the model cannot be loaded, or a warm-up request fails.
    """
    model = ServedModel(folder)
    try:
        replay(model)
    except BaseException:
        model.close()
        raise
    return model


def replay(model: ServedModel) -> int:
    """Runs the requests of the model's warm-up file, and returns their number.

    Raises:
        StatusError: the file is damaged or has too many records, or a request fails.
    """
    path, count = os.path.join(model.folder, WARM_UP_FILE), 0
    if not os.path.isfile(path):
        return 0
    try:
        for record in iterate_records(path):
            count += 1
            if count > MOST_RECORDS:
                raise invalid_argument("Number of warmup records exceeds the maximum (", MOST_RECORDS, ") at ", path)
            run_log(model, _log(record))
    except InputError as error:
        raise StatusError(Code.DATA_LOSS, f"Failed to read warmup record: {error}") from None
    return count


def run_log(model: ServedModel, log) -> None:
    """Runs the request of a `PredictionLog`. Raises `StatusError` if it fails."""
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        _ask(model, request.model_spec, _arrays(request))
    elif kind in ("classify_log", "regress_log"):
        request = getattr(log, kind).request
        _ask(model, request.model_spec, _inputs(request))
    elif kind == "multi_inference_log":
        request = log.multi_inference_log.request
        for task in request.tasks:
            _ask(model, task.model_spec, _inputs(request))
    else:
        raise StatusError(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")


def _log(record: bytes):
    from google.protobuf.message import DecodeError

    try:
        return messages.PredictionLog.FromString(record)
    except DecodeError:
        raise invalid_argument("Failed to parse warmup record: it is not a PredictionLog.") from None


def _arrays(request) -> Arrays:
    arrays = {}
    for name, tensor in request.inputs.items():
        try:
            arrays[name] = tensor_proto_to_array(tensor)
        except InputError:
            raise invalid_argument("tensor parsing error: ", name) from None
    return arrays


def _inputs(request) -> Arrays:
    """Returns the examples of an `Input`, each preceded by the features of its context."""
    given = request.input
    kind = given.WhichOneof("kind")
    if kind is None:
        return {"inputs": string_array([])}
    examples = getattr(given, kind)
    context = examples.context.SerializeToString() if kind == "example_list_with_context" else b""
    return {"inputs": string_array([context + example.SerializeToString() for example in examples.examples])}


def _ask(model: ServedModel, model_spec, inputs: Arrays) -> None:
    name = model_spec.signature_name or DEFAULT_SIGNATURE
    if name not in model.signatures:
        raise StatusError(Code.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
    model.run(name, model.signatures[name].checked(inputs))
