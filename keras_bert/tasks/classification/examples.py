"""The labels, sets of labels or scores of `TextExamples`."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import is_float32
from keras_bert.tasks.examples import TextExamples


def labels_of(examples: TextExamples) -> list[str]:
    """Returns `in_label_order` of all labels. Raises `InputError` if there are fewer than two."""
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
    """Returns the index in `labels` of each example's label. Raises `InputError` if a label is not in `labels`."""
    ids = {label: number for number, label in enumerate(labels)}
    return [_id_of(label, ids, number, examples.source) for number, label in enumerate(examples.labels, start=1)]


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
            result[number - 1, _id_of(label, ids, number, source)] = 1
    return result


def checked_scores(scores: Sequence[float], source: str = "the examples") -> np.ndarray:
    """Returns the scores of a regression as float32 (N,). Raises `InputError` if a score is not a finite number."""
    for number, score in enumerate(scores, start=1):
        if not is_float32(score):
            raise InputError(
                f"{source}: the score of example {number} must be a finite number. Received: {score!r:.100}"
                + (", which is too large for 32 bits" if abs(score) > 1 else "")
            )
    return np.asarray(scores, np.float32)


def _id_of(label: str, ids: Mapping[str, int], number: int, source: str) -> int:
    if label not in ids:
        raise InputError(
            f"{source}: the label {label!r} of example {number} is unknown: it does not occur in training and is not "
            f"in labels. The labels are: {', '.join(ids)}"
        )
    return ids[label]
