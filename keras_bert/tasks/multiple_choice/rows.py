"""Encodes prompts with choices as token rows, one for each choice."""

from collections.abc import Sequence

import numpy as np

from keras_bert.tasks.classification.rows import encode_texts


def encode_choices(
    prompts: Sequence[str], choices: Sequence[Sequence[str]], tokenizer, max_seq_length: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Encodes every choice as a row [CLS] prompt [SEP] choice [SEP].

    Args:
        prompts: N strings.
        choices: N lists of C strings each.
        tokenizer: a `GraphForm` or a `PythonForm`.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, int32 (N, C, max_seq_length); and bool (N,), true for examples
        with a row that was cut.
    """
    num_choices = len(choices[0])
    first = [prompt for prompt in prompts for _ in range(num_choices)]
    second = [choice for its_choices in choices for choice in its_choices]
    rows, is_cut = encode_texts(first, second, tokenizer, max_seq_length)
    rows = {name: values.reshape(len(prompts), num_choices, max_seq_length) for name, values in rows.items()}
    return rows, is_cut.reshape(len(prompts), num_choices).any(axis=1)
