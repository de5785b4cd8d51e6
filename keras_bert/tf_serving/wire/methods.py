"""The methods of TF Serving's gRPC services, and the HTTP status for each gRPC status."""

# Method -> (path, request message, response message).
METHODS = {
    "Predict": ("/tensorflow.serving.PredictionService/Predict", "PredictRequest", "PredictResponse"),
    "Classify": (
        "/tensorflow.serving.PredictionService/Classify",
        "ClassificationRequest",
        "ClassificationResponse",
    ),
    "Regress": ("/tensorflow.serving.PredictionService/Regress", "RegressionRequest", "RegressionResponse"),
    "MultiInference": (
        "/tensorflow.serving.PredictionService/MultiInference",
        "MultiInferenceRequest",
        "MultiInferenceResponse",
    ),
    "GetModelMetadata": (
        "/tensorflow.serving.PredictionService/GetModelMetadata",
        "GetModelMetadataRequest",
        "GetModelMetadataResponse",
    ),
    "GetModelStatus": (
        "/tensorflow.serving.ModelService/GetModelStatus",
        "GetModelStatusRequest",
        "GetModelStatusResponse",
    ),
    "HandleReloadConfigRequest": (
        "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
        "ReloadConfigRequest",
        "ReloadConfigResponse",
    ),
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
