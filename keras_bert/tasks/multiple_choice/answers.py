"""The answers of `MultipleChoice`: the most probable of several choices."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.tasks import answer_operations
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


_NEVER = -1e30  # the logit of a choice that does not count


def choice_arrays(logits: Any, is_choice: Any, ops: Any = answer_operations) -> dict[str, Any]:
    """Returns what a model answers about B prompts with C choices, one or more: arrays by name.

    Args:
        logits: float `[B, C]`, the outputs of the model.
        is_choice: bool `[B, C]`: which choices count.
        ops: the module with the operations on such arrays.

    Returns:
        `choice` `[B]`, the number of the most probable choice, or -1 if none counts; its `probability` `[B]`; and
        `probabilities` `[B, C]`, 0 for choices that do not count.
    """
    logits = ops.where(is_choice, logits, _NEVER)
    probabilities = ops.where(is_choice, ops.softmax(logits), 0.0)
    choice = ops.where(ops.largest(logits) > _NEVER, ops.argmax(logits), -1)
    return {"choice": choice, "probability": ops.largest(probabilities), "probabilities": probabilities}


def texts_of(choice: np.ndarray, choices: Sequence[Sequence[str]]) -> list[str]:
    """Returns the text of the chosen one of each row of choices; "" for -1."""
    return ["" if number < 0 else texts[number] for number, texts in zip(choice.tolist(), choices, strict=True)]


def choice_answers(arrays: Mapping[str, Any], inputs: Mapping) -> list[ChoiceAnswer] | None:
    """Returns an answer for each prompt from what `choice_arrays` or a server returns; None for arrays of another task.

    The arrays also have `text`, the chosen texts. The last `choices` in `inputs` may be empty: these fill up the row.
    """
    if not arrays.keys() >= {"choice", "text", "probability", "probabilities"} or "choices" not in inputs:
        return None
    answers = []
    for row, choices in zip(rows_of(arrays), inputs["choices"], strict=True):
        count = max((number for number, text in enumerate(choices, 1) if text), default=0)
        probabilities = tuple(map(float, row["probabilities"][:count]))
        answers.append(ChoiceAnswer(int(row["choice"]), text_of(row["text"]), float(row["probability"]), probabilities))
    return answers
