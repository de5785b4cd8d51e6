"""Finds the files of a folder of fine-tuning data by their names."""

import os
import posixpath
from collections.abc import Sequence

from data_prep.text.column_files import COLUMN_SUFFIXES
from data_prep.text.remote_files import is_remote, remote_names
from data_prep.text.text_lines import JSON_LINES
from keras_bert.program.errors import InputError

# The endings of the names of tables.
TABLE_ENDINGS = (".tsv", ".csv", *JSON_LINES, *COLUMN_SUFFIXES)
# The whole of a data set of Hugging Face in one file.
_ONE_SHARD = "-00000-of-00001"

# Part -> the names that its file may have, without the ending.
_STEMS = {
    "train": ("train", "train-v1.1", "train-v2.0"),
    "eval": ("dev", "eval", "valid", "validation", "dev-v1.1", "dev-v2.0"),
    "predict": ("test", "predict"),
}


def find_parts(data_dir: str | os.PathLike, endings: Sequence[str]) -> dict[str, str]:
    """Returns the files of a folder for "train", "eval" and "predict", such as {"eval": "reviews/dev.tsv"}.

    Raises `InputError` if there is no such file, or if there are several for one part.
    """
    data_dir = os.fspath(data_dir)
    if is_remote(data_dir):
        data_dir = data_dir.rstrip("/")
        names = [name.removeprefix(f"{data_dir}/") for name in remote_names(data_dir)]
        join = posixpath.join
    else:
        if not os.path.isdir(data_dir):
            raise InputError(f"There is no folder {data_dir}.")
        names = [name for name in os.listdir(data_dir) if os.path.isfile(os.path.join(data_dir, name))]
        join = os.path.join
    in_folder = {name.lower(): name for name in names}
    found = {}
    for part, stems in _STEMS.items():
        names = [f"{stem}{ending}{packed}" for stem in stems for ending in endings for packed in ("", ".gz")]
        names += [f"{stem}{_ONE_SHARD}{ending}" for stem in stems for ending in endings if ending in COLUMN_SUFFIXES]
        existing = [in_folder[name] for name in names if name in in_folder]
        if len(existing) > 1:
            raise InputError(
                f"{data_dir} has several files to {part if part != 'eval' else 'evaluate'} on: {', '.join(existing)}. "
                f"Name one of them with --{part}_file."
            )
        if existing:
            found[part] = join(data_dir, existing[0])
    if not found:
        raise InputError(
            f"{data_dir} has no train, dev or test file: train{endings[0]}, dev{endings[0]}, test{endings[0]} (or "
            f"{', '.join(endings[1:])}). Name the files with --train_file, --eval_file and --predict_file."
        )
    return found
