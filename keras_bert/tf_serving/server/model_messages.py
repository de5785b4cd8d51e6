"""Reads TensorFlow Serving's requests, and writes metadata and status of models, as messages and as JSON."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.server.model_store import ModelVersion
from keras_bert.tf_serving.server.status import StatusError, invalid_argument
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.tensors import MAX_BYTES, TensorTooLarge, tensor_proto_to_array


def arrays_of(request, max_bytes: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """Returns the inputs of a `PredictRequest`.

    Raises:
        StatusError: INVALID_ARGUMENT: a tensor is damaged, or the inputs take more than `max_bytes` in total. The last
            value of a tensor is repeated to fill its shape, so a few bytes can describe a tensor of any size.
    """
    arrays, left = {}, max_bytes
    for name, tensor in request.inputs.items():
        try:
            array = arrays[name] = tensor_proto_to_array(tensor, left)
        except TensorTooLarge:
            raise _too_large(f"with the input {name} ", max_bytes) from None
        except InputError:
            raise invalid_argument("tensor parsing error: ", name) from None
        left -= array.nbytes + (sum(map(len, array.flat)) if array.dtype == object else 0)
    return arrays


def with_context(context: bytes, examples: Sequence[bytes], max_bytes: int) -> list[bytes]:
    """Returns serialised examples, with the features of a context before those of each example.

    Raises:
        StatusError: INVALID_ARGUMENT: the contexts of all examples take more than `max_bytes`.
    """
    if len(context) * len(examples) > max_bytes:
        raise _too_large("with its context in every example ", max_bytes)
    return [context + example for example in examples]


def _too_large(what: str, max_bytes: int) -> StatusError:
    return invalid_argument(
        "The request takes more than ", max_bytes, " bytes ", what,
        "(the limit of this server is --max_body_bytes). Send fewer rows at a time.",
    )  # fmt: skip


def serialized_examples(given, max_bytes: int = MAX_BYTES) -> list[bytes]:
    """Returns the examples of an `Input`, each preceded by the features of its context (see `with_context`)."""
    kind = given.WhichOneof("kind")
    if kind is None:
        return []
    examples = getattr(given, kind)
    context = examples.context.SerializeToString() if kind == "example_list_with_context" else b""
    return with_context(context, [example.SerializeToString() for example in examples.examples], max_bytes)


def metadata_message(version: ModelVersion):
    """Returns the `GetModelMetadataResponse` of an available version."""
    signatures = messages.SignatureDefMap()
    for name, signature in version.model.signatures.items():
        signatures.signature_def[name].ParseFromString(signature.definition.SerializeToString())
        signatures.signature_def[name].ClearField("defaults")  # TensorFlow Serving leaves them out too
    response = messages.GetModelMetadataResponse()
    response.model_spec.name = version.name
    response.model_spec.version.value = version.number
    response.metadata["signature_def"].Pack(signatures)
    return response


def metadata_body(version: ModelVersion) -> bytes:
    """Returns the body of the answer to GET .../metadata."""
    response = metadata_message(version)
    signatures = messages.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    spec, signatures = _json(response.model_spec), _json(signatures)
    return f'{{\n"model_spec":{spec}\n,\n"metadata": {{"signature_def": {signatures}\n}}\n}}\n'.encode()


def status_message(versions: Iterable[ModelVersion]):
    """Returns the `GetModelStatusResponse` of versions."""
    response = messages.GetModelStatusResponse()
    for version in versions:
        status = response.model_version_status.add()
        status.version = version.number
        status.state = status.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_name[version.state].number
        status.status.error_code = version.error.code if version.error else 0
        status.status.error_message = version.error.message if version.error else ""
    return response


def status_body(versions: Iterable[ModelVersion]) -> bytes:
    """Returns the body of the answer to GET /v1/models/NAME."""
    return (_json(status_message(versions)) + "\n").encode()


def _json(message) -> str:
    from google.protobuf import json_format

    return json_format.MessageToJson(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
        indent=1,
        ensure_ascii=False,
        descriptor_pool=messages.POOL,
    )
