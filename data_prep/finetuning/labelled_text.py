"""Reads texts with labels, sets of labels, scores or choices, for fine-tuning."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from data_prep.finetuning.complete_rows import complete_rows, labels_are_read
from data_prep.finetuning.tables import Column, Row, read_rows
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import is_missing
from keras_bert.tasks.classification.examples import TextExamples

# Values that say whether a text has a label.
_MARKS = {"0", "1", "0.0", "1.0", "false", "true"}


def read_labelled_text(
    path: str | os.PathLike,
    *,
    text_column: Column = "text",
    second_text_column: Column | None = None,
    label_column: Column | None = "label",
    has_header: bool = True,
    may_be_empty: bool = False,
    left_out: list[str] | None = None,
    skip_missing: bool = False,
    read_label: Callable[[Row, Any], Any] = Row.label,
) -> TextExamples:
    """Reads texts, second texts and labels from the sources of `data_prep.finetuning.tables.read_rows`.

    White space around values is removed.

    Args:
        text_column: name or number, from 0, of the column of the texts. A number may be written as a string.
        second_text_column, label_column: the same for the second text of pairs, and for labels; None reads none.
        has_header, left_out, skip_missing: as in `tables.read_rows` and `complete_rows`.
        may_be_empty: whether a text may be empty.
        read_label: takes a row and `label_column`.

    Raises:
        InputError: the file cannot be read or has no rows, a column is missing, or a row has too few or too many
            columns or an empty value.
    """
    path = os.fspath(path)

    def values(row: Row) -> tuple[str, str | None, Any]:
        text, second = row.text(text_column, may_be_empty=may_be_empty), None
        if second_text_column is not None:
            second = row.text(second_text_column, "second text", may_be_empty=may_be_empty)
        return text, second, None if label_column is None else read_label(row, label_column)

    rows = read_rows(path, has_header=has_header, left_out=left_out)
    found = complete_rows(path, rows, values, skip_missing=skip_missing, left_out=left_out)
    texts, second_texts, labels = _columns_of(found, path, has_header)
    second_texts = None if second_text_column is None else second_texts
    return TextExamples(texts, second_texts, None if label_column is None else labels, path, may_be_empty=may_be_empty)


def read_scored_text(path: str | os.PathLike, **reading: Any) -> TextExamples:
    """As `read_labelled_text`, with numbers as labels."""
    return read_labelled_text(path, read_label=Row.number, **reading)


def read_multi_label_text(
    path: str | os.PathLike,
    *,
    label_column: Column | Sequence[Column] | None = "label",
    label_separator: str = ",",
    **reading: Any,
) -> TextExamples:
    """As `read_labelled_text`, with any number of labels per text. Lists of 0 and 1 without names are errors too.

    Args:
        label_column: one column whose value has all labels of the text, with separators, or as a list of JSON or
            Python; or several columns of 0 and 1, whose names are the labels.
    """
    is_one_column = isinstance(label_column, str | int)

    def read_label(row: Row, column: Any) -> list[str]:
        return row.labels(column, label_separator) if is_one_column else row.marked(column)

    found = read_labelled_text(path, label_column=label_column, read_label=read_label, **reading)
    if is_one_column:
        _refuse_marks(found.labels or (), os.fspath(path), label_column)
    return found


def _refuse_marks(labels: Sequence[list[str]], path: str, column: Column) -> None:
    """Raises `InputError` if lists of labels are 0 or 1 for each label: their names are not in the file."""
    used = [its_labels for its_labels in labels if its_labels]
    are_marks = {label.lower() for its_labels in used for label in its_labels} <= _MARKS
    width = len(used[0]) if used else 0
    if not are_marks or width < 2 or any(len(its_labels) != width for its_labels in used):
        return
    raise InputError(
        f"{path}: the labels in column {column!r} are 0 or 1 for each of {width} labels, such as "
        f"[{', '.join(used[0])[:60]}], and their names are not there. Write a list of names, or a column of 0 and 1 "
        "for each label, and name these columns: --label_column=praise,joy (label_column=['praise', 'joy'])."
    )


def read_choices(
    path: str | os.PathLike,
    *,
    text_column: Column = "text",
    choice_columns: Sequence[Column],
    choice_prefix_column: Column | None = None,
    label_column: Column | None = "label",
    has_header: bool = True,
    skip_missing: bool = False,
) -> tuple[list[str], list[list[str]], list[str] | None]:
    """Reads N prompts, N lists of choices of equal length, and N labels that identify the right choice, or None.

    Raises `InputError` as `read_labelled_text`, and if a row has another number of choices than the first.

    Args:
        choice_columns: a column for each choice, or one column with a list (JSON).
        choice_prefix_column: a text with which all choices of a row begin, like SWAG's "sent2"; it may be empty.
    """
    path = os.fspath(path)
    num_choices = 0

    def values(row: Row) -> tuple[str, list[str], str | None]:
        nonlocal num_choices
        prompt, choices = row.text(text_column), row.texts(choice_columns, "choice")
        if choice_prefix_column is not None:
            prefix = row.text(choice_prefix_column, "beginning of the choices", may_be_empty=True)
            choices = [f"{prefix} {choice}".lstrip() for choice in choices]
        num_choices = num_choices or len(choices)
        if len(choices) != num_choices:
            raise InputError(
                f"{row.where} has {len(choices)} choices, but {num_choices} are expected, as in the first row."
            )
        return prompt, choices, None if label_column is None else row.label(label_column)

    found = complete_rows(path, read_rows(path, has_header=has_header), values, skip_missing=skip_missing)
    prompts, choices, labels = _columns_of(found, path, has_header)
    return prompts, choices, None if label_column is None else labels


def read_sources_and_targets(
    path: str | os.PathLike,
    *,
    source_column: Column = "source",
    target_column: Column = "target",
    has_header: bool = True,
    needs_targets: bool = True,
    skip_missing: bool = False,
) -> tuple[list[str], list[str] | None]:
    """Reads N sources and N targets to write for them. Raises `InputError` as `read_labelled_text`.

    Without `needs_targets`, targets are None if rows have none, see `labels_are_read`.
    """
    path = os.fspath(path)
    rows = list(read_rows(path, has_header=has_header))
    labelled = [not is_missing(row.values.get(target_column)) for row in rows]
    has_targets = needs_targets or labels_are_read(path, labelled, skip_missing)

    def values(row: Row) -> tuple[str, str | None]:
        return row.text(source_column, "source"), row.text(target_column, "target") if has_targets else None

    found = complete_rows(path, rows, values, skip_missing=skip_missing)
    sources, targets = _columns_of(found, path, has_header)
    return sources, targets if has_targets else None


def _columns_of(rows: list[tuple], path: str, has_header: bool) -> list[list]:
    if not rows:
        raise InputError(f"{path} has no rows{' below the header' if has_header else ''}.")
    return [list(column) for column in zip(*rows, strict=True)]
