"""Thresholds of several labels: a label is predicted if its probability exceeds its threshold."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.label_types import Label
from keras_bert.program.options import check_number, check_whole
from keras_bert.program.user_inputs import as_column
from keras_bert.tasks.answer_operations import sigmoid
from keras_bert.tasks.label_names import values_of_labels

# The threshold of a label that has no other.
THRESHOLD = 0.5


def as_thresholds(
    value: Any,
    labels: Sequence[str],
    others: Sequence[float] | None = None,
    label_type: str = "str",
    name: str = "threshold",
) -> tuple[float, ...]:
    """Returns a threshold for each label.

    >>> as_thresholds(0.3, ["a", "b"]), as_thresholds({"b": 0.2}, ["a", "b"])
    ((0.3, 0.3), (0.5, 0.2))

    Args:
        value: a number for all labels, a number for each label, or label -> number, which a Series of pandas is by its
            index; None for none.
        others: the thresholds of labels that have none in `value`; None for 0.5.
        label_type: the type of the labels in `value`.
        name: what the value is called, for messages.

    Raises:
        InputError: a threshold is no number from 0 to 1, or there is not one for each label.
    """
    result = [THRESHOLD] * len(labels) if others is None else list(others)
    if value is None:
        return tuple(result)
    if (named := values_of_labels(value, labels, name, label_type)) is not None:
        result = [named.get(label, one) for label, one in zip(labels, result, strict=True)]
    else:
        column = value if isinstance(value, (str, bytes)) else as_column(value)
        result = list(column) if isinstance(column, (list, tuple)) else [column] * len(labels)
    if len(result) != len(labels):
        raise InputError(
            f"{name} must be one number, or a number for each of the {len(labels)} labels. Received: {len(result)}"
        )
    return tuple(float(check_number(name, one, at_least=0, at_most=1)) for one in result)


def check_answer_options(model, top_k: Any, threshold: Any) -> None:
    """Raises `InputError` for options of `predict` that a model does not have, or that are not valid."""
    if top_k is not None:
        if model.problem_type == "regression":
            raise InputError("top_k is for models with labels. Received: a regression. Leave top_k out.")
        check_whole("top_k", top_k, at_least=1)
    if threshold is not None:
        check_several_labels(model.problem_type, "threshold")
        as_thresholds(threshold, model.labels, label_type=model.label_type)


def check_several_labels(problem_type: str, name: str) -> None:
    """Raises `InputError` unless a model predicts several labels."""
    if problem_type != "multi_label":
        raise InputError(
            f"{name} is for the problem type multi_label, whose texts have any number of labels. Received: "
            f"{problem_type}. Leave {name} out."
        )


@dataclasses.dataclass(frozen=True)
class TunedThresholds:
    """The thresholds that `tune_thresholds` has chosen, with F1 on the examples that chose them.

    Attributes:
        thresholds: label -> threshold.
        f1_before, f1_after: label -> F1, with the thresholds before and with these.
    """

    thresholds: dict[Label, float]
    f1_before: dict[Label, float]
    f1_after: dict[Label, float]

    def __str__(self) -> str:
        before, after = (float(np.mean(list(f1.values()))) for f1 in (self.f1_before, self.f1_after))
        return f"F1, averaged over the labels, {before:.4f} before and {after:.4f} after, on the same examples"


def best_threshold(probabilities: np.ndarray, gold: np.ndarray) -> float:
    """Returns the threshold with the highest F1 for one label.

    It is in the middle between two neighbouring probabilities, so that rounding changes no answer; or 0.5 if that has
    the same answers. Of several thresholds with this F1, it is the one closest to 0.5, and the higher of two. A label
    that no example has keeps 0.5.

    Probabilities are float `[N]`, `gold` is 0 or 1, `[N]`.

    >>> best_threshold(np.array([0.1, 0.2, 0.4]), np.array([0, 1, 1]))
    0.15000000000000002
    """
    bounds = np.unique([0.0, *probabilities, 1.0])[::-1]
    lows, highs = bounds[1:], bounds[:-1]  # between two bounds, all thresholds give the same answers
    of_gold, num_gold = np.sort(probabilities[gold == 1]), int((gold == 1).sum())
    predicted = len(probabilities) - np.searchsorted(np.sort(probabilities), lows, side="right")
    right = num_gold - np.searchsorted(of_gold, lows, side="right")
    if not right.any():
        return THRESHOLD
    scores = 2 * right / (predicted + num_gold)
    candidates = np.where((lows <= THRESHOLD) & (highs > THRESHOLD), THRESHOLD, (lows + highs) / 2)
    best = candidates[scores == scores.max()]  # the highest first
    return float(best[np.abs(best - THRESHOLD).argmin()])


def divided(thresholds: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Returns the thresholds that give the same answers after all logits were divided by a temperature."""
    values = np.array(thresholds, np.float64)
    with np.errstate(divide="ignore"):
        logits = np.log(values) - np.log1p(-values)
    return tuple(sigmoid(logits / temperature).tolist())
