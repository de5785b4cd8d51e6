"""The objectives of pre-training: which model a run trains."""

import importlib

from keras_bert.program.errors import InputError

# Name -> import path of the pre-trainer. Its attribute `masking` has its options for records without masks.
OBJECTIVES = {
    "masked_lm": "keras_bert.tasks.pretraining.pretrainer.BertPretrainer",
    "span_boundary": "keras_bert.tasks.pretraining.span_pretrainer.SpanPretrainer",
    "replaced_tokens": "keras_bert.tasks.pretraining.electra_pretrainer.ElectraPretrainer",
}
DEFAULT_OBJECTIVE = "masked_lm"


def pretrainer_class(objective: str) -> type:
    """Returns the model class of an objective. Raises `InputError` if its name is unknown."""
    if objective not in OBJECTIVES:
        raise InputError(f"Unknown objective {objective!r}. Use one of: {', '.join(OBJECTIVES)}")
    module, name = OBJECTIVES[objective].rsplit(".", 1)
    return getattr(importlib.import_module(module), name)
