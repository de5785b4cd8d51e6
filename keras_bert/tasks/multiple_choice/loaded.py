"""What a loaded export of a `MultipleChoice` can do beside answering texts."""

from typing import Any, ClassVar

import numpy as np

from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.multiple_choice.answers import choice_arrays, texts_of
from keras_bert.tasks.multiple_choice.rows import choice_rows


class LoadedMultipleChoice:
    """Methods of loaded exports of a `MultipleChoice`."""

    served_inputs: ClassVar = {"prompt": (), "choices": (None,)}
    served_outputs: ClassVar = {"choice": (-1,), "text": ("",), "probability": (0.0,), "probabilities": (0.0, None)}

    def serve(self, prompt: list[str], choices: list[list[str]]) -> dict[str, Any]:
        """See `AnswerSignature`. As in a SavedModel, "" and repetitions of the first choice at the end do not count."""
        task, counts = text_task(self), np.array(list(map(_count, choices)))
        rows, _ = choice_rows(prompt, choices, task.tokenizer, self.max_seq_length)
        logits = task.outputs(rows, verbose=0).astype(np.float64)
        arrays = choice_arrays(logits, np.arange(len(choices[0])) < counts[:, None])
        return {**arrays, "text": texts_of(arrays["choice"], choices)}


def _count(choices: list[str]) -> int:
    counted = (number for number, text in enumerate(choices, 1) if text and (number == 1 or text != choices[0]))
    return max(counted, default=0)
