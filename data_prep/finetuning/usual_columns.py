"""Finds the columns of texts and labels by their usual names, for files and data sets without known columns."""

from collections.abc import Iterable

from data_prep.finetuning.tables import Column

# Pairs come first: a table with `sentence1` and `sentence2` may use `text` for something else.
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("text1", "text2"),
)
_TEXTS = ("text", "sentence", "review", "content", "data")
_LABELS = ("label", "labels", "score")


def usual_text_columns(names: Iterable[Column]) -> tuple[Column, Column | None]:
    """Returns the columns of the text and of the second text.

    >>> usual_text_columns(["idx", "premise", "hypothesis", "label"]), usual_text_columns(["label", "sentence"])
    (('premise', 'hypothesis'), ('sentence', None))

    Without any of the usual names it returns `text`, which an error message then reports as missing.
    """
    names = set(names)
    for pair in _PAIRS:
        if names.issuperset(pair):
            return pair
    return next((name for name in _TEXTS if name in names), "text"), None


def usual_label_column(names: Iterable[Column]) -> Column:
    """Returns the column of the label, found in the same way."""
    names = set(names)
    return next((name for name in _LABELS if name in names), "label")
