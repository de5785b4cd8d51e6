"""Reading texts with labels, for fine-tuning: TSV, CSV and JSON Lines."""

import csv
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping

from data_prep.corpus import read_lines
from keras_bert.errors import InputError

Column = str | int

# Line number, and column name or number -> value.
_Row = tuple[int, Mapping[Column, object]]


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """The rows of a file, column by column.

    Attributes:
        texts: N texts.
        second_texts: N second texts, or None.
        labels: N labels, or None.
    """

    texts: list[str]
    second_texts: list[str] | None = None
    labels: list[str] | None = None


def read_labelled_text(
    path: str | os.PathLike,
    *,
    text_column: Column = "text",
    second_text_column: Column | None = None,
    label_column: Column | None = "label",
    has_header: bool = True,
) -> LabelledText:
    """Reads texts, second texts and labels from a file.

    The kind of file is told by its name, before which `.gz` is cut off:

    * `.tsv`, `.txt`: values with tabs between them. A quotation mark is an ordinary character, as in the GLUE files.
    * `.csv`: values with commas between them; those that contain a comma, a quotation mark or a line break are quoted.
    * `.jsonl`: one JSON object a line.

    A byte order mark and blank lines are skipped, and white space around values is cut off.

    Args:
        text_column: name or number, from 0, of the column of the texts. A number may be written as a string.
        second_text_column: the same for the second text of pairs.
        label_column: the same for the labels; None reads none.
        has_header: whether the first line of a `.tsv` or `.csv` file holds the names of the columns.

    Raises:
        InputError: the file cannot be read or has no rows, a column is missing, a row has too few or too many columns
            or an empty value.

    Example:
        >>> read_labelled_text("CoLA/dev.tsv", text_column=3, label_column=1, has_header=False).labels[:3]
        ['1', '1', '1']
    """
    path = os.fspath(path)
    rows = _rows(path, has_header)
    columns = {"text": text_column, "second text": second_text_column, "label": label_column}
    values = {kind: [] for kind, column in columns.items() if column is not None}
    for line_number, row in rows:
        for kind, found in values.items():
            found.append(_value(row, columns[kind], kind, f"{path}: line {line_number}"))
    if not values["text"]:
        raise InputError(f"{path} has no rows{' below the header' if has_header else ''}.")
    return LabelledText(values["text"], values.get("second text"), values.get("label"))


def _rows(path: str, has_header: bool) -> Iterator[_Row]:
    name = path.removesuffix(".gz")
    if not os.path.isfile(path):
        raise InputError(f"There is no file {path}")
    if name.endswith(".jsonl"):
        return _json_rows(path)
    if name.endswith((".tsv", ".txt")):
        return _named_rows(_tab_separated(path), path, has_header)
    if name.endswith(".csv"):
        return _named_rows(_comma_separated(path), path, has_header)
    raise InputError(f"{path}: labelled text is read from .tsv, .csv and .jsonl files. Rename or convert it.")


def _tab_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, line.rstrip("\r\n").split("\t")


def _comma_separated(path: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(read_lines(path), strict=True)
    while True:
        first_line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path}: line {first_line} is not CSV: {error}") from None
        if row is None:
            return
        if any(value.strip() for value in row):
            yield first_line, row


def _named_rows(rows: Iterator[tuple[int, list[str]]], path: str, has_header: bool) -> Iterator[_Row]:
    """Turns lists of values into mappings from column names, where there is a header, and numbers."""
    header = None
    for line_number, values in rows:
        if header is None:
            header = [value.strip() for value in values] if has_header else [None] * len(values)
            if has_header:
                continue
        if len(values) != len(header):
            raise InputError(
                f"{path}: line {line_number} has {len(values)} columns, but {len(header)} are expected, as in the "
                "first line."
            )
        # Names come last: a column may be called "0".
        numbered = {key: value for number, value in enumerate(values) for key in (number, str(number))}
        yield (
            line_number,
            numbered | {name: value for name, value in zip(header, values, strict=True) if name is not None},
        )


def _json_rows(path: str) -> Iterator[_Row]:
    for number, line in enumerate(read_lines(path, is_json=True), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}: line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}: line {number} must be a JSON object. Received: {type(row).__name__}")
        yield number, row


def _value(row: Mapping[Column, object], column: Column, kind: str, where: str) -> str:
    if column not in row:
        names = [repr(name) for name in row if isinstance(name, str) and not _is_number_of(name, row)]
        found = ", ".join(names) or f"the numbers 0 to {sum(isinstance(name, int) for name in row) - 1}"
        raise InputError(
            f"{where}: there is no column {column!r} for the {kind}. The columns are: {found}. Name another one; for a "
            "file without a header say so, and give numbers."
        )
    value = row[column]
    if isinstance(value, int) and not isinstance(value, bool) and kind == "label":
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"{where}: the {kind} in column {column!r} must be a string. Received: {value!r}")
    if not value.strip():
        raise InputError(f"{where}: the {kind} in column {column!r} is empty. Remove the line or fill it in.")
    return value.strip()


def _is_number_of(name: str, row: Mapping[Column, object]) -> bool:
    """Whether a key is only the number of a column, written as a string."""
    return name.isascii() and name.isdigit() and int(name) in row
