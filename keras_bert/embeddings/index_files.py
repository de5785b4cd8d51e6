"""The folder of an index: files of Arrow and arrays, all checked before they are used.

rows-000001.arrow   `id` if the texts have ids, `text`, metadata and `vector`; further files with other numbers
deleted.npy         int64: the rows of all files that were deleted, if there are any
graph.npy           see neighbour_graph.py
index.json          the model, and how texts were embedded
"""

import json
import os
import re
import shutil
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.index_rows import ID, TEXT, VECTOR, IndexRows, kind_of
from keras_bert.embeddings.neighbour_graph import check_graph
from keras_bert.program.arrow_files import as_mask, map_table, pa, write_table
from keras_bert.program.atomic_output import (
    atomic_folder,
    check_replaceable_folder,
    replacement_folder,
    restore_folder,
    save_array,
)
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import waiting_for_folder
from keras_bert.program.foreign_files import check_links
from keras_bert.program.json_files import checked, member, read_json_object

FACTS_FILE, GRAPH_FILE, DELETED_FILE, ROWS_FILE = "index.json", "graph.npy", "deleted.npy", "rows-{:06}.arrow"
_A_ROWS_FILE = re.compile(r"rows-\d{6,9}\.arrow")

FINGERPRINT = b"model_sha256"  # in the schema of Arrow files
_FORMAT = 2  # of the folder, in index.json; an index of another number is refused


def save_index(
    path: str | os.PathLike, rows: IndexRows, facts: dict[str, Any], replace: bool, stored: tuple | None
) -> tuple[Hashable, Sequence[Any]]:
    """Writes the folder of an index and returns `state_of` it and the tables of its files; see `VectorIndex.save`.

    `facts` are `model_sha256` and the options; `stored` is what this function returned for the same index and folder.
    """
    path = os.fspath(path)
    restore_folder(path)
    if os.path.isfile(os.path.join(path, FACTS_FILE)) and not replace:
        raise InputError(
            f"The output folder {path} is not empty: it has an index. Use save(path, replace=True), or save to a new "
            "folder."
        )
    if not (replace and os.path.isdir(path) and os.listdir(path)):
        with atomic_folder(path) as folder:
            _write_files(folder, rows, facts, path, ())
            return state_of(folder), rows.tables
    check_replaceable_index(path)
    with waiting_for_folder(path):
        state, tables = stored or (state_of(path), ())
        if state != state_of(path):
            raise InputError(
                f"Another process or index has saved to {path} since this index was loaded, and its changes would be "
                "lost. Load the index again and repeat yours, or save to a new folder."
            )
        with replacement_folder(path) as folder:
            _write_files(folder, rows, facts, path, tables)
            return state_of(folder), rows.tables


def _write_files(folder: str, rows: IndexRows, facts: dict[str, Any], old: str, saved: Sequence[Any]) -> None:
    """Writes the files of an index into a new folder. Those of `saved` tables, in `old`, get a second name."""
    for number, table in enumerate(rows.tables):
        path = os.path.join(folder, ROWS_FILE.format(number + 1))
        if number < len(saved) and saved[number] is table:
            _give_second_name(os.path.join(old, ROWS_FILE.format(number + 1)), path)
        else:
            write_table(path, table.replace_schema_metadata({FINGERPRINT: facts["model_sha256"]}))
    if rows.deleted is not None:
        save_array(os.path.join(folder, DELETED_FILE), np.flatnonzero(rows.deleted))
    if rows.search.graph is not None:
        save_array(os.path.join(folder, GRAPH_FILE), rows.search.graph)
    with open(os.path.join(folder, FACTS_FILE), "w", encoding="utf-8") as file:
        file.write(json.dumps({"format": _FORMAT, "rows": len(rows.search), **facts}, indent=2) + "\n")


def state_of(path: str | os.PathLike) -> Hashable:
    """Returns what tells an index in a folder from one that replaces it; None if there is none."""
    try:
        status = os.stat(os.path.join(path, FACTS_FILE))
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def read_index(path: str | os.PathLike) -> tuple[IndexRows, dict[str, Any], Hashable]:
    """Returns the rows and facts of an index in a folder, as `save_index` takes them, and `state_of` the folder."""
    restore_folder(path)
    while True:
        state = state_of(path)
        try:
            found = _read_files(os.fspath(path))
        except InputError:
            if state_of(path) == state:
                raise
        else:
            if state_of(path) == state:
                return *found, state
        # Another process has replaced the folder meanwhile, so some files are of the old and some of the new index.


def read_rows(paths: Sequence[str], fingerprint: str, names: Mapping[str, str], folder: str | None = None) -> IndexRows:
    """Maps the rows of Arrow files, whose model, if they name one, must have a fingerprint.

    `names` are names of columns in the files -> those of an index, where these differ; `folder` may have a graph and
    deleted rows. Raises `ValueError` if a file is damaged, has other columns or is of another model, or an id occurs
    twice.
    """
    tables = [map_table(path) for path in paths]
    if not sum(map(len, tables)):
        raise ValueError("there are no rows")
    fingerprints = {(table.schema.metadata or {}).get(FINGERPRINT, fingerprint.encode()) for table in tables}
    if fingerprints != {fingerprint.encode()}:
        raise ValueError("they were made with another model, or with other weights")
    tables = [table.replace_schema_metadata(None) for table in tables]
    tables = [table.rename_columns([names.get(name, name) for name in table.column_names]) for table in tables]
    if any(table.schema != tables[0].schema for table in tables):
        raise ValueError("the files have different columns")
    kinds = {field.name: kind_of(field.type) for field in tables[0].schema}
    lists = [name for name in kinds if kinds[name] is None]
    fits = kinds.get(TEXT) == "strings" and kinds.get(ID) in (None, "strings", "whole numbers") and lists == [VECTOR]
    if not fits or len(kinds) < tables[0].num_columns:
        found = ", ".join(f"{field.name} ({field.type!s:.40})" for field in tables[0].schema)
        raise ValueError(f"expected text (strings), vector (lists of float32), id, and metadata. Received: {found}")
    num_rows = sum(map(len, tables))
    graph, deleted = (_read_array(folder, name, num_rows) for name in (GRAPH_FILE, DELETED_FILE))
    rows = IndexRows.of(tables, graph, deleted)
    if ID in kinds:
        ids = rows.table[ID] if deleted is None else rows.table[ID].filter(as_mask(~deleted))
        pool = pa.system_memory_pool()  # gives its memory back, which that of Arrow would keep
        if pa.compute.count_distinct(ids, memory_pool=pool).as_py() < len(ids):
            raise ValueError("an id occurs twice")
    return rows


def check_replaceable_index(path: str | os.PathLike) -> None:
    """Checks that `VectorIndex.save` can replace a folder. Raises `InputError`: it has other files than an index."""
    known = {FACTS_FILE, GRAPH_FILE, DELETED_FILE}
    others = sorted(name for name in set(os.listdir(path)) - known if not _A_ROWS_FILE.fullmatch(name))
    if others:
        raise InputError(f"{os.fspath(path)} has other files than an index: {others[0]}. Save to a new folder.")
    check_replaceable_folder(path)


def _read_files(path: str) -> tuple[IndexRows, dict[str, Any]]:
    if not os.path.isfile(os.path.join(path, FACTS_FILE)):
        what = f"it has no {FACTS_FILE}" if os.path.isdir(path) else "there is no such folder"
        raise InputError(f"{path} is not an index: {what}. Build one with VectorIndex.build or search_sentences.")
    check_links(path)
    try:
        facts = read_json_object(os.path.join(path, FACTS_FILE))
        if facts.get("format") != _FORMAT:
            found = f"{facts.get('format')!r:.50}"
            raise ValueError(f"{FACTS_FILE} has the format {found}, and this version of keras_bert reads {_FORMAT}")
        read = {
            "model_sha256": checked(facts["model_sha256"], str, "model_sha256", FACTS_FILE),
            "pooling": member(facts, "pooling", str, FACTS_FILE),
            "max_seq_length": member(facts, "max_seq_length", int, FACTS_FILE),
        }
        names = sorted(filter(_A_ROWS_FILE.fullmatch, os.listdir(path)))
        if names != [ROWS_FILE.format(number + 1) for number in range(len(names))]:
            raise ValueError(f"it has the files {', '.join(names)}: some are missing or have other names")
        rows = read_rows([os.path.join(path, name) for name in names], read["model_sha256"], {}, path)
        if len(rows.search) != facts["rows"]:
            raise ValueError(f"the files have {len(rows.search)} rows, and {FACTS_FILE} says {facts['rows']!r:.50}")
        return rows, read
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"The index {path} is damaged: {error}. Build it again.") from None


def _give_second_name(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _read_array(folder: str | None, name: str, num_rows: int) -> np.ndarray | None:
    """Returns the graph, or the mask of deleted rows, bool [rows]; None if there is none."""
    path = os.path.join(folder or "", name)
    if folder is None or not os.path.lexists(path):
        return None
    try:
        if not os.path.isfile(path):
            raise ValueError("it is not a file")
        array = np.lib.format.open_memmap(path, mode="r")
        if name == GRAPH_FILE:
            return check_graph(array, num_rows)
        mask = np.zeros(num_rows, bool)
        if array.ndim != 1 or array.dtype != np.int64 or not 0 <= array.min() <= array.max() < num_rows:
            raise ValueError(f"{array.dtype} numbers of the shape {list(array.shape)} for {num_rows} rows")
        mask[array] = True
        return mask
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name} does not fit its rows ({error}); without graph.npy, search is exact") from None
