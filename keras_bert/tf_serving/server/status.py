"""What a request ends with when it cannot be answered: TensorFlow Serving's codes, over HTTP and over gRPC."""

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
    """A request or a load ended with another status than OK.

    Attributes:
        code: a `Code`.
        message: the text that clients read.
    """

    def __init__(self, code: Code, message: str):
        super().__init__(message)
        self.code = Code(code)
        self.message = message

    def __str__(self) -> str:
        # As absl::Status prints itself; TensorFlow Serving has it inside of longer messages.
        return f"{self.code.name}: {self.message}"


def invalid_argument(*parts) -> StatusError:
    """Returns the error of a request that is wrong whatever the state of the server; the parts are joined."""
    return StatusError(Code.INVALID_ARGUMENT, "".join(map(str, parts)))
