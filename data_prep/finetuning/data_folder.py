"""Finds the files of a folder of fine-tuning data by their names."""

import os
from collections.abc import Sequence

from keras_bert.program.errors import InputError

# Part -> the names that its file may have, without the ending.
_STEMS = {
    "train": ("train", "train-v1.1", "train-v2.0"),
    "eval": ("dev", "eval", "valid", "validation", "dev-v1.1", "dev-v2.0"),
    "predict": ("test", "predict"),
}


def find_parts(data_dir: str | os.PathLike, endings: Sequence[str]) -> dict[str, str]:
    """Returns the files of a folder for "train", "eval" and "predict".

    find_parts("reviews", [".tsv", ".csv"])
    # {'train': 'reviews/train.tsv', 'eval': 'reviews/dev.tsv'}

    Raises:
        InputError: there is no such file, or there are several for one part.
    """
    data_dir = os.fspath(data_dir)
    if not os.path.isdir(data_dir):
        raise InputError(f"There is no folder {data_dir}.")
    found = {}
    for part, stems in _STEMS.items():
        names = [f"{stem}{ending}{packed}" for stem in stems for ending in endings for packed in ("", ".gz")]
        existing = [name for name in names if os.path.isfile(os.path.join(data_dir, name))]
        if len(existing) > 1:
            raise InputError(
                f"{data_dir} has several files to {part if part != 'eval' else 'evaluate'} on: {', '.join(existing)}. "
                f"Name one of them with --{part}_file."
            )
        if existing:
            found[part] = os.path.join(data_dir, existing[0])
    if not found:
        raise InputError(
            f"{data_dir} has no train, dev or test file: train{endings[0]}, dev{endings[0]}, test{endings[0]} (or "
            f"{', '.join(endings[1:])}). Name the files with --train_file, --eval_file and --predict_file."
        )
    return found
