"""`text_features`: texts as the features of a model, for scripts that call, train or wrap the model themselves."""

from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import as_texts
from keras_bert.records import features
from keras_bert.tasks.base import TextTask, text_task
from keras_bert.tasks.examples import TextExamples, complete_examples


def text_features(
    model: Any, x: Any, y: Any = None, *, max_seq_length: int | None = None, width: int | None = None
) -> dict[str, np.ndarray]:
    """Returns texts, and their labels, as features, which models, `train_on_batch` and `fit` take.

    Args:
        model: an encoder, or a task model, with a vocabulary.
        x: for an encoder N texts, or a tuple of N texts and N second texts; for a task model the texts that its `fit`
            takes.
        y: the labels of these texts, as for `fit` of the task model; None for an encoder.
        max_seq_length: longer texts are cut; by default to the number of the model's positions.
        width: the number S of columns; by default that of the longest row.

    Returns:
        name -> int32 `[N, S]`: `input_ids`, `input_mask` and, if the model takes them, `segment_ids`. With labels also
        what the loss of the model reads, such as `label_ids`. Texts that become several windows have several rows.

    Raises:
        InputError: the texts or labels do not fit the model, or `width` is smaller than a row.
    """
    if hasattr(model, "task_class"):
        task = text_task(model)
        rows = task.rows(complete_examples(task, x, y), max_seq_length).rows
    elif not hasattr(model, "tokenizer"):
        raise InputError(f"A {type(model).__name__} has no vocabulary. Give the encoder that is a part of it.")
    elif y is not None:
        raise InputError(f"A {type(model).__name__} has no labels. Leave y out: your own model takes the labels.")
    else:
        columns = x if isinstance(x, tuple) else (x,)
        if len(columns) not in (1, 2):
            raise InputError(
                f"An encoder takes texts, or a tuple (texts, second_texts). Received: {len(columns)} columns"
            )
        first, *second = map(as_texts, columns)
        examples = TextExamples(first, second[0] if second else None, may_be_empty=True)
        rows = TextTask(model).text_rows(examples.texts, examples.second_texts, max_seq_length).rows
    longest = int(rows.lengths.max())
    if width is not None:
        model.config.check_sequence_length(check_whole("width", width, at_least=longest))
    found = rows.padded(longest if width is None else width)
    return {name: values for name, values in found.items() if name != features.SEGMENT_IDS or model.takes_segments}
