"""Makes token rows of prompts with choices, one for each choice."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.text_rows import text_rows


def choice_rows(
    prompts: Sequence[str], choices: Sequence[Sequence[str]], tokenizer, max_seq_length: int
) -> tuple[TokenRows, np.ndarray]:
    """Makes a row [CLS] prompt [SEP] choice [SEP] of every choice.

    Args:
        prompts: N strings.
        choices: N lists of C strings each.
        tokenizer: a `GraphForm` or a `PythonForm`.
        max_seq_length: longer rows are cut, see `join_segments`.

    Returns:
        N examples of C rows; and bool (N,), true for examples with a row that was cut.
    """
    num_choices = len(choices[0])
    first = (prompt for prompt in prompts for _ in range(num_choices))
    second = (choice for its_choices in choices for choice in its_choices)
    rows, is_cut, _ = text_rows(first, second, tokenizer, max_seq_length)
    rows = dataclasses.replace(rows, rows_per_example=num_choices)
    return rows, is_cut.reshape(len(prompts), num_choices).any(axis=1)
