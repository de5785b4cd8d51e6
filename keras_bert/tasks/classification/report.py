"""Evaluation reports: confused labels, scores of each label, and the worst errors."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.scores import SCORES_OF_LABELS, label_table
from keras_bert.tasks.report_files import (
    BLUE,
    GREY,
    ORANGE,
    aligned,
    draw,
    draw_labels,
    largest_labels,
    short_label,
    write_errors,
    write_table,
    write_text,
)

_MOST_LABELS_WITH_NUMBERS = 20
_SMALLEST_PROBABILITY = 1e-12
_TABLE_HEADER = ("label", *SCORES_OF_LABELS)
_THRESHOLDS = np.arange(20) / 20


def write_label_report(
    folder: str | os.PathLike,
    texts: Sequence[str],
    second_texts: Sequence[str] | None,
    gold: Sequence[int],
    probabilities: np.ndarray,
    labels: Sequence[str],
    scores: Mapping[str, float],
) -> None:
    """Writes the report on a task with one label for each text. Existing files are replaced.

        report.txt              scores, the table of labels and the confusion matrix, for people
        confusion_matrix.tsv    rows are right labels, columns are predicted ones
        confusion_matrix.png
        labels.tsv              precision, recall and F1 of each label, and how often it occurs
        thresholds.tsv          the same of the second of two labels, if its probability must exceed a threshold; with
                                more labels, of the answers whose probability exceeds it
        thresholds.png
        errors.tsv              the wrongly labelled texts, the highest loss first

    Args:
        gold: N right label ids.
        probabilities: float (N, labels).
        scores: name -> value, the first lines of `report.txt`.

    Raises:
        InputError: a probability is NaN, or the files cannot be written.
    """
    gold = np.asarray(gold)
    probabilities = _checked(probabilities, "probabilities")
    predicted = probabilities.argmax(axis=1)
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(confusion, (gold, predicted), 1)
    table = label_table(labels, np.diag(confusion), confusion.sum(axis=0), confusion.sum(axis=1))
    of_gold = probabilities[np.arange(len(gold)), gold]
    losses = -np.log(np.maximum(of_gold, _SMALLEST_PROBABILITY))
    matrix = [[label, *row] for label, row in zip(labels, confusion.tolist(), strict=True)]
    write_table(os.path.join(folder, "confusion_matrix.tsv"), ["right \\ predicted", *labels], matrix)
    write_table(os.path.join(folder, "labels.tsv"), _TABLE_HEADER, table)
    columns = {
        "right": [labels[label] for label in gold],
        "predicted": [labels[label] for label in predicted],
        "probability_of_right": of_gold,
        "probability_of_predicted": probabilities.max(axis=1),
        "loss": losses,
    }
    num_wrong = write_errors(folder, "example", of_texts(texts, second_texts) | columns, predicted != gold)
    parts = [aligned(_TABLE_HEADER, table)]
    if len(labels) <= _MOST_LABELS_WITH_NUMBERS:
        parts.append("Rows are right labels, columns are predicted ones.\n" + aligned(["", *labels], matrix))
    _write_summary(folder, scores, len(gold), *parts, f"{num_wrong} of {len(gold)} are wrong: errors.tsv\n")
    _draw_confusion(os.path.join(folder, "confusion_matrix.png"), confusion, labels)
    if len(labels) == 2:
        _write_thresholds(folder, probabilities[:, 1], gold == 1, int(gold.sum()), labels[1])
    else:
        _write_thresholds(folder, probabilities.max(axis=1), predicted == gold, len(gold), "all answers")


def write_label_set_report(
    folder: str | os.PathLike,
    texts: Sequence[str],
    second_texts: Sequence[str] | None,
    gold: np.ndarray,
    probabilities: np.ndarray,
    labels: Sequence[str],
    scores: Mapping[str, float],
    threshold: Sequence[float] | float = 0.5,
) -> None:
    """Writes the report on a task with any number of labels for each text; see `write_label_report`.

        report.txt, labels.tsv, errors.tsv
        labels.png              F1 of each label
        thresholds.tsv, .png    precision, recall and F1 of all labels together, with one threshold for all

    Args:
        gold: 0 or 1, (N, labels).
        probabilities: float (N, labels); a label is predicted if its probability exceeds `threshold`,
            one number or one for each label.
    """
    gold = np.asarray(gold, bool)
    probabilities = _checked(probabilities, "probabilities")
    predicted = probabilities > threshold
    table = label_table(labels, (gold & predicted).sum(axis=0), predicted.sum(axis=0), gold.sum(axis=0))
    of_gold = np.where(gold, probabilities, 1 - probabilities)
    losses = -np.log(np.maximum(of_gold, _SMALLEST_PROBABILITY)).mean(axis=1)
    write_table(os.path.join(folder, "labels.tsv"), _TABLE_HEADER, table)
    label_sets = {
        "right": gold,
        "predicted": predicted,
        "missed": gold & ~predicted,
        "wrongly_predicted": predicted & ~gold,
    }
    columns = {
        name: [", ".join(label for label, is_on in zip(labels, row, strict=True) if is_on) for row in rows]
        for name, rows in label_sets.items()
    }
    columns = of_texts(texts, second_texts) | columns | {"loss": losses}
    num_wrong = write_errors(folder, "example", columns, (predicted != gold).any(axis=1))
    wrong = f"The labels of {num_wrong} of {len(gold)} texts are not exactly right: errors.tsv\n"
    _write_summary(folder, scores, len(gold), aligned(_TABLE_HEADER, table), wrong)
    draw_labels(os.path.join(folder, "labels.png"), table, "Labels")
    _write_thresholds(folder, probabilities.reshape(-1), gold.reshape(-1), int(gold.sum()), "all labels")


def write_regression_report(
    folder: str | os.PathLike,
    texts: Sequence[str],
    second_texts: Sequence[str] | None,
    gold: Sequence[float],
    predicted: Sequence[float],
    scores: Mapping[str, float],
) -> None:
    """Writes the report on a regression task; see `write_label_report`.

    report.txt
    errors.tsv     all texts, the largest difference first
    scatter.png    right and predicted scores
    """
    gold = _checked(gold, "right scores")
    predicted = _checked(predicted, "predicted scores")
    losses = (predicted - gold) ** 2
    columns = {"right": gold, "predicted": predicted, "difference": predicted - gold, "loss": losses}
    write_errors(folder, "example", of_texts(texts, second_texts) | columns, [True] * len(gold))
    summary = [
        [name, float(values.mean()), float(values.std()), float(values.min()), float(values.max())]
        for name, values in (("right", gold), ("predicted", predicted))
    ]
    table = aligned(["", "mean", "deviation", "lowest", "highest"], summary)
    _write_summary(folder, scores, len(gold), table)
    _draw_scatter(os.path.join(folder, "scatter.png"), gold, predicted)


def _write_thresholds(folder, probabilities: np.ndarray, is_right: np.ndarray, num_gold: int, what: str) -> None:
    """Writes precision, recall and F1 of what has a probability above each threshold; `what` is its name.

    `probabilities` and `is_right` are (M,); `num_gold` is how many right ones there are.
    """
    right, predicted = (
        (values[:, None] > _THRESHOLDS).sum(axis=0) for values in (probabilities[is_right], probabilities)
    )
    table = label_table(_THRESHOLDS.tolist(), right, predicted, [num_gold] * len(_THRESHOLDS))
    write_table(os.path.join(folder, "thresholds.tsv"), ["threshold", *SCORES_OF_LABELS], table)

    def on(axis):
        for column, color, name in ((1, GREY, "precision"), (2, ORANGE, "recall"), (3, BLUE, "F1")):
            axis.plot(_THRESHOLDS, [row[column] for row in table], color=color, label=name)
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1.02)
        axis.set_xlabel("threshold of the probability")
        axis.legend(fontsize=9, frameon=False)
        axis.set_title(f"Precision and recall: {short_label(what)}", loc="left", fontsize=10, parse_math=False)

    draw(os.path.join(folder, "thresholds.png"), (5.6, 4.2), on)


def _checked(values, name: str) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        raise InputError(
            f"The {name} of {len(rows)} examples are not numbers, the first is example {rows[0] + 1}. The training has "
            "diverged, or the weights are damaged."
        )
    return values


def of_texts(texts: Sequence[str], second_texts: Sequence[str] | None) -> dict[str, Sequence]:
    """Returns the columns of texts by the names that they have in tables."""
    return {"text": texts} if second_texts is None else {"text": texts, "second_text": second_texts}


def _write_summary(folder, scores: Mapping[str, float], num_examples: int, *parts: str) -> None:
    """Writes report.txt: the scores, and further parts after a blank line each."""
    of_scores = aligned(["examples", num_examples], [[name, float(value)] for name, value in scores.items()])
    write_text(os.path.join(folder, "report.txt"), "\n".join([of_scores, *parts]))


def _draw_confusion(path: str, confusion: np.ndarray, labels: Sequence[str]) -> None:
    chosen = largest_labels(confusion.sum(axis=0) + confusion.sum(axis=1) - 2 * np.diag(confusion))
    confusion = confusion[np.ix_(chosen, chosen)]
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    names = [short_label(labels[number]) for number in chosen]

    def on(axis):
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axis.set_xticks(range(len(names)), names, rotation=45 if len(names) > 3 else 0, parse_math=False)
        axis.set_yticks(range(len(names)), names, parse_math=False)
        axis.set_xlabel("predicted")
        axis.set_ylabel("right")
        if len(names) <= _MOST_LABELS_WITH_NUMBERS:
            for (row, column), count in np.ndenumerate(confusion):
                color = "white" if shares[row, column] > 0.6 else "black"
                axis.text(column, row, f"{count}", ha="center", va="center", fontsize=9, color=color)
        left_out = len(labels) - len(names)
        axis.set_title(
            f"The {len(names)} most confused of {len(labels)} labels" if left_out else "Confusion matrix",
            loc="left",
            fontsize=10,
        )

    side = 2.4 + 0.42 * max(len(names), 4)
    draw(path, (side + 0.6, side), on)


def _draw_scatter(path: str, gold: np.ndarray, predicted: np.ndarray) -> None:
    def on(axis):
        low, high = min(gold.min(), predicted.min()), max(gold.max(), predicted.max())
        axis.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle="--")
        axis.scatter(gold, predicted, s=12, alpha=0.5, color=BLUE, linewidths=0)
        axis.set_xlabel("right")
        axis.set_ylabel("predicted")
        axis.set_title("Right and predicted scores", loc="left", fontsize=10)

    draw(path, (5.6, 5.2), on)
