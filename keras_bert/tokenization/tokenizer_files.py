"""Reads files of all kinds of tokenizers, limited in size."""

import os

from keras_bert.program.errors import InputError

# A million tokens of 64 bytes.
_MOST_BYTES = 1 << 26


def read_tokenizer_file(path: str | os.PathLike) -> bytes:
    """Returns the content of one file of a tokenizer.

    Raises:
        InputError: the file cannot be read, or is larger than 64 MiB.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    if len(data) > _MOST_BYTES:
        raise InputError(
            f"{path} has more than {_MOST_BYTES:,} bytes, too many for a file of a tokenizer. Give another file."
        )
    return data
