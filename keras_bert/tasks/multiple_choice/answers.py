"""The answers of `MultipleChoice`: the most probable of several choices."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.tasks.served_values import rows_of, text_of


@dataclasses.dataclass(frozen=True)
class ChoiceAnswer:
    """The predicted choice of an example.

    Attributes:
        choice: the number of the choice, from 0; -1 from a server that was asked without choices.
        text: the text of the choice.
        probability: the probability of `choice`.
        probabilities: the probabilities of all choices.
    """

    choice: int
    text: str
    probability: float
    probabilities: tuple[float, ...] = dataclasses.field(repr=False)

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each choice, with a star for the predicted one.

        Args:
            asked: with "choices", their texts; else only the predicted choice has a text.
        """
        if self.choice < 0:
            return "  (no choice)"
        if not asked or "choices" not in asked:
            return f"* {self.text}  {self.probability:.4f}"
        texts = [text_of(text) for text in asked["choices"]][: len(self.probabilities)]
        width = max(map(len, texts))
        return "\n".join(
            f"{'*' if number == self.choice else ' '} {text:<{width}}  {probability:.4f}"
            for number, (text, probability) in enumerate(zip(texts, self.probabilities, strict=True))
        )


def choice_answers(logits: np.ndarray, choices: Sequence[Sequence[str]]) -> list[ChoiceAnswer]:
    """Returns an answer for each example, from the outputs of the model, float `[N, C]`, and N lists of C choices."""
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities = (exponentials / exponentials.sum(axis=1, keepdims=True)).tolist()
    best = logits.argmax(axis=1).tolist()
    return [
        ChoiceAnswer(number, texts[number], row[number], tuple(row))
        for number, texts, row in zip(best, choices, probabilities, strict=True)
    ]


def served_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping) -> list[ChoiceAnswer] | None:
    """Returns the answers in the outputs of a served model of choices; None if the outputs are those of another task.

    Args:
        inputs: `choices`, whose last ones may be empty: these fill up the row.
    """
    if not outputs.keys() >= {"choice", "text", "probability", "probabilities"} or "choices" not in inputs:
        return None
    answers = []
    for row, choices in zip(rows_of(outputs), inputs["choices"], strict=True):
        count = max((number for number, text in enumerate(choices, 1) if text), default=0)
        probabilities = tuple(map(float, row["probabilities"][:count]))
        answers.append(ChoiceAnswer(int(row["choice"]), text_of(row["text"]), float(row["probability"]), probabilities))
    return answers
