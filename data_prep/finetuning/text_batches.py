"""Reads texts, their ids and further columns from files of any kind, as record batches of Arrow.

Files that end in .csv, .tsv, .json, .jsonl, .parquet, .arrow or .feather and data sets of tensorflow_datasets are
tables; other files have a text in each line. A few thousand rows at a time are in memory.
"""

import dataclasses
import hashlib
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data_prep.finetuning.tables import Row, ending_of, read_rows
from data_prep.text.column_files import is_column_file, read_column_batches
from data_prep.text.corpus import list_sources
from data_prep.text.text_lines import JSON_LINES, read_lines, without_lone_surrogates
from data_prep.text.tfds_text import is_tfds_name
from keras_bert.program.arrow_files import pa
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import MissingColumn, is_missing, missing_message, skipped_note

ID, TEXT = "id", "text"
_ROWS_AT_ONCE = 1024
# Ids are compared within so many rows: their hashes take 128 MB.
_IDS_AT_ONCE = 1 << 24
_ADVICE = "Fill them in, or leave such rows out with --skip_missing (skip_missing=True)."
_logger = logging.getLogger(__name__)


class TableFacts(NamedTuple):
    """The number of rows that have texts, and a SHA-256 of the ids, texts and columns of all rows."""

    num_rows: int
    rows_sha256: str


@dataclasses.dataclass(frozen=True)
class TextTable:
    """Texts with ids and further columns.

    Attributes:
        patterns: files, folders, patterns, URLs and names of tensorflow_datasets, see `list_sources`.
        text_columns: the columns of the texts, with strings or lists of strings; None for `text`, or the lines of files
            that are no tables.
        id_column: the column of the ids, strings or whole numbers. None: the ids are the numbers of the rows from 0.
        columns: further columns. They have the types of the file. Those of .csv and .tsv are strings, those of JSON
            have the type of the first 1,024 rows.
        has_header: whether the first line of a .tsv or .csv file has the names of the columns.
        skip_missing: whether rows whose text is null or blank are left out. They count in the numbers of rows.
    """

    patterns: str | Sequence[str]
    text_columns: Sequence[str] | None = None
    id_column: str | None = None
    columns: Sequence[str] = ()
    has_header: bool = True
    skip_missing: bool = False

    def batches(self) -> Iterator[Any]:
        """Yields `pyarrow.RecordBatch` with the column `id`, the columns of the texts, and the further columns.

        Raises:
            InputError: a source cannot be read or has no such column, a column has another type than in the first
                source, an id is missing, or a text is and `skip_missing` is False.
        """
        for source, batch, has_text in self._read():
            if not has_text.all() and not self.skip_missing:
                raise InputError(f"{source}: a row has no text. {_ADVICE}")
            yield batch if has_text.all() else batch.filter(pa.array(has_text.tolist()))

    def checked(self) -> TableFacts:
        """Reads the whole table once and returns what it has.

        Raises:
            InputError: as `batches`, with the number of missing texts; no row has a text; or two of 16,777,216 rows
                that follow each other have the same id.
        """
        digest, number, num_missing, first, ids = hashlib.sha256(), 0, 0, "", _Ids()
        for source, batch, has_text in self._read():
            if not num_missing and not has_text.all():
                first = f"number {number + int(has_text.argmin())}, counted from 0, in {source}"
            num_missing += int((~has_text).sum())
            number += len(batch)
            digest.update(batch.serialize())
            if self.id_column:
                ids.add(batch[ID].to_pylist(), number)
        ids.check(number)
        if num_missing and not self.skip_missing:
            raise InputError(missing_message(str(self.patterns), num_missing, number, first, _ADVICE))
        if number == num_missing:
            raise InputError(f"{self.patterns}: no row has a text.")
        if num_missing:
            _logger.warning("%s", skipped_note(str(self.patterns), num_missing, number))
        return TableFacts(number - num_missing, digest.hexdigest())

    def _read(self) -> Iterator[tuple[str, Any, np.ndarray]]:
        """Yields the batches of all sources, each with its source and which rows have texts, bool `[rows]`."""
        text_columns = [TEXT] if self.text_columns is None else self.text_columns
        names = list(dict.fromkeys([*text_columns, *self.columns]))
        if ID in names and self.id_column != ID:
            raise InputError(f"The output has a column {ID!r} with the ids: {ID!r} can only be the column of the ids.")
        known: dict[str, Any] = {}  # column -> type
        number = 0
        for source in list_sources(self.patterns):
            for found in self._of_source(source, list(dict.fromkeys([*filter(None, [self.id_column]), *names])), known):
                if self.id_column:
                    ids = found[self.id_column]
                else:
                    ids = pa.array(range(number, number + len(found)), pa.int64())
                batch = pa.record_batch({ID: ids, **{name: found[name] for name in names if name != ID}})
                if not known:
                    known.update({field.name: field.type for field in batch.schema})
                self._check(source, batch, text_columns, known)
                number += len(batch)
                texts = [[not is_missing(text) for text in batch[name].to_pylist()] for name in text_columns]
                yield source, batch, np.all(texts, axis=0)

    def _check(self, source: str, batch: Any, text_columns: Sequence[str], known: Mapping[str, Any]) -> None:
        """Raises `InputError` if columns have other types than those of the first source, or not the right ones."""
        for field in batch.schema:
            values = field.type.value_type if pa.types.is_list(field.type) else field.type
            if field.type != known[field.name]:
                raise InputError(
                    f"{source}: the column {field.name!r} has the type {field.type}, and {known[field.name]} in the "
                    "source before. Write both alike."
                )
            if field.name in text_columns and not _is_string(values):
                raise InputError(f"{source}: the column {field.name!r} must have strings. It has {field.type}.")
        if batch[ID].null_count or not (_is_string(batch[ID].type) or pa.types.is_integer(batch[ID].type)):
            found = f"{batch[ID].type}, {batch[ID].null_count} missing"
            raise InputError(f"{source}: ids are strings or whole numbers. {self.id_column!r} has: {found}")

    def _of_source(self, source: str, names: list[str], known: Mapping[str, Any]) -> Iterator[Any]:
        """Yields columns of a source; `known` gets their types while it is read, and the ids as `id`."""
        if is_column_file(source):
            yield from read_column_batches(source, names)
            return
        is_named = self.text_columns is not None or is_tfds_name(source)
        if not is_named and ending_of(source) not in (".csv", ".tsv", ".json", *JSON_LINES):
            if names != [TEXT]:
                raise InputError(f"{source} has a text in each line, and no columns. Name it .csv, .tsv or .jsonl.")
            rows = (
                Row(f"{source}: line {number}", {TEXT: line.strip()}) for number, line in enumerate(read_lines(source))
            )
        else:
            rows = read_rows(source, has_header=self.has_header)
        while part := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            kinds = {name: known.get(ID if name == self.id_column else name) for name in names}
            yield pa.record_batch({name: _column(part, name, kinds[name]) for name in names})


class _Ids:
    """Finds ids that are given twice by their hashes."""

    def __init__(self):
        self._hashes: list[np.ndarray] = []
        self._num_hashes = 0

    def add(self, ids: list, end: int) -> None:
        """Adds the ids of the rows before `end`. Whole numbers are their own hashes."""
        hashes = [(hash(one) if isinstance(one, str) else one) % (1 << 64) for one in ids]
        self._hashes.append(np.array(hashes, np.uint64))
        self._num_hashes += len(ids)
        if self._num_hashes >= _IDS_AT_ONCE:
            self.check(end)
            self.__init__()

    def check(self, end: int) -> None:
        """Raises `InputError` if an id is there twice."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        order = np.argsort(hashes, kind="stable")
        twice = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
        if len(twice):
            earliest = twice[order[twice + 1].argmin()]
            first, second = end - len(hashes) + order[earliest : earliest + 2]
            raise InputError(
                f"The rows {first:,} and {second:,}, counted from 0, have the same id. Every text needs an id of its "
                "own: remove one of them, or leave --id_column out."
            )


def _column(rows: Sequence[Row], name: str, kind: Any) -> Any:
    """Returns a column of rows with a type of Arrow, None for the one that fits.

    Raises `InputError` if no row has the column, or a value has another type.
    """
    values, missing = [], None
    for row in rows:
        try:
            value = row.value(name, "table")
        except MissingColumn as error:  # a line of JSON may leave a column out
            value, missing = None, error
        values.append(without_lone_surrogates(value) if isinstance(value, str) else value)
    if missing is not None and kind is None and not any(name in row.values for row in rows):
        raise InputError(str(missing))
    try:
        array = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wanted = f"the type {kind}, as the rows before" if kind else "values of one type"
        raise InputError(f"{rows[0].where} or later: the column {name!r} must have {wanted}: {error!s:.200}") from None
    if "struct" in str(array.type):
        raise InputError(f"{rows[0].where}: the column {name!r} has objects. Columns have strings, numbers or lists.")
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def _is_string(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
