"""Divides text into documents to train on and a few documents to hold out for an evaluation."""

import array
import hashlib
import os
from collections.abc import Iterator, Sequence

import numpy as np

from data_prep.text.corpus import input_size, read_documents
from keras_bert.program.atomic_output import atomic_folder
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar

TRAIN_FILE, HELD_OUT_FILE = "train.txt", "held_out.txt"
# More documents do not make a score noticeably more exact.
_MOST_HELD_OUT = 2000


def divide_documents(
    input_file: str | Sequence[str],
    output_dir: str | os.PathLike,
    *,
    held_out_share: float = 0.05,
    text_field: str = "text",
    show_progress: bool = False,
) -> None:
    """Writes the documents of a text to `train.txt` and `held_out.txt` in a new folder.

    The documents with the lowest hashes are held out: `held_out_share` of the distinct documents, at least one and at
    most 2,000, each once. So the choice depends on neither order nor files, and a repeated document is never on both
    sides.

    Args:
        input_file, text_field: as in `read_documents`. The text is read twice.
        held_out_share: above 0 and below 1.

    Raises:
        InputError: the text has only one distinct document, `held_out_share` is out of range, or the folder is not
            empty.
    """
    if not 0 < held_out_share < 1:
        raise InputError(f"held_out_share must be above 0 and below 1. Received: {held_out_share}")
    size = input_size(input_file)

    def documents(description: str) -> Iterator[tuple[list[str], int]]:
        with progress_bar(desc=description, total=size, unit="B", unit_scale=True, disable=not show_progress) as bar:
            for lines in read_documents(input_file, text_field=text_field, on_progress=bar.update):
                yield lines, _hash_of(lines)

    with atomic_folder(output_dir) as folder:
        hashes = np.unique(np.array(array.array("Q", (number for _, number in documents("reading")))))
        if len(hashes) < 2:
            raise InputError(
                "The text has only one document, so none can be held out. Separate documents by blank lines."
            )
        count = min(max(1, round(held_out_share * len(hashes))), _MOST_HELD_OUT, len(hashes) - 1)
        held_out = set(hashes[:count].tolist())
        with (
            open(os.path.join(folder, TRAIN_FILE), "w", encoding="utf-8", newline="\n") as train,
            open(os.path.join(folder, HELD_OUT_FILE), "w", encoding="utf-8", newline="\n") as others,
        ):
            left = held_out.copy()
            for lines, number in documents("dividing"):
                text = "".join(f"{line}\n" for line in lines) + "\n"
                if number not in held_out:
                    train.write(text)
                elif number in left:
                    others.write(text)
                    left.remove(number)


def _hash_of(lines: list[str]) -> int:
    return int.from_bytes(hashlib.blake2b("\n".join(lines).encode(), digest_size=8).digest(), "big")
