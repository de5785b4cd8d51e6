"""How an `ElectraPretrainer` starts from the checkpoint of a masked LM."""

from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import GENERATOR, MASKED_LM, BertCheckpoint
from keras_bert.tasks.pretraining.electra_pretrainer import generator_config


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the arguments, and the checkpoint with its own masked LM as the generator of an ELECTRA of equal size."""
    is_start = checkpoint.model_class is not model_class
    sizes = [arguments.get(name, 0) for name in ("generator_hidden_size", "generator_layers")]
    if not (is_start and MASKED_LM in checkpoint.heads and sizes[0] == 1):
        return dict(arguments), checkpoint
    config = checkpoint.config
    if generator_config(config, sizes[0], sizes[1] or 1) != config:
        return dict(arguments), checkpoint
    copied = {f"{GENERATOR}/{name}": tensor for name, tensor in checkpoint.tensors.items()}
    return dict(arguments), checkpoint.replace(tensors={**checkpoint.tensors, **copied})
