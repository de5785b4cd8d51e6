"""The official scores of tasks with one label, several labels or a number for each text, and those of GLUE."""

import logging
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError

_logger = logging.getLogger(__name__)

# The columns of a table of labels.
SCORES_OF_LABELS = ("precision", "recall", "f1", "occurs", "predicted")
# GLUE task -> its main score on the leaderboard.
GLUE_MAIN_SCORES = {
    "CoLA": "matthews",
    "SST-2": "accuracy",
    "MRPC": "accuracy_and_f1",
    "QQP": "accuracy_and_f1",
    "STS-B": "pearson_and_spearman",
    "MNLI": "accuracy",
    "QNLI": "accuracy",
    "RTE": "accuracy",
    "WNLI": "accuracy",
    "AX": "matthews",
}


def single_label_scores(gold: Sequence[int], predicted: Sequence[int], num_labels: int) -> dict[str, float]:
    """Returns the scores of a task with one label for each text.

    Args:
        gold, predicted: int (N,), label ids from 0 to `num_labels` - 1.

    Returns:
        `accuracy` and `matthews`; for two labels also `f1` of label id 1, and `accuracy_and_f1`, the mean of accuracy
        and F1; for more labels `macro_f1`, the mean over the labels that occur in `gold` or `predicted`.
        (Micro-averaged F1 would equal the accuracy.) An undefined score is NaN, and a warning gives the reason. If all
        predictions are the same label, `matthews` is 0 by convention, as in the official scorer, with a warning.

    Raises:
        InputError: there are no examples, the lengths differ, or an id is out of range.

    Example:
        >>> single_label_scores([1, 1, 0, 0], [1, 0, 0, 0], num_labels=2)
        {'accuracy': 0.75, 'matthews': 0.577..., 'f1': 0.666..., 'accuracy_and_f1': 0.708...}

    Reference: Wang et al., 2019 (GLUE), table 1; scikit-learn.
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    _check_like(gold, predicted)
    for name, values in (("gold", gold), ("predicted", predicted)):
        if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= num_labels:
            raise InputError(
                f"The {name} labels must be whole numbers from 0 to {num_labels - 1}. Received: {values.min()} to "
                f"{values.max()} ({values.dtype})"
            )
    scores = {"accuracy": float(np.mean(gold == predicted)), "matthews": _matthews(gold, predicted)}
    if num_labels == 2:
        if not np.any(gold == 1) and not np.any(predicted == 1):
            _logger.warning("f1 is undefined: label 1 neither occurs nor was it predicted.")
            scores["f1"] = float("nan")
        else:
            scores["f1"] = f1_score(predicted == 1, gold == 1)
        scores["accuracy_and_f1"] = (scores["accuracy"] + scores["f1"]) / 2
    else:
        labels = np.unique([gold, predicted])
        scores["macro_f1"] = float(np.mean([f1_score(predicted == label, gold == label) for label in labels]))
    return scores


def multi_label_scores(gold: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns the scores of a task with any number of labels for each text.

    Args:
        gold, predicted: 0 or 1, (N, labels).

    Returns:
        `micro_f1`, over all labels of all texts; `macro_f1`, the mean over the labels that occur or were predicted;
        `subset_accuracy`, the share of texts whose labels are exactly right. An undefined score is NaN, and a warning
        gives the reason.

    Raises:
        InputError: there are no examples, the shapes differ, or a value is neither 0 nor 1.
    """
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.shape != predicted.shape or gold.ndim != 2 or not gold.size:
        raise InputError(
            f"Gold and predicted labels must be 0 or 1, (examples, labels). Received: {gold.shape}, {predicted.shape}"
        )
    if not np.isin(gold, (0, 1)).all() or not np.isin(predicted, (0, 1)).all():
        raise InputError(
            "Gold and predicted labels must be 0 or 1. Received: other values. Apply a threshold to probabilities "
            "first."
        )
    scores = {"subset_accuracy": float(np.mean((gold == predicted).all(axis=1)))}
    gold, predicted = gold == 1, predicted == 1
    used = (gold | predicted).any(axis=0)
    if not used.any():
        _logger.warning("micro_f1 and macro_f1 are undefined: no text has a label, and none was predicted.")
        return {"micro_f1": float("nan"), "macro_f1": float("nan"), **scores}
    if not used.all():
        _logger.warning("macro_f1 leaves %d labels out that neither occur nor were predicted.", int((~used).sum()))
    of_labels = [f1_score(predicted[:, label], gold[:, label]) for label in np.flatnonzero(used)]
    return {"micro_f1": f1_score(predicted, gold), "macro_f1": float(np.mean(of_labels)), **scores}


def f1_score(predicted: np.ndarray, gold: np.ndarray) -> float:
    """Returns F1, 0 if no example has the label and none is predicted to have it: bool or 0 and 1, of any shape."""
    total = int(predicted.sum()) + int(gold.sum())
    return 2 * int(predicted[gold == 1].sum()) / total if total else 0.0


def label_table(
    labels: Sequence[str], right: Sequence, predicted: Sequence, gold: Sequence, undefined: float = float("nan")
) -> list[list]:
    """Returns the label and `SCORES_OF_LABELS` for each label.

    >>> label_table(["a"], [1], [1], [2])
    [['a', 1.0, 0.5, 0.6666666666666666, 2, 1]]

    Args:
        right, predicted, gold: int (labels,): counts of right predictions, of all predictions, and of gold labels.
        undefined: the value of 0 / 0.
    """

    def ratio(numerator, denominator) -> float:
        return float(numerator / denominator) if denominator else undefined

    return [
        [label, ratio(a, b), ratio(a, c), ratio(2 * a, b + c), int(c), int(b)]
        for label, a, b, c in zip(labels, right, predicted, gold, strict=True)
    ]


def regression_scores(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Returns the scores of a regression task from N right and N predicted scores.

    Returns:
        `pearson`, `spearman`, `pearson_and_spearman`, the mean of both, and `mean_squared_error`. If all gold or all
        predicted scores are equal, the correlations are undefined: they are NaN, and a warning gives the reason.

    Raises:
        InputError: there are no examples, the lengths differ, or a score is not finite.

    Example:
        >>> regression_scores([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])["spearman"]
        1.0
    """
    from scipy.stats import spearmanr

    gold, predicted = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    _check_like(gold, predicted)
    for name, values in (("gold", gold), ("predicted", predicted)):
        if not np.isfinite(values).all():
            number = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"The {name} score of example {number + 1} is {values[number]}: scores must be finite numbers."
                + (" The training has diverged: use a lower learning_rate." if name == "predicted" else "")
            )
    scores = {"pearson": float("nan"), "spearman": float("nan")}
    constant = [name for name, values in (("gold", gold), ("predicted", predicted)) if np.ptp(values) == 0]
    if constant:
        _logger.warning(
            "pearson and spearman are undefined: all %s scores are %g.",
            " and ".join(constant),
            (gold if "gold" in constant else predicted)[0],
        )
    else:
        scores = {"pearson": _pearson(gold, predicted), "spearman": float(spearmanr(gold, predicted)[0])}
    scores["pearson_and_spearman"] = (scores["pearson"] + scores["spearman"]) / 2
    return {**scores, "mean_squared_error": float(np.mean((gold - predicted) ** 2))}


def _pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    # scipy warns about nearly constant numbers. To hide that for a while would change the warnings of all threads.
    centred = [values - values.mean() for values in (gold, predicted)]
    centred = [values / np.abs(values).max() for values in centred]  # so that no square is too large or too small
    return float(np.clip(np.dot(*(values / np.linalg.norm(values) for values in centred)), -1, 1))


def _matthews(gold: np.ndarray, predicted: np.ndarray) -> float:
    from sklearn.metrics import matthews_corrcoef

    if len(np.unique(gold)) < 2:
        _logger.warning("matthews is undefined: all examples have the label %d.", gold[0])
        return float("nan")
    if len(np.unique(predicted)) < 2:
        _logger.warning("matthews is 0 by convention: label %d was predicted for all examples.", predicted[0])
        return 0.0
    return float(matthews_corrcoef(gold, predicted))


def _check_like(gold: np.ndarray, predicted: np.ndarray) -> None:
    if gold.ndim != 1 or gold.shape != predicted.shape or not gold.size:
        raise InputError(
            "Scores need as many predictions as right answers, and one at least. Received: "
            f"{predicted.shape} and {gold.shape}"
        )
