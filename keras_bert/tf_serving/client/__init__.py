"""Clients of TF Serving and of other servers with its API, without TensorFlow.

Importing this package is cheap: numpy, gRPC and protobuf are loaded when the first name that needs them is used.

clients.py            RestClient, GrpcClient, AsyncRestClient, AsyncGrpcClient
asking.py             the logic of all four, written once
waiting.py            waits by blocking a thread or by suspending a task
errors.py             ServingError and its subclasses
model_choice.py       selects a model and version, and waits until it is available
model_info.py         versions and signatures of a model
request_batches.py    cuts many rows into requests and joins their answers
retrying.py           when a request is sent again
rest_format.py        requests and answers as JSON
http_connections.py   reused HTTP connections with a deadline for each answer
grpc_format.py        requests and answers as protobuf messages
grpc_channel.py       gRPC channels

Example:
    client = RestClient("http://127.0.0.1:8501", "sentiment")
    answer = client.predict(text=["a wonderful film"])
    print(answer["label"][0], answer["probability"][0])
    # positive 0.931200027
"""

import importlib

# Public name -> the module that defines it.
_PUBLIC = {
    "RestClient": "keras_bert.tf_serving.client.clients",
    "GrpcClient": "keras_bert.tf_serving.client.clients",
    "AsyncRestClient": "keras_bert.tf_serving.client.clients",
    "AsyncGrpcClient": "keras_bert.tf_serving.client.clients",
    "ServingError": "keras_bert.tf_serving.client.errors",
    "NotFound": "keras_bert.tf_serving.client.errors",
    "InvalidRequest": "keras_bert.tf_serving.client.errors",
    "Unavailable": "keras_bert.tf_serving.client.errors",
    "DeadlineExceeded": "keras_bert.tf_serving.client.errors",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'keras_bert.tf_serving.client' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__():
    return sorted(__all__)
