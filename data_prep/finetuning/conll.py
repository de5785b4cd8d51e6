"""Reads words with tags: CoNLL columns, JSON Lines, Parquet and tensorflow_datasets."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data_prep.finetuning.tables import Column, Row, has_named_values, read_rows
from data_prep.text.text_lines import read_lines
from keras_bert.program.errors import InputError
from keras_bert.tasks.label_names import label_name
from keras_bert.tasks.tagging.examples import TaggedSentences

_DOCUMENT_MARK = "-DOCSTART-"
# CoNLL-U's comments on where a document or paragraph begins.
_NEW_DOCUMENT = "# newdoc"
_COMMENT_WORDS = ("newdoc", "newpar", "id")
# Usual names of the lists in JSON Lines of Hugging Face data sets and in tensorflow_datasets.
_WORD_NAMES = ("tokens", "words")
_TAG_NAMES = ("tags", "ner_tags", "ner", "labels")


def read_tagged_sentences(
    path: str | os.PathLike,
    *,
    text_column: Column | None = None,
    label_column: Column | None = None,
    has_tags: bool | None = True,
    labels: Sequence[str] = (),
) -> TaggedSentences:
    """Reads sentences as words with a tag for each.

    `.jsonl` and Parquet files and `tfds:` names have a list of words and a list of tags in each row. Others are
    read as CoNLL columns:

    * one word per line, in columns separated by tabs, or by blanks if the line of the first word has no tab;
    * a blank line between sentences;
    * a line that begins with -DOCSTART- begins a document;
    * lines between sentences that begin with "# " are comments, unless they look like the word "#": with as many
      columns as other lines, and without "=".

    Args:
        text_column: by default column 0, or "tokens" or "words".
        label_column: by default the last column, or "tags", "ner_tags", "ner" or "labels". Negative numbers count from
            the end.
        has_tags: False reads words only; None reads tags if the first sentence has them.
        labels: the names of the tags in the order of their numbers, if the lists have numbers.

    Raises:
        InputError: the file cannot be read, has no words, a line has another number of columns than the first, or a
            word or a tag is empty.
    """
    path = os.fspath(path)
    if has_named_values(path):
        return _read_lists(path, text_column, label_column, has_tags, labels)
    word_column = _as_number(text_column, 0)
    tag_column = _as_number(label_column, -1)
    words, tags, documents, locations = [], [], [], []
    for sentence in _sentences(path):
        if has_tags is None:
            num_columns = len(sentence.rows[0][1])
            has_tags = num_columns > 1 and -num_columns <= tag_column < num_columns
        tag_column = tag_column if has_tags else None
        rows = [_word_and_tag(path, line, columns, word_column, tag_column) for line, columns in sentence.rows]
        words.append([word for word, _ in rows])
        tags.append([tag for _, tag in rows])
        documents.append(sentence.document)
        locations.append(f"line {sentence.rows[0][0]}")
    if not words:
        raise InputError(f"{path} has no words. Expected CoNLL columns: one word per line, its tag in another column.")
    return TaggedSentences(words, tags if has_tags else None, documents, path, locations)


@dataclasses.dataclass
class _Sentence:
    """Line numbers and columns of its words, and the number of its document."""

    rows: list[tuple[int, list[str]]]
    document: int


def _sentences(path: str) -> Iterator[_Sentence]:
    rows: list[tuple[int, list[str]]] = []
    document = 0
    num_words = 0
    has_tabs, num_columns = False, 0
    for number, line in enumerate(read_lines(path), start=1):
        line = line.rstrip("\r\n")
        is_mark = line.startswith(_DOCUMENT_MARK) or (not rows and line.startswith(_NEW_DOCUMENT + " "))
        if is_mark or line.rstrip() == _NEW_DOCUMENT or not line.strip():
            if rows:
                yield _Sentence(rows, document)
                rows = []
            if line.strip() and num_words:
                document += 1
            continue
        if num_words == 0:
            has_tabs = "\t" in line and not _is_comment(line, line.split(), 0)
        columns = line.split("\t") if has_tabs else line.split()
        if not rows and _is_comment(line, columns, num_columns):
            continue
        num_columns = num_columns or len(columns)
        if len(columns) != num_columns:
            raise InputError(
                f"{path}: line {number} has {len(columns)} columns, but {num_columns} are expected, as in the first "
                f"line with a word. Columns are separated by {'tabs' if has_tabs else 'blanks'} here."
            )
        rows.append((number, columns))
        num_words += 1
    if rows:
        yield _Sentence(rows, document)


def _is_comment(line: str, columns: list[str], num_columns: int) -> bool:
    """Returns whether a line between sentences is a comment. `num_columns` is that of the words' lines, or 0."""
    if not line.startswith("# "):
        return False
    return len(columns) != num_columns or "=" in line or line.split()[1] in _COMMENT_WORDS


def _word_and_tag(
    path: str, line: int, columns: list[str], word_column: int, tag_column: int | None
) -> tuple[str, str | None]:
    found = []
    for kind, column in (("word", word_column), ("tag", tag_column)):
        if column is None:
            found.append(None)
            continue
        if not -len(columns) <= column < len(columns) or (kind == "tag" and len(columns) == 1):
            raise InputError(
                f"{path}: line {line} has no column {column} for the {kind}. It has {len(columns)}, numbered from 0, "
                "separated by tabs or blanks."
            )
        value = columns[column].strip()
        if not value:
            raise InputError(f"{path}: line {line}: the {kind} in column {column} is empty.")
        found.append(value)
    return found[0], found[1]


def _as_number(column: Column | None, default: int) -> int:
    if column is None:
        return default
    try:
        return int(column)
    except ValueError:
        raise InputError(
            f"The columns of CoNLL files are numbered from 0; -1 is the last. Received: {column!r}"
        ) from None


def _read_lists(
    path: str,
    text_column: Column | None,
    label_column: Column | None,
    has_tags: bool | None,
    labels: Sequence[str],
) -> TaggedSentences:
    words, tags, locations = [], [], []
    for row in read_rows(path):
        if not words:
            text_column = _column(text_column, _WORD_NAMES, row.values)
            label_column = _column(label_column, _TAG_NAMES, row.values)
            has_tags = isinstance(row.values.get(label_column), list) if has_tags is None else has_tags
        words.append(_strings(row, text_column, "words"))
        tags.append(_tag_names(row, label_column, labels) if has_tags else None)
        locations.append(row.where.removeprefix(f"{path}: "))
    return TaggedSentences(words, tags if has_tags else None, None, path, locations)


def _column(column: Column | None, names: Sequence[str], values: Mapping[Column, Any]) -> Column:
    """Returns the given column, or the usual name that exists, or the first usual name for the error message."""
    return next((name for name in names if name in values), names[0]) if column is None else column


def _tag_names(row: Row, column: Column, labels: Sequence[str]) -> list[str]:
    values = row.value(column, "tags")
    if not isinstance(values, list) or not values or not all(type(value) is int for value in values):
        return _strings(row, column, "tags")
    if not labels:
        raise InputError(
            f"{row.where}: the tags in {column!r} are numbers. Give their names in the order of the numbers: "
            "--labels=O,B-PER,I-PER,... (Hugging Face data sets have them in features[...].feature.names)."
        )
    names = {value: label_name(value, labels, f"{row.where}: a tag in {column!r}") for value in set(values)}
    return [names[value] for value in values]


def _strings(row: Row, column: Column, kind: str) -> list[str]:
    value = row.value(column, kind)
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise InputError(f"{row.where}: the {kind} in {column!r} must be a list of strings. Received: {value!r:.200}")
    return value
