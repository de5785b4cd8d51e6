"""How a `TextToText` starts from the checkpoint of an encoder."""

from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import CROSS_ATTENTION, DECODER, ENCODER, BertCheckpoint, part_of


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
