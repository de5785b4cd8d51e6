"""Writes the files of a submission to the GLUE leaderboard."""

import os
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tasks.report_files import write_table

_YES_NO = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")
# Name of the file -> the allowed predictions; empty if predictions are numbers.
SUBMISSIONS = {
    "CoLA": _YES_NO,
    "SST-2": _YES_NO,
    "MRPC": _YES_NO,
    "QQP": _YES_NO,
    "STS-B": (),
    "MNLI-m": _THREE_WAY,
    "MNLI-mm": _THREE_WAY,
    "QNLI": _ENTAILMENT,
    "RTE": _ENTAILMENT,
    "WNLI": _YES_NO,
    "AX": _THREE_WAY,
}


def submission_name(task_name: str, part: str = "predict") -> str:
    """Returns the leaderboard's name for the predictions of a task's test set.

    >>> submission_name("RTE"), submission_name("MNLI"), submission_name("MNLI", "predict_mismatched")
    ('RTE', 'MNLI-m', 'MNLI-mm')
    """
    if task_name != "MNLI":
        return task_name
    return "MNLI-mm" if part.endswith("mismatched") else "MNLI-m"


def write_submission(folder: str | os.PathLike, name: str, predictions: Sequence[str] | Sequence[float]) -> str:
    """Writes a file for the leaderboard: `index` and `prediction`, one line for each line of the test set.

        index   prediction
        0       entailment
        1       not_entailment

    Returns its path. Raises `InputError` if a prediction is not one of the leaderboard's labels.

    Args:
        name: one of `SUBMISSIONS`.
        predictions: labels as in the leaderboard, or numbers for STS-B, which are clipped to 0 to 5.
    """
    if name not in SUBMISSIONS:
        raise InputError(f"GLUE has no submission {name!r}. It has: {', '.join(SUBMISSIONS)}")
    allowed = SUBMISSIONS[name]
    wrong = sorted({str(prediction) for prediction in predictions if allowed and prediction not in allowed})
    if wrong:
        raise InputError(
            f"{name} on GLUE takes the labels {', '.join(allowed)}. Received from the model: {', '.join(wrong)}. Train "
            "it with --task_name, or on these labels."
        )
    if not allowed:
        predictions = [f"{min(max(float(value), 0.0), 5.0):.3f}" for value in predictions]
    path = os.path.join(folder, f"{name}.tsv")
    write_table(path, ["index", "prediction"], enumerate(predictions))
    return path
