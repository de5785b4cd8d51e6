"""Examples with one text or a pair of texts, and their labels, sets of labels or scores."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import is_float32
from keras_bert.tasks.examples import Examples, check_weights


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
            empty = next(
                (n for n, value in enumerate(values, start=1) if isinstance(value, str) and not value.strip()), None
            )
            if empty is not None:
                raise InputError(
                    f"{self.source}: the {name} of example {empty} is empty. Remove the example or fill it in."
                )
        check_weights(self)


def labels_of(examples: TextExamples) -> list[str]:
    """Returns the distinct labels: integers in numerical order, other labels in alphabetical order.

    Raises:
        InputError: there are fewer than two.
    """
    labels = in_label_order(examples.labels or ())
    if len(labels) < 2:
        raise InputError(
            f"{examples.source}: a classifier needs examples of two labels or more. Received: {labels or 'no labels'}. "
            "Was the right column named as the label?"
        )
    return labels


def in_label_order(labels: Sequence[str]) -> list[str]:
    """Returns the distinct labels: integers in numerical order, other labels in alphabetical order.

    >>> in_label_order(["10", "9", "9"]), in_label_order(["no", "10", "9"])
    (['9', '10'], ['10', '9', 'no'])
    """
    labels = sorted(set(labels))
    if all(label.isascii() and label.isdigit() for label in labels):
        labels.sort(key=lambda label: (len(label.lstrip("0")), label.lstrip("0")))
    return labels


def label_ids(examples: TextExamples, labels: Sequence[str]) -> list[int]:
    """Returns the index in `labels` of each example's label.

    Raises:
        InputError: an example has a label that is not in `labels`.
    """
    ids = {label: number for number, label in enumerate(labels)}
    return [
        ids[label] if label in ids else _refuse_label(examples.source, number, label, labels)
        for number, label in enumerate(examples.labels, start=1)
    ]


def multi_hot_labels(
    labels_of_examples: Sequence[Sequence[str]], labels: Sequence[str], source: str = "the examples"
) -> np.ndarray:
    """Returns int64 (N, labels), 1 for each label of an example. An example may have no label.

    >>> multi_hot_labels([["b", "a"], []], ["a", "b", "c"]).tolist()
    [[1, 1, 0], [0, 0, 0]]

    Raises:
        InputError: an example has a label that is not in `labels`.
    """
    ids = {label: number for number, label in enumerate(labels)}
    result = np.zeros((len(labels_of_examples), len(labels)), np.int64)
    for number, its_labels in enumerate(labels_of_examples, start=1):
        for label in its_labels:
            if label not in ids:
                _refuse_label(source, number, label, labels)
            result[number - 1, ids[label]] = 1
    return result


def checked_scores(scores: Sequence[float], source: str = "the examples") -> np.ndarray:
    """Returns the scores of a regression as float32 (N,).

    Raises:
        InputError: a score is not a finite number.
    """
    for number, score in enumerate(scores, start=1):
        if not is_float32(score):
            raise InputError(
                f"{source}: the score of example {number} must be a finite number. Received: {score!r:.100}"
                + (", which is too large for 32 bits" if abs(score) > 1 else "")
            )
    return np.asarray(scores, np.float32)


def _refuse_label(source: str, number: int, label: str, labels: Sequence[str]):
    raise InputError(
        f"{source}: the label {label!r} of example {number} is unknown: it does not occur in training and is not in "
        f"labels. The labels are: {', '.join(labels)}"
    )
