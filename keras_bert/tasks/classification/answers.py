"""The answers of `SequenceClassifier`: a label, several labels, or scores."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.label_types import Label
from keras_bert.tasks.served_values import named_numbers, rows_of, text_of


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


def classification_answers(
    outputs: np.ndarray, labels: Sequence[Label], problem_type: str, thresholds: Sequence[float] | float = 0.5
) -> list:
    """Returns an answer for each text.

    Args:
        outputs: float `[N, labels]`, the outputs of the model: logits, or scores for `regression`.
        problem_type: `classification`, `multi_label` or `regression`.
        thresholds: for `multi_label`, one or a number for each label.
    """
    if problem_type == "regression":
        return [ScoreAnswer(row[0], dict(zip(labels, row, strict=True))) for row in outputs.tolist()]
    logits = outputs.astype(np.float64)
    if problem_type == "multi_label":
        rows = (1 / (1 + np.exp(-logits))).tolist()
        return [_labels_answer(dict(zip(labels, row, strict=True)), np.array(row) > thresholds) for row in rows]
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows = (exponentials / exponentials.sum(axis=1, keepdims=True)).tolist()
    best = logits.argmax(axis=1).tolist()
    return [
        LabelAnswer(labels[number], row[number], dict(zip(labels, row, strict=True)))
        for number, row in zip(best, rows, strict=True)
    ]


def served_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping) -> list | None:
    """Returns the answers in the outputs of a served classifier; None if the outputs are those of another task."""
    if outputs.keys() >= {"labels", "probabilities", "is_given"}:
        return [
            _labels_answer(named_numbers(row["labels"], row["probabilities"]), row["is_given"])
            for row in rows_of(outputs)
        ]
    if outputs.keys() >= {"label", "probability", "labels", "probabilities"}:
        return [
            LabelAnswer(
                text_of(row["label"]), float(row["probability"]), named_numbers(row["labels"], row["probabilities"])
            )
            for row in rows_of(outputs)
        ]
    if outputs.keys() == {"labels", "scores"}:
        found = [named_numbers(row["labels"], row["scores"]) for row in rows_of(outputs)]
        return [ScoreAnswer(next(iter(row.values())), row) for row in found]
    if outputs.keys() == {"score"}:
        return [ScoreAnswer(float(score), {"score": float(score)}) for score in outputs["score"]]
    return None


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
