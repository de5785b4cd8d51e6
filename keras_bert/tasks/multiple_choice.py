"""A prompt and N choices, of which one is right: the rows that the model takes."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert.errors import InputError
from keras_bert.tasks.classification import encode_texts


@dataclasses.dataclass(frozen=True)
class ChoiceExamples:
    """Prompts with their choices.

    Attributes:
        prompts: N texts.
        choices: N lists of texts, all equally long.
        answers: for each example the number of the right choice, from 0; or None.
        source: where they are from, for messages.

    Raises:
        InputError: there are none, the numbers disagree, or an answer is no choice.
    """

    prompts: Sequence[str]
    choices: Sequence[Sequence[str]]
    answers: Sequence[int] | None = None
    source: str = "the examples"

    def __post_init__(self):
        if not self.prompts:
            raise InputError(f"{self.source}: there is no example.")
        counts = {len(self.choices), len(self.prompts), len(self.prompts if self.answers is None else self.answers)}
        if len(counts) > 1:
            raise InputError(f"{self.source}: there must be as many lists of choices and answers as prompts.")
        if self.num_choices < 2:
            raise InputError(f"{self.source}: an example needs two choices or more. Received: {self.num_choices}")
        for number, choices in enumerate(self.choices, start=1):
            if len(choices) != self.num_choices:
                raise InputError(
                    f"{self.source}: example {number} has {len(choices)} choices, but {self.num_choices} are "
                    "expected, as in the first one."
                )
        for number, answer in enumerate(self.answers or (), start=1):
            if not 0 <= answer < self.num_choices:
                raise InputError(
                    f"{self.source}: the answer of example {number} must be a choice, from 0 to "
                    f"{self.num_choices - 1}. Received: {answer}"
                )

    def __len__(self):
        return len(self.prompts)

    @property
    def num_choices(self) -> int:
        return len(self.choices[0])


def encode_choices(
    prompts: Sequence[str], choices: Sequence[Sequence[str]], tokenizer, max_seq_length: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Makes a row [CLS] prompt [SEP] choice [SEP] for every choice.

    Args:
        prompts: N strings.
        choices: N lists of C strings each.
        tokenizer: a `GraphTokenizer`.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 (N, C, max_seq_length); and for which examples a row
        was cut, bool (N,).
    """
    num_choices = len(choices[0])
    first = [prompt for prompt in prompts for _ in range(num_choices)]
    second = [choice for its_choices in choices for choice in its_choices]
    rows, is_cut = encode_texts(first, second, tokenizer, max_seq_length)
    rows = {name: values.reshape(len(prompts), num_choices, max_seq_length) for name, values in rows.items()}
    return rows, is_cut.reshape(len(prompts), num_choices).any(axis=1)
