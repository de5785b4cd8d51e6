"""What a loaded export of a `MultipleChoice` can do beside answering texts."""

from typing import Any, ClassVar

import numpy as np

from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.multiple_choice.answers import ChoiceAnswer, choice_answers
from keras_bert.tasks.multiple_choice.rows import choice_rows


class LoadedMultipleChoice:
    """Methods of loaded exports of a `MultipleChoice`."""

    served_inputs: ClassVar = {"prompt": (), "choices": (None,)}
    served_outputs: ClassVar = {"choice": (-1,), "text": ("",), "probability": (0.0,), "probabilities": (0.0, None)}

    def serve(self, prompt: list[str], choices: list[list[str]]) -> dict[str, Any]:
        """See `AnswerSignature`. As in a SavedModel, "" and repetitions of the first choice at the end do not count."""
        counts, most = list(map(_count, choices)), len(choices[0])
        logits = np.zeros((len(choices), most))
        if max(counts) > 1:
            task = text_task(self)
            rows, _ = choice_rows(prompt, choices, task.tokenizer, self.max_seq_length)
            logits = task.outputs(rows, verbose=0)
        answers = [
            choice_answers(row[None, :count], [texts])[0] if count else ChoiceAnswer(-1, "", 0.0, ())
            for row, texts, count in zip(logits, choices, counts, strict=True)
        ]
        outputs = {name: [getattr(one, name) for one in answers] for name in self.served_outputs}
        return {**outputs, "probabilities": [[*one, *[0.0] * (most - len(one))] for one in outputs["probabilities"]]}


def _count(choices: list[str]) -> int:
    counted = (number for number, text in enumerate(choices, 1) if text and (number == 1 or text != choices[0]))
    return max(counted, default=0)
