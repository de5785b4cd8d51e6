"""The errors of requests that are not answered."""

# TF Serving's HTTP status -> gRPC status. Several have 400 and 409: the most general one is named.
_CODE_OF_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class ServingError(Exception):
    """A request was not answered.

    Attributes:
        code: the name of the gRPC status, for REST too: "NOT_FOUND", "INVALID_ARGUMENT", "INTERNAL", ...
        http_status: the status of a REST answer, or None.
        server_text: the message of the server or of the network.
        rows: the range of rows of the request if the rows were sent as several requests, else None.
    """

    advice = "Look at the log of the server."

    def __init__(self, server: str, code: str, server_text: str, http_status: int | None = None):
        super().__init__(server, code, server_text, http_status)
        self.server, self.code, self.server_text, self.http_status = server, code, server_text, http_status
        self.attempts = 1
        self.rows: range | None = None

    def __str__(self) -> str:
        status = self.code if self.http_status is None else f"{self.code} (HTTP {self.http_status})"
        place = f" for rows {self.rows.start} to {self.rows.stop - 1}" if self.rows else ""
        attempts = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        return f"{self.server} gave {status}{place}{attempts}: {self.server_text.rstrip('. ')}. {self.advice}"


class NotFound(ServingError):
    """NOT_FOUND: no such model, version or label."""

    advice = "Check the name of the model and its version; a model that is still loading is not found either."


class InvalidRequest(ServingError):
    """INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE: sending the same request again cannot help."""

    advice = "Check the names, types and shapes of the inputs against metadata()."


class Unavailable(ServingError):
    """UNAVAILABLE, RESOURCE_EXHAUSTED, or no connection: the same request may succeed later."""

    advice = "Check that the server runs at this address, or ask it less at a time."


class DeadlineExceeded(ServingError):
    """DEADLINE_EXCEEDED: the answer did not come in time."""

    advice = "Allow more time (timeout), or send fewer rows at a time (batch_size)."


_KINDS = {
    "NOT_FOUND": NotFound,
    "INVALID_ARGUMENT": InvalidRequest,
    "FAILED_PRECONDITION": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
    "UNAVAILABLE": Unavailable,
    "RESOURCE_EXHAUSTED": Unavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}
_CHECK_URL = "Check the URL of the server: http://host:port, with a path only where a proxy has the API below one."
# The start of a server's message -> advice. Several mistakes share one status, whose advice does not fit these.
_ADVICE = {
    "Unrecognized servable version label": "Check the label; a client without one lists the versions with status().",
    "Malformed request": _CHECK_URL,
    "Not found: /": _CHECK_URL,
}


def serving_error(server: str, code: str, text: str, http_status: int | None = None) -> ServingError:
    """Returns the error for the name of a gRPC status."""
    error = _KINDS.get(code, ServingError)(server, code, text, http_status)
    error.advice = next((advice for start, advice in _ADVICE.items() if text.startswith(start)), error.advice)
    return error


def not_http_error(server: str, status_line: str) -> ServingError:
    """Returns the error for an answer that does not begin like HTTP/1.1."""
    # HTTP/2 begins with a SETTINGS frame, whose fourth byte is 4 (RFC 9113, sections 3.4 and 6.5).
    speaks_grpc = status_line[3:4] == "\x04"
    text = "this port speaks gRPC, not HTTP/1.1" if speaks_grpc else "the answer is not HTTP/1.1"
    error = ServingError(server, "UNKNOWN", text)
    error.advice = "Give the port of the REST API, which is 8501 unless it was changed"
    error.advice += ", or use a gRPC client for this port." if speaks_grpc else "."
    return error


def http_error(server: str, status: int, text: str) -> ServingError:
    """Returns the error for an HTTP status; a status that TF Serving does not use becomes "UNKNOWN"."""
    return serving_error(server, _CODE_OF_STATUS.get(status, "UNKNOWN"), text, status)
