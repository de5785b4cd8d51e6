"""Examples with a prompt and N choices, one of which is right."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.examples import Examples, check_examples
from keras_bert.tasks.text_rows import text_rows


@dataclasses.dataclass(frozen=True)
class ChoiceExamples(Examples):
    """N prompts with their choices, with or without answers, and with or without weights for training.

    Raises:
        InputError: there are no examples, a text is empty, the lengths differ, or an answer is out of range.
    """

    per_example = ("prompts", "choices", "answers", "weights")

    prompts: Sequence[str]
    choices: Sequence[Sequence[str]]  # all equally long
    answers: Sequence[int] | None = None  # the numbers of the right choices, from 0
    source: str = "the examples"  # where the examples come from, for messages
    weights: Sequence[float] | None = None  # 0 or more

    def __post_init__(self):
        check_examples(self)
        for number, (prompt, choices) in enumerate(zip(self.prompts, self.choices, strict=True), start=1):
            self._check_choices(number, choices)
            for text in (prompt, *choices):
                if not isinstance(text, str) or not text.strip():
                    raise InputError(
                        f"{self.source}: the prompt and the choices of example {number} must be texts that are not "
                        f"empty. Received: {text!r:.100}"
                    )
        for number, answer in enumerate(self.answers or (), start=1):
            if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer < self.num_choices:
                raise InputError(
                    f"{self.source}: the answer of example {number} must be the number of a choice, from 0 to "
                    f"{self.num_choices - 1}. Received: {answer!r}"
                )

    def _check_choices(self, number: int, choices: Sequence[str]) -> None:
        if not isinstance(choices, (list, tuple)):
            raise InputError(
                f"{self.source}: the choices of example {number} must be a list of texts. Received: {choices!r:.100}"
            )
        if len(choices) != len(self.choices[0]):
            raise InputError(
                f"{self.source}: example {number} has {len(choices)} choices, but {self.num_choices} are expected, as "
                "in the first one. All examples of a data set have equally many."
            )
        if len(choices) < 2:
            raise InputError(
                f"{self.source}: an example needs two choices or more. Received: {len(choices)}, in example {number}"
            )

    @property
    def num_choices(self) -> int:
        return len(self.choices[0])


def choice_names(labels: Iterable[str], num_choices: int) -> list[str]:
    """Returns the names of the choices, in the style of `labels`: letters from A, or numbers from 0.

    >>> choice_names(["B", "A"], 3), choice_names(["2"], 3)
    (['A', 'B', 'C'], ['0', '1', '2'])
    """
    letters = [chr(ord("A") + number) for number in range(num_choices)]
    found = set(labels)
    return letters if found and found <= set(letters) else [str(number) for number in range(num_choices)]


def right_choices(labels: Sequence[str], names: Sequence[str], source: str) -> list[int]:
    """Returns the number of the right choice for each label. Raises `InputError` if one is not among `names`."""
    numbers = {name: number for number, name in enumerate(names)}
    for number, label in enumerate(labels, start=1):
        if label not in numbers:
            raise InputError(
                f"{source}: the answer {label!r} of example {number} is none of the choices, which are called "
                f"{', '.join(names)}. If they have other names, give these in order: --labels=1,2,..."
            )
    return [numbers[label] for label in labels]


def choice_rows(
    prompts: Sequence[str], choices: Sequence[Sequence[str]], tokenizer, max_seq_length: int
) -> tuple[TokenRows, np.ndarray]:
    """Makes a row [CLS] prompt [SEP] choice [SEP] of every choice, C for each of N prompts.

    Returns the rows, and bool (N,), true for examples with a row that was cut, see `join_segments`. The tokenizer is a
    `GraphForm` or a `PythonForm`.
    """
    num_choices = len(choices[0])
    first = (prompt for prompt in prompts for _ in range(num_choices))
    second = (choice for its_choices in choices for choice in its_choices)
    rows, is_cut, _ = text_rows(first, second, tokenizer, max_seq_length)
    rows = dataclasses.replace(rows, rows_per_example=num_choices)
    return rows, is_cut.reshape(len(prompts), num_choices).any(axis=1)
