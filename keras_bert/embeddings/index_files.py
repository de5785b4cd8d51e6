"""The folder of an index: arrays, texts and ids, all checked before they are used.

vectors.npy     float32 [N, H], or int8 [N, H] in another precision, see quantised_vectors.py
ranges.npy      float32 [2, H], the ranges of int8
signs.npy       int8 [N, ceil(H / 8)], for binary
texts.jsonl     a string a line; "" where the text was deleted
ids.jsonl       a string or a whole number a line, if the texts have ids; null where the text was deleted
column_0.npy    a column of metadata; their names are in index.json
deleted.npy     int64: the rows whose texts were deleted, if there are any
graph.npy       see neighbour_graph.py
index.json      the model, how texts were embedded, and what the folder has
"""

import json
import os
import re
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from keras_bert.embeddings.metadata_columns import check_stored_column
from keras_bert.embeddings.neighbour_graph import check_graph
from keras_bert.embeddings.quantised_vectors import PRECISIONS, StoredVectors
from keras_bert.program.atomic_output import check_replaceable_folder, save_array
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links
from keras_bert.program.json_files import checked, member, parse_json_line, read_json_object, strings
from keras_bert.program.options import check_choice

VECTORS_FILE, TEXTS_FILE, FACTS_FILE, GRAPH_FILE = "vectors.npy", "texts.jsonl", "index.json", "graph.npy"
RANGES_FILE, SIGNS_FILE, DELETED_FILE, COLUMN_FILE = "ranges.npy", "signs.npy", "deleted.npy", "column_{}.npy"
IDS_FILE = "ids.jsonl"
_ALL_FILES = {VECTORS_FILE, TEXTS_FILE, FACTS_FILE, GRAPH_FILE, RANGES_FILE, SIGNS_FILE, DELETED_FILE, IDS_FILE}
_A_COLUMN_FILE = re.compile(r"column_\d+\.npy")

_FORMAT = 1  # of the folder, in index.json; an index of another number is refused


def write_index(folder: str, index: Any) -> None:
    """Writes the files of a `VectorIndex` into a folder."""
    stored = index.rows.stored
    arrays = {VECTORS_FILE: stored.codes, RANGES_FILE: stored.ranges, SIGNS_FILE: stored.signs, GRAPH_FILE: index.graph}
    arrays |= {COLUMN_FILE.format(number): column for number, column in enumerate(index.metadata.values())}
    if index.rows.deleted is not None:
        arrays[DELETED_FILE] = np.flatnonzero(index.rows.deleted)
    for name, array in arrays.items():
        if array is not None:
            save_array(os.path.join(folder, name), array)
    write_lines(os.path.join(folder, TEXTS_FILE), index.texts)
    facts = {
        "format": _FORMAT,
        "texts": len(index.texts),
        "model_sha256": index.fingerprint,
        **index.options,
        "added": index.added,
    }
    if index.ids is not None:
        write_lines(os.path.join(folder, IDS_FILE), index.ids)
        facts["ids"] = True
    if index.precision != "float32":
        facts["precision"] = index.precision
    if index.metadata:
        facts["columns"] = list(index.metadata)
    with open(os.path.join(folder, FACTS_FILE), "w", encoding="utf-8") as file:
        file.write(json.dumps(facts, indent=2) + "\n")


def state_of(path: str | os.PathLike) -> Hashable:
    """Returns what tells an index in a folder from one that replaces it; None if there is none."""
    try:
        status = os.stat(os.path.join(path, FACTS_FILE))
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def read_index(path: str | os.PathLike) -> tuple[dict[str, Any], Hashable]:
    """Returns the arguments of `VectorIndex` that a folder holds, and `state_of` the folder.

    Arrays stay on disk until they are used.

    Raises:
        InputError: it is no index, it is damaged, or a file is a link out of the folder.
    """
    while True:
        state = state_of(path)
        try:
            arguments = _read_files(os.fspath(path))
        except InputError:
            if state_of(path) == state:
                raise
        else:
            if state_of(path) == state:
                return arguments, state
        # Another process has replaced the folder meanwhile, so some files are of the old and some of the new index.


def _read_files(path: str) -> dict[str, Any]:
    missing = [name for name in (FACTS_FILE, TEXTS_FILE, VECTORS_FILE) if not os.path.isfile(os.path.join(path, name))]
    if missing:
        what = f"it has no {', '.join(missing)}" if os.path.isdir(path) else "there is no such folder"
        raise InputError(f"{path} is not an index: {what}. Build one with VectorIndex.build or search_sentences.")
    check_links(path)
    try:
        facts = read_json_object(os.path.join(path, FACTS_FILE))
        if facts.get("format") != _FORMAT:
            found = f"{facts.get('format')!r:.50}"
            raise ValueError(f"{FACTS_FILE} has the format {found}, and this version of keras_bert reads {_FORMAT}")
        texts = read_lines(path, TEXTS_FILE, str)
        vectors = _stored_vectors(path, facts, len(texts))
        return {
            "vectors": vectors,
            "texts": texts,
            "fingerprint": checked(facts["model_sha256"], str, "model_sha256", FACTS_FILE),
            "options": {
                "pooling": member(facts, "pooling", str, FACTS_FILE),
                "max_seq_length": member(facts, "max_seq_length", int, FACTS_FILE),
            },
            "graph": _load_graph(os.path.join(path, GRAPH_FILE), len(texts)),
            "added": member(facts, "added", list, FACTS_FILE, []),
            "ids": _read_ids(path, len(texts)) if member(facts, "ids", bool, FACTS_FILE) else None,
            "metadata": {
                name: check_stored_column(_mapped(path, COLUMN_FILE.format(number)), len(texts))
                for number, name in enumerate(strings(facts, "columns", FACTS_FILE))
            },
            "deleted": _read_deleted(path, len(texts)),
        }
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"The index {path} is damaged: {error}. Build it again.") from None


def check_replaceable_index(path: str | os.PathLike) -> None:
    """Checks that `VectorIndex.save` can replace a folder. Raises `InputError`: it has other files than an index."""
    others = sorted(name for name in set(os.listdir(path)) - _ALL_FILES if not _A_COLUMN_FILE.fullmatch(name))
    if others:
        raise InputError(f"{os.fspath(path)} has other files than an index: {others[0]}. Save to a new folder.")
    check_replaceable_folder(path)


def write_lines(path: str, values: Iterable[Any]) -> None:
    """Writes a file with a JSON value a line."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def read_lines(path: str, name: str, kind: type | None) -> list:
    """Returns the values of such a file in a folder. Raises `InputError` if one is not of a type."""
    with open(os.path.join(path, name), encoding="utf-8") as file:
        values = [parse_json_line(line, "a line") for line in file]
    return values if kind is None else [checked(value, kind, "each line", name) for value in values]


def _mapped(path: str, name: str) -> np.ndarray:
    return np.lib.format.open_memmap(os.path.join(path, name), mode="r")


def _stored_vectors(path: str, facts: dict, num_texts: int) -> StoredVectors:
    codes = _mapped(path, VECTORS_FILE)
    precision = member(facts, "precision", str, FACTS_FILE, "float32")
    check_choice("precision", precision, PRECISIONS)
    is_table = codes.ndim == 2 and codes.dtype == ("float32" if precision == "float32" else "int8")
    if not is_table or not len(codes) == num_texts == facts["texts"]:
        raise ValueError(f"{num_texts} texts and vectors {codes.dtype} {codes.shape} for {facts['texts']} texts")
    if precision == "float32":
        return StoredVectors(codes)
    size = codes.shape[1]
    ranges = _mapped(path, RANGES_FILE)
    if ranges.dtype != np.float32 or ranges.shape != (2, size) or not np.isfinite(ranges).all():
        raise ValueError(f"{RANGES_FILE} has no ranges of vectors of {size} numbers")
    signs = _mapped(path, SIGNS_FILE) if precision == "binary" else None
    if signs is not None and (signs.dtype != np.int8 or signs.shape != (num_texts, (size + 7) // 8)):
        raise ValueError(f"{SIGNS_FILE} has no signs of vectors of {size} numbers")
    return StoredVectors(codes, precision, np.array(ranges), signs)


def _read_ids(path: str, num_texts: int) -> list:
    ids = read_lines(path, IDS_FILE, None)
    if len(ids) != num_texts or not all(value is None or type(value) in (str, int) for value in ids):
        raise ValueError(f"{IDS_FILE} has no {num_texts} ids")
    return ids


def _read_deleted(path: str, num_texts: int) -> np.ndarray | None:
    if not os.path.lexists(os.path.join(path, DELETED_FILE)):
        return None
    rows = _mapped(path, DELETED_FILE)
    if rows.ndim != 1 or rows.dtype != np.int64 or rows.min() < 0 or rows.max() >= num_texts:
        raise ValueError(f"{DELETED_FILE} has no rows of {num_texts} texts")
    deleted = np.zeros(num_texts, bool)
    deleted[rows] = True
    return deleted


def _load_graph(path: str, num_vectors: int) -> np.ndarray | None:
    if not os.path.lexists(path):
        return None
    try:
        if not os.path.isfile(path):
            raise ValueError("it is not a file")
        return check_graph(np.lib.format.open_memmap(path, mode="r"), num_vectors)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{GRAPH_FILE} is no graph of its vectors ({error}); without it, search is exact") from None
