"""The report on an evaluation: a folder of tables and pictures, which notebooks show."""

import base64
import dataclasses
import glob
import html
import os
from typing import Any

from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.errors import InputError
from keras_bert.tasks.base import Answered, TextTask, check_labels_of_rows, text_task
from keras_bert.tasks.calibration import write_reliability


@dataclasses.dataclass(frozen=True)
class EvaluationReport:
    """A report on an evaluation. A notebook shows its text and its pictures.

    Attributes:
        path: the folder with the files.
        scores: the scores of `evaluate`.
    """

    path: str
    scores: dict[str, float]

    def _repr_html_(self) -> str:
        with open(os.path.join(self.path, "report.txt"), encoding="utf-8") as file:
            parts = [f"<pre>{html.escape(file.read())}</pre>"]
        for picture in sorted(glob.glob(os.path.join(glob.escape(self.path), "*.png"))):
            with open(picture, "rb") as file:
                content = base64.b64encode(file.read()).decode()
            parts.append(f'<img alt="{os.path.basename(picture)}" src="data:image/png;base64,{content}">')
        return "\n".join(parts)


def write_report(folder: str | os.PathLike, answered: Answered) -> dict[str, float]:
    """Writes the report on answers, and how often they are right, into an existing folder. Returns the scores."""
    task = text_task(answered.model)
    scores = task.scores_of(answered)
    task.write_report(folder, answered, scores)
    write_reliability(folder, answered)
    return scores


def report_on(
    model: Any, x: Any, y: Any, path: str | os.PathLike, batch_size: int | None, max_seq_length: int | None
) -> EvaluationReport:
    """Evaluates a model and writes a report into a new folder; the arguments are those of `TextModel.report`."""
    task = text_task(model)
    if type(task).write_report is TextTask.write_report:
        raise InputError(f"A {type(model).__name__} has no report.")
    check_output_folder(path)  # before the texts are computed
    from keras_bert.tasks.fitting import outputs_with_labels  # needs Keras; loaded exports write reports without it

    answered = outputs_with_labels(model, x, y, batch_size, max_seq_length)
    check_labels_of_rows(answered.example_rows.rows, "to compare with: give report(texts, labels, path)")
    answers = task.answers(answered.examples, answered.example_rows, answered.outputs)
    with atomic_folder(path) as folder:
        scores = write_report(folder, dataclasses.replace(answered, answers=answers))
    return EvaluationReport(os.fspath(path), scores)
