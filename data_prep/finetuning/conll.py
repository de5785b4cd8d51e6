"""Reads words with tags, or texts with spans: CoNLL columns, JSON, Parquet and tensorflow_datasets."""

import itertools
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from data_prep.finetuning.complete_rows import complete_rows, labels_are_read
from data_prep.finetuning.span_rows import read_span_rows, text_column_of, unknown_form
from data_prep.finetuning.tables import Column, Row, ending_of, has_named_values, read_rows
from data_prep.text.text_lines import read_lines, without_lone_surrogates
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import MissingValue, is_missing
from keras_bert.tasks.label_names import label_name
from keras_bert.tasks.tagging.examples import TaggedSentences

_SEPARATORS = " \t"
# The second is that of CoNLL-2012.
_DOCUMENT_MARKS = ("-DOCSTART-", "#begin document (")
_DOCUMENT_END = "#end document"
# CoNLL-U's comments on where a document or paragraph begins.
_NEW_DOCUMENT = "# newdoc"
_COMMENT_WORDS = ("newdoc", "newpar", "id", "sent_id", "doc_id", "text")
# A comment is "#" alone, or begins with "# ", "#" and a tab, or "#name=".
_COMMENT = re.compile(r"#(?:$|[ \t]+(?P<name>[^ \t=]*)|(?P<key>[\w.:-]+)[ \t]*=)")
# The columns of CoNLL-U, the format of Universal Dependencies.
_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_MISC = _NAMES.index("MISC")
_ID = re.compile(r"\d+([-.]\d+)?")
# The key in MISC that has the tags of entities, unless another column is named.
_ENTITIES = "NER"
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
    skip_missing: bool = False,
) -> TaggedSentences:
    """Reads sentences as words with a tag for each.

    Files with JSON, whatever their names, Parquet files and `tfds:` names have a list of words and a list of tags in
    each row, or a text with a list of spans, which `span_rows.py` reads. Others are read as CoNLL columns:

    * one word per line, in columns separated by tabs, or by blanks if the line of the first word has no tab; other
      white space, such as U+00A0, is a part of a word;
    * a blank line between sentences;
    * a line that begins with -DOCSTART- or "#begin document (" begins a document;
    * lines between sentences that begin with "# ", "#" and a tab, or "#name=" are comments, unless they look like a
      word: with as many columns as other lines, and without "=" after "# ".

    Args:
        text_column: by default column 0, or "tokens" or "words"; with spans "text". CoNLL-U: FORM.
        label_column: by default the last column, or "tags", "ner_tags", "ner" or "labels"; of spans "spans", "label",
            "labels", "entities" or "ents". Negative numbers count from the end. CoNLL-U: the name of a column, such as
            UPOS, or of a key in MISC; by default the key NER.
        has_tags: False reads words only; None reads tags if all sentences have them, or some and `skip_missing`. In
            CoNLL-U, where words without the key have O, one word with it is enough.
        labels: the names of the tags in the order of their numbers, if the lists have numbers.
        skip_missing: whether sentences with an empty or missing word or tag are left out; a warning says how many.

    Raises:
        InputError: the file cannot be read, has no words, a line has another number of columns than the first, or a
            word or a tag is empty.
    """
    path = os.fspath(path)
    if has_named_values(path) or (ending := ending_of(path)) == ".json":
        return _read_rows(path, text_column, label_column, has_tags, labels, skip_missing)
    if ending == ".csv":
        raise InputError(
            f"{path}: words with tags are not read from CSV. Export JSON Lines, or write CoNLL columns, with tabs "
            "between them and a blank line after each sentence, to a .tsv file."
        )
    return _read_columns(path, text_column, label_column, has_tags, skip_missing)


# The lines of words: their numbers in the file and their columns.
_Lines = list[tuple[int, list[str]]]


class _Sentence(NamedTuple):
    rows: _Lines  # of its words
    document: int


def _read_columns(
    path: str, text_column: Column | None, label_column: Column | None, has_tags: bool | None, skip_missing: bool
) -> TaggedSentences:
    sentences = _sentences(path)
    first = next(sentences, None)
    sentences = itertools.chain([first] if first else [], sentences)
    # The lines of CoNLL-U have ten columns, the first of them a number or a range.
    if first and all(len(columns) == len(_NAMES) and _ID.fullmatch(columns[0]) for _, columns in first.rows):
        text_column = "FORM" if text_column is None else text_column
        text_column = _NAMES.index(text_column) if text_column in _NAMES else text_column
        label_column, key = _tag_column_of(label_column)
        if has_tags is None and key is not None:
            sentences = list(sentences)
            has_tags = any(key in _keys_of(_words_only(sentence.rows)) for sentence in sentences)
        sentences = _of_conllu(sentences, key if has_tags else None, path)
    word_column = _as_number(text_column, 0)
    tag_column = _as_number(label_column, -1)
    if has_tags is None and first:
        num_columns = len(first.rows[0][1])
        has_tags = num_columns > 1 and -num_columns <= tag_column < num_columns

    def values(sentence: _Sentence) -> tuple[list[str], list[str] | None, int, str]:
        words, tags = [], [] if has_tags else None
        for line, columns in sentence.rows:
            where = f"{path}: line {line}"
            words.append(_value_in(columns, word_column, "word", where))
            if has_tags:
                tags.append(_value_in(columns, tag_column, "tag", where))
        return words, tags, sentence.document, f"line {sentence.rows[0][0]}"

    found = complete_rows(path, sentences, values, skip_missing=skip_missing)
    if not found:
        raise InputError(f"{path} has no words. Expected CoNLL columns: one word per line, its tag in another column.")
    words, tags, documents, locations = map(list, zip(*found, strict=True))
    return TaggedSentences(words, tags if has_tags else None, documents, path, locations)


def _sentences(path: str) -> Iterator[_Sentence]:
    rows: _Lines = []
    document = 0
    has_words = False
    lines = (line.rstrip("\r\n") for line in read_lines(path))
    first, lines = _first_word_line(lines)
    has_tabs = "\t" in first
    num_columns = len(_columns(first, has_tabs))
    for number, line in enumerate(lines, start=1):
        is_mark = line.startswith(_DOCUMENT_MARKS) or (not rows and line.startswith(_NEW_DOCUMENT + " "))
        is_mark = is_mark or line.rstrip(_SEPARATORS) in (_NEW_DOCUMENT, _DOCUMENT_END)
        if is_mark or not line.strip(_SEPARATORS):
            if rows:
                yield _Sentence(rows, document)
                rows = []
            if is_mark and has_words and not line.startswith(_DOCUMENT_END):
                document += 1
            continue
        columns = _columns(line, has_tabs)
        if not rows and _is_comment(line, columns, num_columns):
            continue
        if len(columns) != num_columns:
            raise InputError(
                f"{path}: line {number} has {len(columns)} columns, but {num_columns} are expected, as in the first "
                f"line with a word. Columns are separated by {'tabs' if has_tabs else 'blanks'} here."
            )
        rows.append((number, columns))
        has_words = True
    if rows:
        yield _Sentence(rows, document)


def _of_conllu(sentences: Iterator[_Sentence], key: str | None, path: str) -> Iterator[_Sentence]:
    """Yields sentences in the words of CoNLL-U, with the values of a key in MISC as another column."""
    keys: set[str] = set()
    for sentence in sentences:
        lines = _words_only(sentence.rows)
        keys |= _keys_of(lines)
        if key is not None:  # O for words without the key
            lines = [(number, [*columns, _misc(columns).get(key, "O")]) for number, columns in lines]
        if lines:
            yield _Sentence(lines, sentence.document)
    if key is not None and key not in keys:
        raise InputError(
            f"{path} is CoNLL-U, and no word has {key!r} in MISC; the keys there are: "
            f"{', '.join(sorted(keys)) or 'none'}. Name the column of the tags: --label_column=UPOS, XPOS, DEPREL or "
            "another one, or a key in MISC."
        )


def _tag_column_of(label_column: Column | None) -> tuple[Column, str | None]:
    """Returns the number of the column of the tags, and the key in MISC whose values are added as the last column.

    >>> _tag_column_of("UPOS"), _tag_column_of("NER")
    ((3, None), (-1, 'NER'))
    """
    name = "" if label_column is None else str(label_column)
    if name in _NAMES:
        return _NAMES.index(name), None
    if name.removeprefix("-").isdigit():
        return int(name), None
    return -1, name.removeprefix("MISC=") or _ENTITIES


def _words_only(lines: _Lines) -> _Lines:
    """Leaves out the lines of several words (1-2) and of words that are not written (8.1)."""
    return [(number, columns) for number, columns in lines if columns[0].isdigit()]


def _keys_of(lines: _Lines) -> set[str]:
    return {key for _, columns in lines for key in _misc(columns)}


def _misc(columns: list[str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in columns[_MISC].split("|") if "=" in part)


def _first_word_line(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Returns the first line that is certainly of a word, and all lines. If there is none, it is the first with a #."""
    seen, maybe = [], ""
    for line in lines:
        seen.append(line)
        if line.startswith("#"):
            maybe = maybe or ("" if _is_comment(line, [], -1) else line)
        elif line.strip(_SEPARATORS) and not line.startswith(_DOCUMENT_MARKS):
            return line, itertools.chain(seen, lines)
    return maybe, iter(seen)


def _columns(line: str, has_tabs: bool) -> list[str]:
    """Returns the columns of a line. Only blanks and tabs separate them: U+00A0 and U+3000 are parts of words."""
    return line.split("\t") if has_tabs else re.split(r"[ \t]+", line.strip(_SEPARATORS))


def _is_comment(line: str, columns: list[str], num_columns: int) -> bool:
    """Returns whether a line between sentences is a comment. `num_columns` is that of the words' lines."""
    match = _COMMENT.match(line)
    if match is None:
        return False
    return (
        len(columns) != num_columns
        or (match["name"] or match["key"]) in _COMMENT_WORDS
        or (line[1:2] == " " and "=" in line)
    )


def _value_in(columns: list[str], column: int, kind: str, where: str) -> str:
    if not -len(columns) <= column < len(columns) or (kind == "tag" and len(columns) == 1):
        raise InputError(
            f"{where} has no column {column} for the {kind}. It has {len(columns)}, numbered from 0, separated by tabs "
            "or blanks."
        )
    value = columns[column].strip(_SEPARATORS)
    if not value.strip():
        raise MissingValue(f"{where}: the {kind} in column {column} is empty")
    return value


def _as_number(column: Column | None, default: int) -> int:
    if column is None:
        return default
    try:
        return int(column)
    except ValueError:
        raise InputError(
            f"The columns of CoNLL files are numbered from 0; -1 is the last. Received: {column!r}"
        ) from None


def _read_rows(
    path: str,
    text_column: Column | None,
    label_column: Column | None,
    has_tags: bool | None,
    labels: Sequence[str],
    skip_missing: bool,
) -> TaggedSentences:
    rows = list(read_rows(path))
    if not rows:
        raise InputError(f"{path} has no rows.")
    names = {name for row in rows for name in row.values}
    has_words = (name for name in _WORD_NAMES if any(_is_list_of_strings(row.values, name) for row in rows))
    words_name = text_column or next(has_words, None)
    has_lists = any(isinstance(row.values.get(words_name), list) for row in rows)
    if not has_lists and any(text_column_of(row, text_column) is not None for row in rows):
        return read_span_rows(path, rows, text_column, label_column, has_tags, skip_missing)
    if text_column is None and names.isdisjoint(_WORD_NAMES):
        raise unknown_form(rows[0])
    text_column = _column(text_column, _WORD_NAMES, names)
    label_column = _column(label_column, _TAG_NAMES, names)
    if has_tags is None:
        has_tags = labels_are_read(path, [isinstance(row.values.get(label_column), list) for row in rows], skip_missing)

    def values(row: Row) -> tuple[list[str], list[str] | None, str]:
        words = _strings(row, text_column, "words")
        return words, _tag_names(row, label_column, labels) if has_tags else None, row.where.removeprefix(f"{path}: ")

    found = complete_rows(path, rows, values, skip_missing=skip_missing)
    words, tags, locations = map(list, zip(*found, strict=True))
    return TaggedSentences(words, tags if has_tags else None, None, path, locations)


def _is_list_of_strings(values: Mapping[Column, Any], name: str) -> bool:
    """Returns whether a value is a list of words, not of Prodigy's tokens."""
    found = values.get(name)
    return isinstance(found, list) and bool(found) and not any(isinstance(value, Mapping) for value in found)


def _column(column: Column | None, names: Sequence[str], found: Container[Column]) -> Column:
    """Returns the given column, or the usual name that exists, or the first usual name for the error message."""
    return next((name for name in names if name in found), names[0]) if column is None else column


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
    if is_missing(value):
        raise MissingValue(f"{row.where}: the {kind} in {column!r} are {value!r:.100}")
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise InputError(f"{row.where}: the {kind} in {column!r} must be a list of strings. Received: {value!r:.200}")
    return list(map(without_lone_surrogates, value))
