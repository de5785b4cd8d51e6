"""Clients of TF Serving and of other servers with its API.

REST clients need numpy only. A gRPC client needs tensorflow-serving-api, which imports TensorFlow; it is imported when
the client is made.

clients.py            RestClient, GrpcClient, AsyncRestClient, AsyncGrpcClient
asking.py             the logic of all four, written once, and when a request is sent again
waiting.py            waits by blocking a thread or by suspending a task
errors.py             ServingError and its subclasses
model_info.py         versions and signatures of a model
request_batches.py    inputs as arrays, cut into requests; joins their answers
rest_format.py        requests and answers as JSON
http_connections.py   reused HTTP connections with a deadline for each answer
grpc_api.py           requests and answers as messages of gRPC, and channels

Example:
    client = RestClient("http://127.0.0.1:8501", "sentiment")
    answer = client.predict(text=["a wonderful film"])
    print(answer["label"][0], answer["probability"][0])
    # positive 0.931200027
"""

from keras_bert.tf_serving.client.clients import AsyncGrpcClient, AsyncRestClient, GrpcClient, RestClient
from keras_bert.tf_serving.client.errors import DeadlineExceeded, InvalidRequest, NotFound, ServingError, Unavailable

__all__ = [
    "AsyncGrpcClient",
    "AsyncRestClient",
    "DeadlineExceeded",
    "GrpcClient",
    "InvalidRequest",
    "NotFound",
    "RestClient",
    "ServingError",
    "Unavailable",
]
