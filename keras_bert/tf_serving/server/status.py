"""The status of requests that cannot be answered: TensorFlow Serving's codes, for HTTP and gRPC."""

import enum


class Code(enum.IntEnum):
    """The status codes of gRPC, which TensorFlow and TensorFlow Serving share."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StatusError(Exception):
    """A request or the loading of a model failed.

    Attributes:
        code: a `Code` other than OK.
        message: the text for clients.
    """

    def __init__(self, code: Code, message: str):
        super().__init__(message)
        self.code = Code(code)
        self.message = message

    def __str__(self) -> str:
        # The format of absl::Status; TensorFlow Serving includes it in longer messages.
        return f"{self.code.name}: {self.message}"


def invalid_argument(*parts) -> StatusError:
    """Returns the error for a request that is invalid in any state of the server. `parts` are joined to the message."""
    return StatusError(Code.INVALID_ARGUMENT, "".join(map(str, parts)))
