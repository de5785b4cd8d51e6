"""The JSON of metadata and status of models, made from TensorFlow Serving's messages."""

from collections.abc import Iterable

from keras_bert.tf_serving.server.model_store import ServedVersion
from keras_bert.tf_serving.wire import messages


def metadata_body(version: ServedVersion) -> bytes:
    """Returns the body of the answer to GET .../metadata of an available version."""
    signatures = messages.SignatureDefMap()
    for name, signature in version.model.signatures.items():
        signatures.signature_def[name].ParseFromString(signature.definition.SerializeToString())
        signatures.signature_def[name].ClearField("defaults")  # TensorFlow Serving leaves them out too
    spec = messages.ModelSpec(name=version.name, version=messages.Int64Value(value=version.number))
    metadata = f'{{"signature_def": {_json(signatures)}\n}}'
    return f'{{\n"model_spec":{_json(spec)}\n,\n"metadata": {metadata}\n}}\n'.encode()


def status_body(versions: Iterable[ServedVersion]) -> bytes:
    """Returns the body of the answer to GET /v1/models/NAME."""
    response = messages.GetModelStatusResponse()
    for version in versions:
        status = response.model_version_status.add()
        status.version = version.number
        status.state = status.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_name[version.state].number
        status.status.error_code = version.error.code if version.error else 0
        status.status.error_message = version.error.message if version.error else ""
    return (_json(response) + "\n").encode()


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
