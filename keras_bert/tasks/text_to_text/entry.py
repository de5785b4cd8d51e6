"""The entry of `TextToText`, see `registry.py`, and how it starts from a checkpoint."""

from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import CROSS_ATTENTION, DECODER, ENCODER, BertCheckpoint, part_of
from keras_bert.registry import Export, Head, Task
from keras_bert.tasks.masked_lm.entry import MASKED_LM_HEAD

TEXT_TO_TEXT = Task(
    model="keras_bert.tasks.text_to_text.model.TextToText",
    heads=(Head(form.CROSS_ATTENTION), MASKED_LM_HEAD),
    text_task="keras_bert.tasks.text_to_text.task.TextToTextTask",
    start="keras_bert.tasks.text_to_text.entry.start",
    export=Export(
        signatures="keras_bert.tasks.text_to_text.signatures.text_to_text_signatures",
        outputs=lambda model: dict.fromkeys(("texts", "scores"), ("batch", "alternatives")),
        options=("num_beams", "max_new_tokens", "length_penalty", "num_answers"),
        answers="keras_bert.tasks.text_to_text.answers.written_texts",
    ),
    hub_task="text2text-generation",
    example='model.predict(["a text"])',
)


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the arguments, and the checkpoint of an encoder with a copy of its embeddings and blocks as decoder."""
    if arguments.get("shared") or {DECODER, CROSS_ATTENTION} & set(checkpoint.heads):
        return dict(arguments), checkpoint
    copied = {
        f"{DECODER}{name.removeprefix(ENCODER)}": tensor
        for name, tensor in checkpoint.tensors.items()
        if part_of(name) == ENCODER
    }
    return dict(arguments), checkpoint.replace(tensors={**checkpoint.tensors, **copied})
