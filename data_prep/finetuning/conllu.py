"""The columns of CoNLL-U, the format of Universal Dependencies."""

import re

from data_prep.finetuning.tables import Column
from keras_bert.program.errors import InputError

_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_MISC = _NAMES.index("MISC")
_ID = re.compile(r"\d+([-.]\d+)?")
# The key in MISC that has the tags of entities, unless another column is named.
_ENTITIES = "NER"
# The lines of words: their numbers in the file and their columns.
Lines = list[tuple[int, list[str]]]


def is_conllu(lines: Lines) -> bool:
    """Returns whether the lines of a sentence are CoNLL-U: ten columns, the first of them a number or a range."""
    return all(len(columns) == len(_NAMES) and _ID.fullmatch(columns[0]) for _, columns in lines)


def word_column_of(text_column: Column | None) -> Column:
    """Returns the number of the column of the words, FORM by default."""
    return _number(text_column) if text_column in _NAMES else 1 if text_column is None else text_column


def tag_column_of(label_column: Column | None) -> tuple[Column, str | None]:
    """Returns the number of the column of the tags, and the key in MISC whose values are added as the last column.

    >>> tag_column_of("UPOS"), tag_column_of("NER")
    ((3, None), (-1, 'NER'))
    """
    name = "" if label_column is None else str(label_column)
    if name in _NAMES:
        return _number(name), None
    if name.removeprefix("-").isdigit():
        return int(name), None
    return -1, name.removeprefix("MISC=") or _ENTITIES


def words_only(lines: Lines) -> Lines:
    """Leaves out the lines of several words (1-2) and of words that are not written (8.1)."""
    return [(number, columns) for number, columns in lines if columns[0].isdigit()]


def keys_of(lines: Lines) -> set[str]:
    return {key for _, columns in lines for key in _misc(columns)}


def with_key(lines: Lines, key: str) -> Lines:
    """Adds the value of a key in MISC to each line as its last column, O for words without it."""
    return [(number, [*columns, _misc(columns).get(key, "O")]) for number, columns in lines]


def unknown_key(path: str, key: str, keys: set[str]) -> InputError:
    return InputError(
        f"{path} is CoNLL-U, and no word has {key!r} in MISC; the keys there are: {', '.join(sorted(keys)) or 'none'}. "
        "Name the column of the tags: --label_column=UPOS, XPOS, DEPREL or another one, or a key in MISC."
    )


def _number(name: Column | None) -> int:
    return _NAMES.index(str(name))


def _misc(columns: list[str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in columns[_MISC].split("|") if "=" in part)
