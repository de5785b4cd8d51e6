"""How an `ElectraPretrainer` starts from the checkpoint of another model."""

from collections.abc import Mapping

import numpy as np

from keras_bert.checkpoints.checkpoint import GENERATOR, MASKED_LM, TOKEN_DIFFERENCE, TOKEN_EMBEDDINGS, BertCheckpoint
from keras_bert.models.encoder_base import encoder_class
from keras_bert.tasks.pretraining.electra_pretrainer import generator_config


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the arguments, and the checkpoint with its own masked LM as the generator of an ELECTRA of equal size.

    A discriminator that adds to the table of tokens begins with zeros.
    """
    if checkpoint.model_class is model_class:
        return dict(arguments), checkpoint
    tensors, config = dict(checkpoint.tensors), checkpoint.config
    sizes = [arguments.get(name, 0) for name in ("generator_hidden_size", "generator_layers")]
    if MASKED_LM in checkpoint.heads and sizes[0] == 1 and generator_config(config, 1, sizes[1] or 1) == config:
        tensors |= {f"{GENERATOR}/{name}": tensor for name, tensor in tensors.items()}
    if getattr(encoder_class(config), "adds_to_tables", False):
        table = tensors[TOKEN_EMBEDDINGS]
        tensors[TOKEN_DIFFERENCE] = table.changed(table.shape, np.zeros_like)
    return dict(arguments), checkpoint.replace(tensors=tensors)
