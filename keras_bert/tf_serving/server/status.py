"""The status of requests that cannot be answered: TensorFlow Serving's codes."""

import enum

from keras_bert.tf_serving.wire.message_fields import ENUMS

# The status codes of gRPC, which TensorFlow and TensorFlow Serving share.
Code = enum.IntEnum("Code", ENUMS["tensorflow.error.Code"])


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
