"""A prompt and several choices, of which one is right, for `MultipleChoice`."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.base import Encoded, TextTask
from keras_bert.tasks.multiple_choice import examples as multiple_choice
from keras_bert.tasks.multiple_choice.examples import ChoiceExamples
from keras_bert.tokenization.user_inputs import as_list, as_texts

# Rows that are tokenised at once.
_ROWS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class ChoiceAnswer:
    """The choice that a model takes.

    Attributes:
        choice: its number, from 0.
        text: the choice itself.
        probability: that of `choice`.
        probabilities: one for each choice.
    """

    choice: int
    text: str
    probability: float
    probabilities: tuple[float, ...] = dataclasses.field(repr=False)


class MultipleChoiceTask(TextTask):
    """Prompts and choices -> the numbers of the right choices.

    `x` is a tuple of two columns: N prompts, and N lists of choices, all equally long. `y` is the numbers of the right
    choices, from 0. The score is the accuracy.
    """

    name = "multiple_choice"
    main_score = "accuracy"

    def examples(self, x, y=None, sample_weight=None) -> ChoiceExamples:
        if not isinstance(x, (tuple, list)) or len(x) != 2 or isinstance(x[1], str):
            raise InputError(
                "Give prompts and choices as a tuple of two columns: (prompts, choices), with a list of choices for "
                f"each prompt. Received: {x!r:.100}"
            )
        answers = None if y is None else as_list(y, "the numbers of the right choices")
        choices = [
            as_texts(its_choices, f"choice of example {number}") if isinstance(its_choices, list) else its_choices
            for number, its_choices in enumerate(as_list(x[1], "choices"), start=1)
        ]
        return ChoiceExamples(as_texts(x[0], "prompt"), choices, answers, weights=sample_weight)

    def encode(self, examples: ChoiceExamples, max_seq_length: int | None = None) -> Encoded:
        length = self.checked_length(max_seq_length)
        num_choices = examples.num_choices
        padding = {features.INPUT_IDS: self.tokenizer.vocabulary.pad_id}
        at_once = max(1, _ROWS_AT_ONCE // num_choices)
        parts, num_cut = [], 0
        for first in range(0, len(examples), at_once):
            part = slice(first, first + at_once)
            batch, is_cut = multiple_choice.encode_choices(
                examples.prompts[part], examples.choices[part], self.tokenizer, length
            )
            batch = {name: values.reshape(-1, length) for name, values in batch.items()}
            parts.append(TokenRows.from_padded(batch, rows_per_example=num_choices, padding=padding))
            num_cut += int(is_cut.sum())
        rows = TokenRows.concatenate(parts)
        if examples.answers is not None:
            rows = rows.with_labels(**{features.LABEL_IDS: np.asarray(examples.answers, np.int32)})
        if examples.weights is not None:
            rows = rows.with_labels(**{features.EXAMPLE_WEIGHTS: np.asarray(examples.weights, np.float32)})
        note = f"{examples.source}: {num_cut} of {len(examples)} examples have a row that was cut to {length} tokens"
        return Encoded(rows, [note] if num_cut else [])

    def answers(self, examples: ChoiceExamples, encoded: Encoded, outputs: np.ndarray) -> list[ChoiceAnswer]:
        exponentials = np.exp(outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True))
        probabilities = (exponentials / exponentials.sum(axis=1, keepdims=True)).tolist()
        best = outputs.argmax(axis=1).tolist()
        return [
            ChoiceAnswer(number, choices[number], row[number], tuple(row))
            for number, choices, row in zip(best, examples.choices, probabilities, strict=True)
        ]

    def scores(self, examples: ChoiceExamples, answers: Sequence[ChoiceAnswer]) -> dict[str, float]:
        """Returns the accuracy and the loss."""
        is_right = [answer.choice == right for answer, right in zip(answers, examples.answers, strict=True)]
        return {"accuracy": float(np.mean(is_right)), "loss": float(np.mean(self.losses(examples, answers)))}

    def losses(self, examples: ChoiceExamples, answers: Sequence[ChoiceAnswer]) -> np.ndarray:
        """Returns the loss of each example, (N,)."""
        of_right = [answer.probabilities[right] for answer, right in zip(answers, examples.answers, strict=True)]
        # The smallest float stands for a probability that is too small for one.
        return -np.log(np.maximum(of_right, np.finfo(np.float64).tiny))
