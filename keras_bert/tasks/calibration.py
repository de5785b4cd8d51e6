"""Calibration: probabilities that are right as often as they say.

One temperature is fitted on held-out texts. The weights of the model's last layer are divided by it, so the logits of
the model, of its folder in any format and of all its exports are calibrated without further code.
"""

import dataclasses
import os

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.tasks import answer_operations
from keras_bert.tasks.base import Answered, text_task
from keras_bert.tasks.report_files import BLUE, GREY, aligned, draw, write_text

# 1 / temperature is searched between these.
_LEAST, _MOST = 1e-2, 1e2
NUM_BINS = 15


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What calibrating has done.

    Attributes:
        temperature: what the logits were divided by. Above 1, the model was too sure of its answers. 1: the model
            stays as it was, because no other temperature was better.
        error_before, error_after: the expected calibration error on the texts of the calibration.
    """

    temperature: float
    error_before: float
    error_after: float


def calibrate_on_outputs(answered: Answered) -> Calibration:
    """Calibrates a model by one temperature, see `fit_temperature`, on its outputs for examples that have labels.

    If the expected calibration error on these examples does not fall, the model keeps its old temperature, and a line
    says so. Raises `InputError` if the model has no probabilities, there are no labels, or as `fit_temperature`.

    With several labels, labels near a probability of 0.5 stay on their side of it too. Of a tagger, the words are
    examples; of a question answerer, the n best answers to a question are its labels, and questions without a right one
    among them determine no temperature.
    """
    logits, gold = _logits_and_labels(answered)
    if logits is None:
        raise InputError(f"This {type(answered.model).__name__} gives no probabilities, so they cannot be calibrated.")
    if gold is None:
        raise InputError("There are no labels to calibrate on: give calibrate(texts, labels).")
    temperature = fit_temperature(logits, gold)
    before, after = (
        expected_calibration_error(*confidences(_probabilities(values, gold), gold))
        for values in (logits, logits / temperature)
    )
    if not after < before:
        print(
            f"The model keeps its temperature of {answered.model.temperature:.4g}: divided by {temperature:.4g}, its "
            f"logits would have an expected calibration error of {after:.4f} instead of {before:.4f} on these examples."
        )
        return Calibration(1.0, before, before)
    answered.model.divide_logits(temperature)
    return Calibration(temperature, before, after)


def _logits_and_labels(answered: Answered) -> tuple[np.ndarray | None, np.ndarray | None]:
    return text_task(answered.model).logits_and_labels(answered.examples, answered.example_rows, answered.outputs)


def _probabilities(logits: np.ndarray, gold: np.ndarray) -> np.ndarray:
    activate = answer_operations.sigmoid if gold.ndim == 2 else answer_operations.softmax
    return activate(np.asarray(logits, np.float64))


def fit_temperature(logits: np.ndarray, gold: np.ndarray, doubt: float = 0.0) -> float:
    """Returns the temperature T that minimises the loss of the probabilities softmax(logits / T) on held-out examples.

    The loss is convex in 1 / T, so the zero of its derivative is found by bisection.

    Args:
        logits: float `(N, labels)`.
        gold: int `(N,)`, the right labels, -1 for examples to leave out; or 0 and 1 `(N, labels)` for labels that are
            independent (sigmoid).
        doubt: the share of the right label that is dealt out to all labels, so that a few examples that are all
            answered right determine a temperature too (label smoothing).

    Raises `InputError`: a logit is no number, all examples are answered right, or the logits tell nothing.

    Reference: Guo et al., 2017, arXiv 1706.04599, section 4.2.
    """
    logits, gold = np.asarray(logits, np.float64), np.asarray(gold)
    check_numbers(logits, "example")
    if gold.ndim == 2:  # a label is a choice between the logit and 0
        logits = np.stack([np.zeros(logits.size), logits.reshape(-1)], axis=1)
        gold = gold.reshape(-1).astype(np.int64)
    logits, gold = logits[gold >= 0], gold[gold >= 0]
    logits = logits - logits.max(axis=1, keepdims=True)
    of_gold = (1 - doubt) * logits[np.arange(len(gold)), gold] + doubt * logits.mean(axis=1)

    def slope(inverse: float) -> float:
        weights = np.exp(inverse * logits)
        return float(np.mean((weights * logits).sum(axis=1) / weights.sum(axis=1) - of_gold))

    low, high = np.log(_LEAST), np.log(_MOST)
    if not len(gold) or slope(_LEAST) >= 0 or slope(_MOST) <= 0:
        raise InputError(
            f"These {len(gold)} examples determine no temperature: the answers to them are all right, or the model is "
            "no better than chance. Calibrate on more held-out examples."
        )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(np.exp(middle)) < 0 else (low, middle)
    return float(np.exp(-(low + high) / 2))


def confidences(probabilities: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities of the predicted labels, and whether these are right: float and bool `(M,)`.

    `probabilities` are float `(N, labels)`, and `gold` as for `fit_temperature`. Each independent label counts as an
    example with the labels yes and no.
    """
    probabilities, gold = np.asarray(probabilities, np.float64), np.asarray(gold)
    if gold.ndim == 2:
        says_yes = probabilities > 0.5
        return np.where(says_yes, probabilities, 1 - probabilities).reshape(-1), (says_yes == (gold == 1)).reshape(-1)
    return probabilities.max(axis=1), probabilities.argmax(axis=1) == gold


def reliability(confidence: np.ndarray, is_right: np.ndarray, num_bins: int = NUM_BINS) -> list[tuple]:
    """Returns (number, mean confidence, accuracy) of the examples in each bin of equal width that has examples.

    >>> reliability(np.array([0.6, 0.65, 0.9]), np.array([True, False, True]), num_bins=2)
    [(3, 0.7166666666666667, 0.6666666666666666)]
    """
    bins = np.clip(np.ceil(np.asarray(confidence) * num_bins).astype(int) - 1, 0, num_bins - 1)
    inside = [bins == number for number in np.unique(bins)]
    return [(int(one.sum()), float(confidence[one].mean()), float(is_right[one].mean())) for one in inside]


def expected_calibration_error(confidence: np.ndarray, is_right: np.ndarray, num_bins: int = NUM_BINS) -> float:
    """Returns the mean difference between confidence and accuracy over bins, weighted by their examples.

    Raises `InputError` if there are none. Reference: Naeini et al., 2015; Guo et al., 2017, equation 3.
    """
    if not len(confidence):
        raise InputError("A calibration error needs one example or more. Received: none")
    rows = reliability(confidence, is_right, num_bins)
    return sum(number * abs(mean - accuracy) for number, mean, accuracy in rows) / len(confidence)


def write_reliability(folder: str | os.PathLike, answered: Answered) -> None:
    """Writes how often answers are right, beside how probable they are, if they have probabilities and labels.

    reliability.txt   the expected calibration error, and a line for each bin
    reliability.png   the bins as a picture
    """
    logits, gold = _logits_and_labels(answered)
    if logits is None or gold is None:
        return
    sure = confidences(_probabilities(logits, gold), gold)
    rows, error = reliability(*sure), expected_calibration_error(*sure)
    text = f"expected calibration error {error:.4f} on {len(sure[0])} answers\n\n"
    text += aligned(["answers", "confidence", "accuracy"], rows)
    write_text(os.path.join(folder, "reliability.txt"), text)
    _draw(os.path.join(folder, "reliability.png"), rows, error, len(sure[0]))


def _draw(path: str, rows: list[tuple], error: float, num_answers: int) -> None:
    """Draws the accuracy of each bin against its mean confidence."""
    numbers, means, accuracies = zip(*rows, strict=True)

    def on(axis):
        axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
        axis.plot(means, accuracies, color=BLUE, linewidth=1)
        axis.scatter(means, accuracies, s=[12 + 240 * number / num_answers for number in numbers], color=BLUE)
        axis.set_xlim(0, 1.02)
        axis.set_ylim(0, 1.02)
        axis.set_xlabel("confidence")
        axis.set_ylabel("accuracy")
        axis.set_title(f"Expected calibration error {error:.4f}", loc="left", fontsize=10)

    draw(path, (5.2, 5.0), on)
