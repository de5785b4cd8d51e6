"""The answers of `SequenceClassifier`: a label, several labels, or scores."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert.program.label_types import Label
from keras_bert.tasks import answer_operations
from keras_bert.tasks.served_values import rows_of, text_of


@dataclasses.dataclass(frozen=True)
class LabelAnswer:
    """The predicted label of a text.

    Attributes:
        label: the most probable label, of the type that the model was given; from a server always a string.
        probability: the probability of `label`.
        probabilities: label -> probability, in the order of the model's labels; from `zero_shot` and with `top_k`, the
            most probable first.
    """

    label: Label
    probability: float
    probabilities: dict[Any, float] = dataclasses.field(repr=False)

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each label, the most probable first."""
        return _lines(likeliest_first(self.probabilities))


@dataclasses.dataclass(frozen=True)
class LabelsAnswer:
    """The predicted labels of a text, any number of them.

    Attributes:
        labels: the labels with a probability above their threshold, the most probable first.
        probabilities: label -> probability, independent of each other, in the same order as in `LabelAnswer`.
    """

    labels: tuple[Label, ...]
    probabilities: dict[Any, float]

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line with the predicted labels, and a line for each label, the most probable first."""
        return f"  {', '.join(map(str, self.labels)) or '(no label)'}\n{_lines(likeliest_first(self.probabilities))}"


@dataclasses.dataclass(frozen=True)
class ScoreAnswer:
    """The predicted score of a text.

    Attributes:
        score: the first score.
        scores: label -> score, for models with several scores. A server calls an only score "score".
    """

    score: float
    scores: dict[Any, float] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each score."""
        return _lines(self.scores or {"score": self.score})


def label_arrays(
    outputs: Any, labels: Sequence[Label], problem_type: str, thresholds: Sequence[float], ops: Any = answer_operations
) -> dict[str, Any]:
    """Returns what a classifier answers about B texts, arrays by name. L is the number of labels.

    Args:
        outputs: float `[B, L]`, the outputs of the model: logits, or scores for `regression`.
        problem_type: `classification`, `multi_label` or `regression`.
        thresholds: for `multi_label`, a number for each label.
        ops: the module with the operations on such arrays.

    Returns:
        for `classification`, `label` `[B]` and its `probability` `[B]`, `labels` `[B, L]`, the same in every row, and
        their `probabilities` `[B, L]`; for `multi_label`, `labels`, their `probabilities`, which are independent, and
        `is_given`, bool `[B, L]`: whether a probability exceeds its threshold; for `regression`, the only `score`
        `[B]`, or `labels` and `scores` `[B, L]`.
    """
    names = ops.in_every_row(labels, outputs)
    if problem_type == "regression":
        return {"score": outputs[:, 0]} if len(labels) == 1 else {"labels": names, "scores": outputs}
    if problem_type == "multi_label":
        probabilities = ops.sigmoid(outputs)
        is_given = probabilities > ops.as_numbers(thresholds, probabilities)
        return {"labels": names, "probabilities": probabilities, "is_given": is_given}
    probabilities = ops.softmax(outputs)
    label = ops.lookup(labels, ops.argmax(outputs))
    of_best = {"label": label, "probability": ops.largest(probabilities)}
    return {**of_best, "labels": names, "probabilities": probabilities}


def label_answers(arrays: Mapping[str, Any], inputs: Mapping, score_name: Label = "score") -> list | None:
    """Returns an answer for each text from what `label_arrays` or a server returns; None for arrays of another task.

    `score_name` is the name of an only score.
    """
    if arrays.keys() >= {"labels", "probabilities", "is_given"}:
        return [_labels_answer(_by_label(row, "probabilities"), row["is_given"]) for row in rows_of(arrays)]
    if arrays.keys() >= {"label", "probability", "labels", "probabilities"}:
        return [
            LabelAnswer(_label(row["label"]), float(row["probability"]), _by_label(row, "probabilities"))
            for row in rows_of(arrays)
        ]
    if arrays.keys() == {"labels", "scores"}:
        found = [_by_label(row, "scores") for row in rows_of(arrays)]
        return [ScoreAnswer(next(iter(row.values())), row) for row in found]
    if arrays.keys() == {"score"}:
        return [ScoreAnswer(float(score), {score_name: float(score)}) for score in arrays["score"]]
    return None


def _label(value: Any) -> Label:
    return text_of(value) if isinstance(value, (str, bytes)) else value


def _by_label(row: Mapping[str, Any], name: str) -> dict[Any, float]:
    return {_label(label): float(number) for label, number in zip(row["labels"], row[name], strict=True)}


def _labels_answer(probabilities: dict[Any, float], is_given: Iterable) -> LabelsAnswer:
    given = [label for label, is_one in zip(probabilities, is_given, strict=True) if is_one]
    return LabelsAnswer(tuple(reversed(sorted(given, key=lambda label: probabilities[label]))), probabilities)


def with_likeliest(answers: Sequence[LabelAnswer] | Sequence[LabelsAnswer], top_k: int) -> list:
    """Returns answers about the `top_k` most probable labels of each text, the most probable first."""
    shortened: list = []
    for answer in answers:
        kept = dict(list(likeliest_first(answer.probabilities).items())[:top_k])
        if isinstance(answer, LabelsAnswer):
            shortened.append(LabelsAnswer(tuple(label for label in answer.labels if label in kept), kept))
        else:
            shortened.append(LabelAnswer(answer.label, answer.probability, kept))
    return shortened


def likeliest_first(probabilities: dict[Any, float]) -> dict[Any, float]:
    """Returns label -> probability, the most probable first; equal ones stay in their order."""
    return dict(sorted(probabilities.items(), key=lambda item: -item[1]))


def _lines(numbers: Mapping[Any, float]) -> str:
    width = max(len(str(name)) for name in numbers)
    return "\n".join(f"  {name!s:<{width}}  {number:.4f}" for name, number in numbers.items())
