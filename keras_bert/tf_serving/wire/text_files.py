"""Messages in protobuf's text format, the form of a server's configuration files."""

import os

from keras_bert.program.errors import InputError


def read_text_message(path: str | os.PathLike, message_class):
    """Reads a message from a file. Raises `InputError` if that fails."""
    from google.protobuf import text_format

    from keras_bert.tf_serving.wire import messages

    try:
        with open(path, encoding="utf-8") as file:
            return text_format.Parse(file.read(), message_class(), descriptor_pool=messages.POOL)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except text_format.ParseError as error:
        name = message_class.DESCRIPTOR.name
        raise InputError(f"{path} is not a {name} in protobuf's text format: {error}") from None


def text_of(message) -> str:
    """Returns a message as text."""
    from google.protobuf import text_format

    return text_format.MessageToString(message)
