"""Replaces generated sections of a page of results: the text between two HTML comments."""

import os
from collections.abc import Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError

END = "<!-- end -->"


def replace_section(path: str | os.PathLike, name: str, lines: Sequence[str]) -> None:
    """Replaces the text between `<!-- benchmark NAME -->` and the next `<!-- end -->`, and writes the file atomically.

    Raises:
        InputError: the file cannot be read, or does not have the section exactly once.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise InputError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
    begin = f"<!-- benchmark {name} -->"
    if text.count(begin) != 1:
        raise InputError(
            f"{os.fspath(path)} has {text.count(begin)} lines {begin}, and one is needed. Write it where the results "
            f"of {name} belong, and {END} below it."
        )
    before, after = text.split(begin)
    old, end, after = after.partition(END)
    if not end or "<!-- benchmark" in old:
        raise InputError(f"{os.fspath(path)}: {END} is missing below {begin}.")
    body = "\n".join(lines).strip("\n")
    with atomic_file(path) as file:
        file.write(f"{before}{begin}\n\n{body}\n\n{END}{after}".encode())
