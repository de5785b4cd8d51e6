"""The names of the parts of all tasks, and where they are. Data only: a part is imported when it is asked for."""

import importlib
from collections.abc import Mapping
from typing import Any

# The functions that make the answers of a task from the outputs of a served model; each returns None for other tasks.
SERVED_ANSWERS = (
    "keras_bert.tasks.classification.answers.served_answers",
    "keras_bert.tasks.tagging.answers.served_answers",
    "keras_bert.tasks.question_answering.answers.served_answers",
    "keras_bert.tasks.multiple_choice.answers.served_answers",
    "keras_bert.tasks.masked_lm.answers.served_answers",
    "keras_bert.tasks.text_to_text.answers.served_answers",
    "keras_bert.tasks.embedding.answers.served_answers",
)


def served_answers(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
    """Returns the answers in the outputs of a served model: an answer for each row, as `predict(texts)` returns them.

    Args:
        outputs: the outputs of a signature with answers, such as `serving_default`: arrays `[N, ...]` by name; strings
            may be `bytes` or `str`.
        inputs: what the signature was given, N values by name.

    Returns:
        a list of N objects, an array of N vectors, or None if no task has such outputs.
    """
    for path in SERVED_ANSWERS:
        module, _, name = path.rpartition(".")
        answers = getattr(importlib.import_module(module), name)(outputs, inputs)
        if answers is not None:
            return answers
    return None
