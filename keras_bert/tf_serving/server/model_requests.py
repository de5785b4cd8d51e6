"""The requests to one model: predict, metadata and status, in the JSON of TensorFlow Serving's REST API.

A model is a loaded export, see `keras_bert.serving.load`. The server uses its `signatures`.
"""

import json
from collections.abc import Mapping
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.server.json_tensors import arrays_from_request, parse_object, response_body, shown

DEFAULT_SIGNATURE = "serving_default"
# The server knows no versions; clients of TensorFlow Serving expect the number of one.
VERSION = "1"


def predict_body(model: Any, body: bytes, max_rows: int) -> bytes:
    """Returns the body of the answer to POST .../NAME:predict. Raises `InputError` if the request is wrong."""
    request = parse_object(body)
    name = request.get("signature_name") or DEFAULT_SIGNATURE
    signature = model.signatures.get(name) if isinstance(name, str) else None
    if signature is None:
        listed = ", ".join(sorted(model.signatures))
        raise InputError(f'"signature_name" must be a signature of the model: {listed}. Received: {shown(name)}')
    inputs, has_rows = arrays_from_request(request, signature.input_tensors)
    check_rows(max((len(array) for array in inputs.values() if array.ndim), default=0), max_rows)
    return response_body(signature(**inputs), has_rows)


def check_rows(num_rows: int, max_rows: int) -> None:
    """Raises `InputError` if a request has more rows than allowed."""
    if num_rows > max_rows:
        raise InputError(
            f"The request has {num_rows} rows, but this server accepts at most {max_rows} (--max_rows). Send fewer at "
            "a time."
        )


def metadata_body(name: str, model: Any) -> bytes:
    """Returns the body of the answer to GET .../NAME/metadata."""
    signatures = {
        key: {
            "inputs": _described(signature.input_tensors),
            "outputs": _described(signature.output_tensors),
            "method_name": "tensorflow/serving/predict",
        }
        for key, signature in sorted(model.signatures.items())
    }
    spec = {"name": name, "signature_name": "", "version": VERSION}
    return json.dumps({"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}}).encode()


def _described(tensors: Mapping[str, Tensor]) -> dict[str, dict]:
    return {
        name: {
            "dtype": f"DT_{tensor.dtype.upper()}",
            "tensor_shape": {
                "dim": [{"size": str(-1 if size is None else size), "name": ""} for size in tensor.shape or ()],
                "unknown_rank": tensor.shape is None,
            },
            "name": name,
        }
        for name, tensor in sorted(tensors.items())
    }


def status_body() -> bytes:
    """Returns the body of the answer to GET /v1/models/NAME."""
    state = {"version": VERSION, "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return json.dumps({"model_version_status": [state]}).encode()
