"""Reads texts, their ids and further columns from files of any kind, as record batches of Arrow.

Files that end in .csv, .tsv, .json, .jsonl, .parquet, .arrow or .feather and data sets of tensorflow_datasets are
tables; other files have a text in each line. A few thousand rows at a time are in memory.
"""

import dataclasses
import functools
import hashlib
import itertools
import logging
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data_prep.finetuning.tables import Row, ending_of, read_rows
from data_prep.text.column_files import is_column_file, read_column_file
from data_prep.text.corpus import list_sources
from data_prep.text.text_lines import JSON_LINES, read_lines, without_lone_surrogates
from data_prep.text.tfds_text import is_tfds_name
from keras_bert.program.arrow_files import pa
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import MissingColumn, is_missing, missing_message, skipped_note

ID, TEXT = "id", "text"
_ROWS_AT_ONCE = 1024
# Ids are compared within this number of rows: their hashes take 128 MB.
_IDS_AT_ONCE = 1 << 24
_ADVICE = "Fill them in, or leave such rows out with --skip_missing (skip_missing=True)."
# The kinds of values in a column, sorted -> its type.
_TYPES = {
    (): pa.string(),
    ("str",): pa.string(),
    ("int",): pa.int64(),
    ("float",): pa.float64(),
    ("float", "int"): pa.float64(),
    ("bool",): pa.bool_(),
    ("list of str",): pa.list_(pa.string()),
}
_logger = logging.getLogger(__name__)


class TableFacts(NamedTuple):
    """The number of rows that have texts, a SHA-256 of the values of all rows, and column -> type of Arrow."""

    num_rows: int
    rows_sha256: str
    types: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class TextTable:
    """Texts with ids and further columns: strings, whole numbers of 64 bits, numbers, truth values or lists of strings.

    Attributes:
        patterns: files, folders, patterns, URLs and names of tensorflow_datasets, see `list_sources`.
        text_columns: the columns of the texts, with strings or lists of strings; None for `text`, or the lines of files
            that are no tables.
        id_column: the column of the ids, strings or whole numbers. None: the ids are the numbers of the rows from 0.
        columns: further columns. Those of .csv and .tsv have strings; dates become strings.
        has_header: whether the first line of a .tsv or .csv file has the names of the columns.
        skip_missing: whether rows whose text is null or blank are left out. They count in the numbers of rows.
    """

    patterns: str | Sequence[str]
    text_columns: Sequence[str] | None = None
    id_column: str | None = None
    columns: Sequence[str] = ()
    has_header: bool = True
    skip_missing: bool = False

    @functools.cached_property
    def facts(self) -> TableFacts:
        """What the table has. It is read once from beginning to end.

        Raises:
            InputError: a source cannot be read or has no such column; a column has values of several kinds; texts or
                ids are missing, or no row has a text; or two of 16,777,216 rows that follow each other have the same
                id.
        """
        kinds: dict[str, dict[str, str]] = {name: {} for name in self._names}  # column -> kind -> its first place
        digest, number, num_missing, first, ids = hashlib.sha256(), 0, 0, "", array("Q")
        for number, (where, values) in enumerate(self._rows(), start=1):
            digest.update(repr(values).encode())
            for name, value in zip(kinds, values, strict=True):
                if value is not None:
                    kinds[name].setdefault(_kind_of(value), where)
            if self._lacks_text(values):
                num_missing, first = num_missing + 1, first or f"number {number - 1}, counted from 0, at {where}"
            if self.id_column:
                if not isinstance(values[0], str | int):
                    raise InputError(f"{where}: an id is a string or a whole number. Received: {values[0]!r:.100}")
                ids.append((hash(values[0]) if isinstance(values[0], str) else values[0]) % (1 << 64))
            if len(ids) == _IDS_AT_ONCE:
                _check_ids(ids, number)
                ids = array("Q")
        _check_ids(ids, number)
        source = ",".join([self.patterns] if isinstance(self.patterns, str) else self.patterns)
        if num_missing and not self.skip_missing:
            raise InputError(missing_message(source, num_missing, number, first, _ADVICE))
        if number == num_missing:
            raise InputError(f"{source}: no row has a text.")
        if num_missing:
            _logger.warning("%s", skipped_note(source, num_missing, number))
        return TableFacts(number - num_missing, digest.hexdigest(), self._types(kinds))

    def batches(self) -> Iterator[Any]:
        """Yields `pyarrow.RecordBatch` with the column `id`, the columns of the texts, and the further columns.

        Raises `InputError` as `facts`, which come first.
        """
        types = self.facts.types
        rows = (values for _, values in self._rows() if not self._lacks_text(values))
        while part := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            columns = zip(types.items(), zip(*part, strict=True), strict=True)
            yield pa.record_batch({name: pa.array(list(values), kind) for (name, kind), values in columns})

    @functools.cached_property
    def _names(self) -> list[str]:
        """The names of the columns of batches, that of the ids first."""
        names = dict.fromkeys([*(self.text_columns or [TEXT]), *self.columns])
        if ID in names and self.id_column != ID:
            raise InputError(f"The output has a column {ID!r} with the ids: {ID!r} can only be the column of the ids.")
        return [ID, *(name for name in names if name != ID)]

    def _lacks_text(self, values: Sequence[Any]) -> bool:
        return any(is_missing(values[self._names.index(name)]) for name in self.text_columns or [TEXT])

    def _types(self, kinds: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        types = {name: _TYPES.get(tuple(sorted(kinds[name]))) for name in kinds}
        for name, found in kinds.items():
            if types[name] is None or (
                name in (self.text_columns or [TEXT]) and not {*found} <= {"str", "list of str"}
            ):
                wanted = "strings" if types[name] else "values of one kind"
                places = ", ".join(f"{kind} at {where}" for kind, where in found.items())
                raise InputError(f"The column {name!r} must have {wanted}. It has: {places}")
        return types

    def _rows(self) -> Iterator[tuple[str, tuple]]:
        """Yields the place and the values of each row, those without texts included."""
        absent: dict[str, str] = {}
        present = set()

        def value_of(row: Row, name: str) -> Any:
            try:
                value = _clean(row.value(name, "table"))
            except MissingColumn as error:  # a line of JSON may leave a column out
                absent.setdefault(name, str(error))
                return None
            present.add(name)
            return value

        rows = itertools.chain.from_iterable(map(self._rows_of, list_sources(self.patterns)))
        for number, row in enumerate(rows):
            one_id = value_of(row, self.id_column) if self.id_column else number
            yield row.where, (one_id, *(value_of(row, name) for name in self._names[1:]))
        if never := [message for name, message in absent.items() if name not in present]:
            raise InputError(never[0])

    def _rows_of(self, source: str) -> Iterator[Row]:
        names = [*filter(None, [self.id_column]), *self._names[1:]]
        if is_column_file(source):
            for number, (values, _) in enumerate(read_column_file(source, list(dict.fromkeys(names))), start=1):
                yield Row(f"{source}: row {number}", dict(values.items()))
            return
        is_named = self.text_columns is not None or is_tfds_name(source)
        if is_named or ending_of(source) in (".csv", ".tsv", ".json", *JSON_LINES):
            yield from read_rows(source, has_header=self.has_header)
            return
        if names != [TEXT]:
            raise InputError(f"{source} has a text in each line, and no columns. Name it .csv, .tsv or .jsonl.")
        for number, line in enumerate(read_lines(source), start=1):
            yield Row(f"{source}: line {number}", {TEXT: line.strip()})


def _kind_of(value: Any) -> str:
    if isinstance(value, list):
        return "list of str" if all(isinstance(one, str) for one in value) else "list"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "int of more than 64 bits"
    return type(value).__name__


def _clean(value: Any) -> Any:
    """Returns a value whose strings UTF-8 can hold."""
    if isinstance(value, list):
        return [_clean(one) for one in value]
    return without_lone_surrogates(value) if isinstance(value, str) else value


def _check_ids(hashes: array, end: int) -> None:
    """Raises `InputError` if two of the rows before `end`, whose ids have these hashes, have the same id."""
    found = np.array(hashes)
    order = np.argsort(found, kind="stable")
    twice = np.flatnonzero(found[order[1:]] == found[order[:-1]])
    if len(twice):
        earliest = twice[order[twice + 1].argmin()]
        first, second = end - len(found) + order[earliest : earliest + 2]
        raise InputError(
            f"The rows {first:,} and {second:,}, counted from 0, have the same id. Every text needs an id of its own: "
            "remove one of them, or leave --id_column out."
        )
