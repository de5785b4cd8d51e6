"""Reads the rows of tables, and the values in their columns: text files, Parquet and Arrow, tensorflow_datasets."""

import ast
import contextlib
import csv
import dataclasses
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from data_prep.finetuning.annotation_tools import plain_rows
from data_prep.text import tfds_text
from data_prep.text.column_files import COLUMN_SUFFIXES, is_column_file, read_column_file
from data_prep.text.text_lines import JSON_LINES, MAX_ROW_BYTES, read_lines, read_text, without_lone_surrogates
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json, parse_json_line
from keras_bert.program.user_inputs import MissingColumn, MissingValue, is_float32, is_missing

# How JSON begins: with a list of objects or of spaCy's pairs, or with one of these. No word or header begins so.
_START_OF_JSON = re.compile(r'\s*(?P<list>\[\s*(?=[{\[]))?(\{\s*"[^"]*"\s*:|\[\s*"(\\.|[^"\\])*"\s*,\s*\{)')
# A line with an object or a list, followed by another: JSON Lines, whatever the name of the file.
_TWO_VALUES = re.compile(r"\s*(\{.*\}|\[.*\])\s*\n\s*[{\[]")
# The first lines of a CSV file, which show its separator.
_LINES_COMPARED = 200

# A list that Python, NumPy or JSON has written into a text, and one of its values: a string, a number or a truth value.
_LIST = re.compile(r"""\[\s*\]|[\[({]\s*['"].*['"],?\s*[\])}]|\[[\d\s.,]+\]|\[\s*(True|False|true|false)\b.*\]""", re.S)
_LIST_VALUE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\d.]*|True|False|true|false""", re.S)
# Python's limit of 131,072 characters is for all readers of CSV in a process. `_separated` limits whole rows.
csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))

# A name, or a number from 0, which may be written as a string.
Column = str | int


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: its place, for error messages, and its values by column name and by column number."""

    where: str
    values: Mapping[Column, Any]
    decimal_comma: bool = False  # whether numbers have a comma, as "0,5"
    header: str = ""  # the place of the line with the names of the columns; empty if there is none

    def value(self, column: Column, kind: str) -> Any:
        """Returns the value in a column. `kind` names it in the error message for a missing column.

        Raises `InputError` if the file has no such column; `MissingColumn` if only this row is known not to have it.
        """
        if column not in self.values:
            names = [name for name in self.values if isinstance(name, str) and not _is_number_of(name, self.values)]
            found = (
                ", ".join(map(repr, names))
                or f"the numbers 0 to {sum(isinstance(name, int) for name in self.values) - 1}"
            )
            message = f"there is no column {column!r} for the {kind}. The columns are: {found}"
            if 0 not in self.values:  # each row names its values
                raise MissingColumn(f"{self.where}: {message}")
            raise InputError(
                f"{self.header or self.where}: {message}. "
                + (
                    _separator_hint(names)
                    or "Name one of them. For a file without a header, use --nohas_header (has_header=False) and give "
                    "the columns as numbers from 0, such as --text_column=0."
                )
            )
        return self.values[column]

    def text(self, column: Column, kind: str = "text", *, may_be_empty: bool = False) -> str:
        return self._checked_text(self.value(column, kind), column, kind, may_be_empty)

    def label(self, column: Column, kind: str = "label") -> str:
        value = self.value(column, kind)
        if isinstance(value, list):  # the classes that an annotator chose
            if len(value) > 1:
                raise InputError(
                    f"{self.where}: the {kind} in column {column!r} is a list of {len(value)}: {value!r:.100}. Where "
                    "texts have several labels, the task is multi_label."
                )
            value = value[0] if value else None
        # In JSON, labels may be numbers.
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        return self._checked_text(value, column, kind)

    def labels(self, column: Column, separator: str) -> list[str]:
        """Returns any number of labels: from a list, also written as text, or from a string with separators."""
        value = self.value(column, "labels")
        if is_missing(value, may_be_blank=True) or (isinstance(value, list) and any(map(is_missing, value))):
            raise self._missing(value, column, "label")
        if isinstance(value, list):
            if nested := [label for label in value if isinstance(label, (list, dict))]:
                raise InputError(
                    f"{self.where}: a label in column {column!r} must be a string. Received: {nested[0]!r:.100}"
                )
            return [self._checked_text(str(label), column, "label") for label in value]
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        text = self._checked_text(value, column, "labels", may_be_empty=True)
        if _LIST.fullmatch(text):
            return self._written_list(text, column)
        return [label.strip() for label in text.split(separator) if label.strip()]

    def _written_list(self, text: str, column: Column) -> list[str]:
        """Returns the values of a list as JSON, Python or NumPy write it: `["a"]`, `['a', 'b']`, `['a' 'b']`."""
        rest = text[1:-1]
        values = [match[0] for match in _LIST_VALUE.finditer(rest)]
        if _LIST_VALUE.sub("", rest).strip(", \n"):
            raise InputError(f"{self.where}: the labels in column {column!r} are no list. Received: {text!r:.100}")
        strings = (ast.literal_eval(value) if value[0] in "'\"" else value for value in values)
        return [self._checked_text(label, column, "label") for label in strings]

    def marked(self, columns: Sequence[Column]) -> list[str]:
        """Returns the names of the columns with a 1; the others must have a 0."""
        names = {"0": False, "1": True, "false": False, "true": True}
        found = []
        for column in columns:
            value = self.value(column, "label")
            if is_missing(value):
                raise self._missing(value, column, "label")
            value = str(value).strip().lower()
            if value not in names:
                raise InputError(f"{self.where}: the label in column {column!r} must be 0 or 1. Received: {value!r}")
            if names[value]:
                found.append(str(column))
        return found

    def number(self, column: Column, kind: str = "score") -> float:
        value = self.value(column, kind)
        if self.decimal_comma and isinstance(value, str):
            value = value.replace(",", ".")
        if is_missing(value):
            raise self._missing(value, column, kind)
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not is_float32(number):
            raise InputError(
                f"{self.where}: the {kind} in column {column!r} must be a number. Received: {value!r:.100}"
                + (", which is too large for 32 bits" if math.isfinite(number) else "")
            )
        return number

    def numbers(self, column: Column, kind: str = "score") -> list[float]:
        """Returns the numbers of a list, also written as text: `[0.5, -1]`; a single number is a list of one."""
        value = self.value(column, kind)
        if isinstance(value, str) and value.strip().startswith("["):
            value = parse_json(value, f"{self.where}: the {kind}s in column {column!r}")
        if not isinstance(value, list):
            return [self.number(column, kind)]
        if not all(map(is_float32, value)):
            raise InputError(
                f"{self.where}: the {kind}s in column {column!r} must be numbers. Received: {value!r:.100}"
            )
        return value

    def texts(self, columns: Sequence[Column], kind: str) -> list[str]:
        """Returns the texts of several columns, or the texts of a list in a single column."""
        if len(columns) == 1 and isinstance(self.value(columns[0], kind), list):
            if not self.values[columns[0]]:
                raise self._missing([], columns[0], kind)
            return [self._checked_text(text, columns[0], kind) for text in self.values[columns[0]]]
        return [self.text(column, kind) for column in columns]

    def _checked_text(self, value: Any, column: Column, kind: str, may_be_empty: bool = False) -> str:
        if is_missing(value, may_be_empty):
            raise self._missing(value, column, kind)
        if not isinstance(value, str):
            raise InputError(
                f"{self.where}: the {kind} in column {column!r} must be a string. Received: {value!r:.100}"
            )
        return without_lone_surrogates(value.strip())

    def _missing(self, value: Any, column: Column, kind: str) -> MissingValue:
        found = "empty" if isinstance(value, str) else repr(value)
        return MissingValue(f"{self.where}: the {kind} in column {column!r} is {found}")


def read_rows(source: str, *, has_header: bool = True, left_out: list[str] | None = None) -> Iterator[Row]:
    """Yields the rows of a file or of a data set.

    The name determines the kind of the file, without a final `.gz` and in either case:

    * `.tsv`, `.txt`: values separated by tabs. A quotation mark is an ordinary character, as in the GLUE files.
    * `.csv`: values separated by commas, or by semicolons where the decimal mark is a comma (see `separator_of`). A
      value with a separator, a quotation mark or a line break is quoted.
    * `.jsonl`, `.ndjson`, and other files that begin as JSON: one JSON object per line, or a list of objects; `.json`:
      a list of objects. Tasks of Label Studio and answers of Prodigy become plain rows, see `plain_rows`.
    * `.parquet`, `.arrow`, `.feather`: see `read_column_file`.
    * `tfds:NAME[/CONFIG][:VERSION][@SPLIT]`: a data set of tensorflow_datasets. Classes are given by name.

    A file may be a URL such as gs://, see `remote_files.py`. A byte order mark is skipped. So are blank lines, with one
    exception: in a table with a single column, a blank line that is followed by others is a row with an empty value.

    Args:
        has_header: whether the first line of a `.tsv` or `.csv` file has the names of the columns.
        left_out: if given, rows with too few or too many columns are left out, and a description of each is appended
            here.

    Raises:
        InputError: the source cannot be read, or a row has too few or too many columns.
    """
    if tfds_text.is_tfds_name(source):
        for number, values in enumerate(tfds_text.read_examples(source), start=1):
            yield Row(f"{source}: example {number}", values)
        return
    ending = ending_of(source)
    if ending in JSON_LINES:
        lines = ((number, line) for number, line in enumerate(read_lines(source), start=1) if line.strip())
        values = ((number, parse_json_line(line, f"{source}: line {number}")) for number, line in lines)
        yield from itertools.starmap(Row, plain_rows(source, "line", values))
    elif ending == ".json":
        listed = parse_json(read_text(source), source)
        if not isinstance(listed, list):
            raise InputError(
                f"{source} must be a list of objects, as Label Studio exports it. Received: {listed!r:.100}"
            )
        yield from rows_of_list(source, listed)
    elif is_column_file(source):
        for number, (values, _) in enumerate(read_column_file(source), start=1):
            yield Row(f"{source}: row {number}", values)
    elif ending in (".tsv", ".txt"):
        lines = enumerate(read_lines(source), start=1)
        rows = ((number, line.rstrip("\r\n").split("\t")) for number, line in lines)
        yield from _named_rows(rows, source, has_header, left_out)
    elif ending == ".csv":
        separator = separator_of(itertools.islice(read_lines(source), _LINES_COMPARED))
        rows = _named_rows(_separated(source, separator), source, has_header, left_out)
        yield from rows if separator == "," else (dataclasses.replace(row, decimal_comma=True) for row in rows)
    else:
        raise InputError(
            f"{source}: labelled text is read from .tsv, .csv, .jsonl, .parquet, .arrow and .feather files. Rename or "
            "convert it."
        )


def column_names(source: str, *, has_header: bool = True) -> set[Column]:
    """Returns the columns of a source. Each row of JSON names its own, so all rows are read."""
    rows = read_rows(source, has_header=has_header)
    is_json = not tfds_text.is_tfds_name(source) and ending_of(source) in (".json", *JSON_LINES)
    return {name for row in itertools.islice(rows, None if is_json else 1) for name in row.values}


def has_named_values(source: str) -> bool:
    """Returns whether a source names its values itself, not in a header: JSON Lines, Parquet, tensorflow_datasets."""
    return tfds_text.is_tfds_name(source) or is_column_file(source) or ending_of(source) in JSON_LINES


def ending_of(source: str) -> str:
    """Returns the ending of a file's name, in lower case and without `.gz`; of files with JSON, that of its form.

    A name may end in anything: `eng.train` has CoNLL columns, and `export.json1` has JSON Lines. Raises `InputError` if
    the file cannot be read, or is of a kind that another program must convert.
    """
    ending = os.path.splitext(source.lower().removesuffix(".gz"))[1]
    if ending in (*JSON_LINES, *COLUMN_SUFFIXES):
        return ending
    if ending == ".spacy":
        raise InputError(
            f"{source} is a DocBin of spaCy. Write JSON Lines from it: for each doc of "
            'DocBin().from_disk(...).get_docs(nlp.vocab) the line json.dumps({"text": doc.text, "spans": '
            'doc.to_json()["ents"]}).'
        )
    start = "".join(itertools.islice(filter(str.strip, read_lines(source)), 5))
    if ending == ".json":
        return ".jsonl" if _TWO_VALUES.match(start) else ending
    found = _START_OF_JSON.match(start)
    if found is None:
        return ending
    return ".json" if found["list"] or start.splitlines()[0].rstrip()[-1:] not in "}]" else ".jsonl"


def separator_of(lines: Iterable[str]) -> str:
    """Returns the separator of a CSV file, a comma or a semicolon, from its first lines.

    It is the one with which all rows have the same number of columns, two or more. If both or neither are, it is a
    comma, unless only a semicolon divides the first row.

    >>> separator_of(["text;label\\n", "Nun ja, gut;0,5\\n"]), separator_of(["text,label\\n", "a; b,1\\n"])
    (';', ',')
    """
    lines = list(lines)
    widths = {separator: _widths(lines, separator) for separator in ",;"}
    even = [separator for separator, found in widths.items() if len(set(found)) == 1 and found[0] > 1]
    if not even:
        even = [separator for separator, found in widths.items() if found and found[0] > 1]
    return even[0] if even else ","


def _widths(lines: list[str], separator: str) -> list[int]:
    """Returns the numbers of columns of the rows that are not blank; a last row without its end is left out."""
    found = []
    with contextlib.suppress(csv.Error):
        for row in csv.reader(lines, delimiter=separator, strict=True):
            if row:
                found.append(len(row))
    return found


def _separated(path: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    first_line, num_characters = 1, 0

    def lines():
        nonlocal num_characters
        for line in read_lines(path):
            num_characters += len(line)
            if num_characters > MAX_ROW_BYTES:
                raise InputError(
                    f"{path}: the row that begins in line {first_line} has more than {MAX_ROW_BYTES:,} characters. It "
                    "may lack a closing quotation mark."
                )
            yield line

    reader = csv.reader(lines(), delimiter=separator, strict=True)
    while True:
        first_line, num_characters = reader.line_num + 1, 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path}: line {first_line} is not CSV: {error}") from None
        if row is None:
            return
        yield first_line, row or [""]


def _named_rows(
    rows: Iterator[tuple[int, list[str]]], path: str, has_header: bool, left_out: list[str] | None
) -> Iterator[Row]:
    """Converts lists of values to mappings from column numbers, and from column names if there is a header."""
    header, header_place = None, ""
    for line_number, values in _with_empty_values(rows):
        if header is None:
            header = [value.strip() for value in values] if has_header else [None] * len(values)
            numbers = [(number, str(number)) for number in range(len(header))]
            if has_header:
                header_place = f"{path}: line {line_number}, the header"
                continue
        where = f"{path}: line {line_number}"
        if len(values) != len(header):
            message = f"{where} has {len(values)} columns, but {len(header)} are expected, as in the first line."
            if has_header and (hint := _separator_hint(header)):
                message += f" {hint}"
            if left_out is None:
                raise InputError(message)
            left_out.append(message)
            continue
        # Names are added last, since a column may have the name "0".
        found = {key: value for keys, value in zip(numbers, values, strict=True) for key in keys}
        found.update((name, value) for name, value in zip(header, values, strict=True) if name is not None)
        yield Row(where, found, header=header_place)


def _with_empty_values(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Removes blank lines. In a table with a single column, only those at its start and end are removed."""
    num_columns, blank = None, []
    for line_number, values in rows:
        if any(value.strip() for value in values):
            num_columns = num_columns or len(values)
            yield from ((number, [""]) for number in blank)
            blank = []
            yield line_number, values
        elif num_columns == 1:
            blank.append(line_number)


def rows_of_list(path: str, values: list) -> Iterator[Row]:
    """Yields the rows of the list in a `.json` file, as `read_rows` does."""
    return itertools.starmap(Row, plain_rows(path, "item", enumerate(values, start=1)))


def _separator_hint(names: Sequence[str]) -> str:
    """Returns advice for a table with a single column whose lines contain another separator."""
    if len(names) == 1:
        for separator, name, advice in (("\t", "tabs", "Name the file .tsv"), (",", "commas", "Name the file .csv")):
            if separator in names[0]:
                return (
                    f"The first line has {name} between its values. .csv files need commas, .tsv files tabs. {advice}."
                )
    return ""


def _is_number_of(name: str, values: Mapping[Column, object]) -> bool:
    """Returns whether a key is a column number that was written as a string."""
    return name.isascii() and name.isdigit() and len(name) < 10 and int(name) in values
