"""Reads the rows of Parquet, Arrow and Feather files, also of files from strangers."""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from data_prep.text.remote_files import is_remote, local_copy, open_remote
from keras_bert.program.errors import InputError

COLUMN_SUFFIXES = (".parquet", ".arrow", ".feather")

_READER = pathlib.Path(__file__).with_name("column_file_reader.py")
# The reader's exit code for a file that it refuses.
_REFUSED = 2


def is_column_file(path: str) -> bool:
    """Returns whether a name is that of a Parquet, Arrow or Feather file."""
    return path.lower().endswith(COLUMN_SUFFIXES)


def read_column_file(
    path: str, column: str | None = None, open_file: Callable[[str], BinaryIO] = open_remote
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yields the rows of a file one by one, each with the number of bytes of the file read so far.

    Values are those that JSON has. Dates and decimal numbers are strings; so are binary values, or None if they are not
    UTF-8. Classes are given by name if the file has their names, as `datasets` stores them. Images and sounds are left
    out.

    A process of its own reads the file with at most 2 GB of memory, see `column_file_reader.py`.

    Args:
        path: a file on disk or a URL whose name ends in one of `COLUMN_SUFFIXES`. The file of a URL is first copied to
            this machine.
        column: the only column to read; by default all.
        open_file: opens the file of a URL.

    Raises:
        InputError: there is no file or no such column, pyarrow is missing, or the file is damaged or takes too much
            memory.
    """
    if not is_remote(path) and not os.path.isfile(path):
        raise InputError(f"There is no file {path}.")
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(
            f"{path}: Parquet, Arrow and Feather files need the package pyarrow: pip install pyarrow, or the extra "
            "'parquet' of this package."
        )
    with local_copy(path, open_file) as file, tempfile.TemporaryFile() as errors:
        with _reader(file, column, errors) as process:
            for line in process.stdout:
                if not line.endswith(b"\n"):
                    break
                position, row = json.loads(line)
                yield row, position
            code = process.wait()
        errors.seek(0)
        message = errors.read(10_000).decode("utf-8", "replace").strip()
    if code:
        raise InputError(f"{path} cannot be read: {_reason(code, message)}.")


@contextlib.contextmanager
def _reader(path: str, column: str | None, errors: BinaryIO) -> Iterator[subprocess.Popen]:
    """Starts the reading process; ends it when the block is left, also if its output was not read to the end."""
    # -P keeps the folder of the script out of the module path.
    command = [sys.executable, "-P", str(_READER), path, *([] if column is None else [column])]
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def _reason(code: int, message: str) -> str:
    if code == _REFUSED and message:
        return message
    if -code == signal.SIGXCPU:
        return "reading a few rows of it takes longer than a minute"
    return "it is damaged, or reading it takes more than 2 GB of memory"
