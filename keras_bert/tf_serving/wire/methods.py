"""The methods of TF Serving's gRPC services, and the HTTP status for each gRPC status."""

# Service -> method -> (request message, response message).
_SERVICES = {
    "PredictionService": {
        "Predict": ("PredictRequest", "PredictResponse"),
        "Classify": ("ClassificationRequest", "ClassificationResponse"),
        "Regress": ("RegressionRequest", "RegressionResponse"),
        "GetModelMetadata": ("GetModelMetadataRequest", "GetModelMetadataResponse"),
    },
    "ModelService": {"GetModelStatus": ("GetModelStatusRequest", "GetModelStatusResponse")},
}
# Method -> (path, request message, response message).
METHODS = {
    method: (f"/tensorflow.serving.{service}/{method}", *names)
    for service, methods in _SERVICES.items()
    for method, names in methods.items()
}

# gRPC status -> TF Serving's HTTP status; all others become 500.
HTTP_STATUS = {
    "OK": 200,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def http_status(code: str) -> int:
    """Returns the HTTP status for a gRPC status: "NOT_FOUND" -> 404."""
    return HTTP_STATUS.get(code, 500)
