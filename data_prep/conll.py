"""Reading words with tags: CoNLL columns, JSON Lines and tensorflow_datasets."""

import dataclasses
import os
from collections.abc import Iterator

from data_prep import tfds_text
from data_prep.table_rows import Column, read_rows
from data_prep.text_lines import read_lines
from keras_bert.errors import InputError
from keras_bert.tasks.tagging import TaggedSentences

_DOCUMENT_MARK = "-DOCSTART-"
# CoNLL-U's comments on where a document or paragraph begins.
_NEW_DOCUMENT = "# newdoc"
_COMMENT_WORDS = ("newdoc", "newpar", "id")


def read_tagged_sentences(
    path: str | os.PathLike,
    *,
    text_column: Column | None = None,
    label_column: Column | None = None,
    has_tags: bool = True,
) -> TaggedSentences:
    """Reads sentences in words with a tag for each.

    `.jsonl` files and `tfds:` names have a list of words and a list of tags in each row. Everything else is read as
    CoNLL columns:

    * a word a line, its columns parted by tabs, or by blanks where the first word's line has no tab;
    * a blank line between sentences;
    * a line that begins with -DOCSTART- begins a document;
    * lines between sentences that begin with "# " are comments, unless they look like the word "#": as many columns
      as other lines, without "=".

    Args:
        text_column: by default column 0, or "tokens".
        label_column: by default the last column, or "tags". Negative numbers count from the end.
        has_tags: False reads words alone.

    Raises:
        InputError: the file cannot be read, has no words, a line has another number of columns than the first, or a
            word or a tag is empty.
    """
    path = os.fspath(path)
    if tfds_text.is_tfds_name(path) or path.removesuffix(".gz").endswith(".jsonl"):
        return _read_lists(path, text_column or "tokens", label_column or "tags", has_tags)
    word_column = _as_number(text_column, 0)
    tag_column = _as_number(label_column, -1) if has_tags else None
    words, tags, documents, places = [], [], [], []
    for sentence in _sentences(path):
        rows = [_word_and_tag(path, line, columns, word_column, tag_column) for line, columns in sentence.rows]
        words.append([word for word, _ in rows])
        tags.append([tag for _, tag in rows])
        documents.append(sentence.document)
        places.append(f"line {sentence.rows[0][0]}")
    if not words:
        raise InputError(f"{path} has no words. Expected CoNLL columns: a word a line, its tag in another column.")
    return TaggedSentences(words, tags if has_tags else None, documents, path, places)


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
                f"line with a word. Columns are parted by {'tabs' if has_tabs else 'blanks'} here."
            )
        rows.append((number, columns))
        num_words += 1
    if rows:
        yield _Sentence(rows, document)


def _is_comment(line: str, columns: list[str], num_columns: int) -> bool:
    """Whether a line between sentences is a comment. `num_columns` is that of the file's words, 0 before the first."""
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
                "parted by tabs or blanks."
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
            f"The columns of CoNLL files have numbers, from 0 or -1 for the last. Received: {column!r}"
        ) from None


def _read_lists(path: str, text_column: Column, label_column: Column, has_tags: bool) -> TaggedSentences:
    words, tags, places = [], [], []
    for row in read_rows(path):
        lists = []
        for kind, column in [("words", text_column), ("tags", label_column)][: 1 + has_tags]:
            value = row.value(column, kind)
            if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
                raise InputError(
                    f"{row.where}: the {kind} in {column!r} must be a list of strings. Received: {value!r}"
                )
            lists.append(value)
        words.append(lists[0])
        tags.append(lists[-1])
        places.append(row.where.removeprefix(f"{path}: "))
    return TaggedSentences(words, tags if has_tags else None, None, path, places)
