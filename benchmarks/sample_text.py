"""Text for benchmarks: a part of a large file, one sentence a line."""

import os
from collections.abc import Iterator

from data_prep.text.corpus import read_documents
from data_prep.text.sentences import split_documents


def write_sample(text_file: str | os.PathLike, path: str | os.PathLike, num_bytes: int, skip_bytes: int = 0) -> int:
    """Writes the first documents of a file, one sentence a line and a blank line between documents.

    Args:
        num_bytes: whole documents are taken until they have this many bytes.
        skip_bytes: whole documents are left out first until they have this many.

    Returns:
        The number of documents.
    """
    documents = iter(read_documents(os.fspath(text_file)))
    for allowed in (skip_bytes, num_bytes):
        taken = _take(documents, allowed)
    with open(path, "w", encoding="utf-8") as file:
        for sentences in split_documents(taken):
            file.writelines(f"{sentence}\n" for sentence in [*sentences, ""])
    return len(taken)


def _take(documents: Iterator[list[str]], num_bytes: int) -> list[list[str]]:
    taken = []
    while num_bytes > 0 and (document := next(documents, None)) is not None:
        taken.append(document)
        num_bytes -= sum(len(line.encode()) + 1 for line in document)
    return taken
