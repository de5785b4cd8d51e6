"""Examples: what those of all tasks have in common, and those of texts and pairs; missing values; validation splits."""

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number
from keras_bert.program.printing import printable
from keras_bert.program.user_inputs import (
    as_list,
    collect,
    is_float32,
    is_missing,
    iterate_column,
    missing_message,
    skipped_note,
)

_SOURCE = "the examples"


class Examples:
    """N examples of a task. A subclass is a frozen dataclass with `source`, for messages, and `weights`.

    Attributes:
        per_example: the names of the attributes with N values or None; the first one determines N.
    """

    per_example: ClassVar[Sequence[str]]

    def __len__(self):
        return len(getattr(self, self.per_example[0]))

    def part(self, first: int, stop: int) -> Self:
        """Returns the examples `first:stop`."""
        return part_of(self, self.per_example, first, stop)


def check_examples(examples: Examples) -> None:
    """Raises `InputError`: there is no example, a column has fewer or more values, or a weight is not valid."""
    if not len(examples):
        raise InputError(f"{examples.source}: there is no example.")
    for name in examples.per_example:
        values = getattr(examples, name)
        if values is not None and len(values) != len(examples):
            first = examples.per_example[0]
            raise InputError(f"{examples.source}: {len(examples)} {first} but {name} for {len(values)}.")
    check_weights(examples)


def check_weights(examples: Any) -> None:
    """Raises `InputError` if one of `examples.weights` is no number, below 0, or too large for 32 bits."""
    for number, weight in enumerate(() if examples.weights is None else examples.weights):
        if not is_float32(weight) or weight < 0:
            place = examples.place(number) if hasattr(examples, "place") else f"example {number + 1}"
            raise InputError(
                f"{examples.source}: the weight of {place} must be a number of 0 or more. Received: {weight!r:.100}"
            )


@dataclasses.dataclass(frozen=True)
class TextExamples(Examples):
    """Texts, or pairs of texts, with or without labels.

    Attributes:
        texts: N texts, none of them empty.
        second_texts: N second texts of pairs, or None.
        labels: N labels, N lists of labels or N scores; or None.
        source: where the examples come from, for messages.
        weights: N weights for training; or None.
        may_be_empty: whether texts may be empty, as in benchmarks that require an answer to every line of a test set.

    Raises:
        InputError: there are no texts, a text is empty, or the numbers of texts, labels and weights differ.
    """

    per_example = ("texts", "second_texts", "labels", "weights")

    texts: Sequence[str]
    second_texts: Sequence[str] | None = None
    labels: Sequence[str] | Sequence[Sequence[str]] | Sequence[float] | None = None
    source: str = "the examples"
    weights: Sequence[float] | None = None
    may_be_empty: bool = False

    def __post_init__(self):
        if not self.texts:
            raise InputError(f"{self.source}: there is no text.")
        columns = {"text": self.texts, "second text": self.second_texts, "label": self.labels, "weight": self.weights}
        for name, values in columns.items():
            if values is None:
                continue
            if len(values) != len(self.texts):
                raise InputError(f"{self.source}: {len(self.texts)} texts but {len(values)} {name}s.")
            if self.may_be_empty and name.endswith("text"):
                continue
            blank = (n for n, value in enumerate(values, start=1) if isinstance(value, str) and not value.strip())
            empty = next(blank, None)
            if empty is not None:
                raise InputError(
                    f"{self.source}: the {name} of example {empty} is empty. Remove the example or fill it in."
                )
        check_weights(self)


def part_of(examples: Any, names: Sequence[str], first: int, stop: int, **others: Any) -> Any:
    """Returns the examples `first:stop`: this part of the columns `names`, some may be None, and `others` as given."""
    found = {name: getattr(examples, name) for name in names}
    parts = {name: values[first:stop] for name, values in found.items() if values is not None}
    return dataclasses.replace(examples, **parts, **others)


def first_held_out(num_examples: int, validation_split: float) -> int:
    """Returns the number of the first example that is held out: all from there on are for validation.

    >>> first_held_out(10, 0.25)
    7

    Raises `InputError` if the share is not between 0 and 1, or one of both parts would be empty.

    Reference: Keras `array_data_adapter.train_validation_split`.
    """
    check_number("validation_split", validation_split, above=0, below=1)
    first = math.floor(num_examples * (1.0 - validation_split))
    if not 0 < first < num_examples:
        raise InputError(
            f"validation_split={validation_split} of {num_examples} examples leaves none for "
            f"{'validation' if first else 'training'}. Give more examples or another share."
        )
    return first


def complete_examples(task: Any, x: Any, y: Any = None, sample_weight: Any = None, skip_missing: bool | None = None):
    """Returns `task.examples(x, y, sample_weight)`, where every example has its texts, its label and its weight.

    A text, label or weight is missing if it is None, NaN or, except for texts of `task.may_be_blank`, white space only.
    With `skip_missing`, examples with a missing value are left out, and a line on standard error says how many;
    otherwise `InputError` is raised. None: this cannot be asked for.
    """
    columns = {name: _as_list(values) for name, values in _named_columns(task, x, y, sample_weight)}
    lists = {name: values for name, values in columns.items() if isinstance(values, list)}
    if len(set(map(len, lists.values()))) == 1 and not isinstance(x, (str, bytes)):
        missing = _missing_rows(task, lists)
        if missing and not skip_missing:
            raise InputError(_message(missing, dict(_named_columns(task, x, y, sample_weight)), lists, skip_missing))
        if missing:
            total = len(next(iter(lists.values())))
            if len(missing) == total:
                raise InputError(f"{_SOURCE}: all {total:,} rows have no value where one is needed. Nothing is left.")
            print(printable(skipped_note(_SOURCE, len(missing), total)), file=sys.stderr)
            columns = {name: _without(values, missing) for name, values in columns.items()}
    texts = tuple(values for name, values in columns.items() if name not in ("label", "weight"))
    if task.text_columns(x) is None:
        texts = tuple(texts[0]) if isinstance(x, tuple) else texts[0]
    return task.examples(texts, columns.get("label"), columns.get("weight"))


def read_examples(task: Any, x: Any, y: Any = None, sample_weight: Any = None, skip_missing: bool | None = None) -> Any:
    """As `complete_examples`, where `x` may also be a `tf.data.Dataset`, which has the labels and the weights too."""
    if hasattr(x, "element_spec"):
        if y is not None:
            raise InputError("A data set must hold texts and labels together. Received: a data set and y. Leave y out.")
        x, y, sample_weight = collect(x, task.example_rank)
    if sample_weight is not None:
        sample_weight = as_list(sample_weight, "sample_weight")
    return complete_examples(task, x, y, sample_weight, skip_missing)


def _named_columns(task, x, y, sample_weight) -> list[tuple[str, Any]]:
    columns = task.text_columns(x)
    named = [("text", x)] if columns is None else [(f"text of column {n}", one) for n, one in enumerate(columns, 1)]
    others = (("label", y), ("weight", sample_weight))
    return [*named, *((name, values) for name, values in others if values is not None)]


def _as_list(values: Any) -> Any:
    """Returns a column as a list; single texts, mappings and what is no column as they are."""
    if isinstance(values, (str, bytes, Mapping)):
        return values
    try:
        return list(iterate_column(values, "texts"))
    except InputError:
        return values  # the task has its own words about it


def _missing_rows(task, lists: dict[str, list]) -> dict[int, str]:
    """Returns the number of each row with a missing value -> the name of the first such column."""
    found: dict[int, str] = {}
    for name, values in lists.items():
        if name == "label" and task.labels_may_be_missing:
            continue
        may_be_blank = task.may_be_blank and name not in ("label", "weight")
        for number, value in enumerate(values):
            if is_missing(value, may_be_blank):
                found.setdefault(number, name)
    return dict(sorted(found.items()))


def _message(missing: dict[int, str], given: dict[str, Any], lists: dict[str, list], skip_missing) -> str:
    number, name = next(iter(missing.items()))
    # A pandas Series has an index of its own.
    label = given[name].index[number] if hasattr(given[name], "iloc") else number
    label = label.item() if isinstance(label, np.generic) else label
    own = "" if label == number else f", index {label!r}"
    place = f"row {number}, counted from 0{own}: its {name} is {lists[name][number]!r:.100}"
    how = "such as by dropna() of pandas" if skip_missing is None else "for example with skip_missing=True"
    advice = f"Fill them in or leave these examples out, {how}."
    return missing_message(_SOURCE, len(missing), len(lists[name]), place, advice)


def _without(values: Any, missing: dict[int, str]) -> Any:
    if isinstance(values, Mapping):  # the answers to questions
        return {name: _without(_as_list(column), missing) for name, column in values.items()}
    if not isinstance(values, list):  # one context for all questions
        return values
    return [value for number, value in enumerate(values) if number not in missing]
