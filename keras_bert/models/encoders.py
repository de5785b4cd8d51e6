"""Selects the encoder class that computes a model family."""

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.registry import imported


def encoder_class(config: BertConfig) -> type:
    """Returns the encoder class of the config's family, see `registry.Family.encoder`."""
    return imported(config.family.encoder)


def make_encoder(config: BertConfig, **arguments):
    """Returns a new `Encoder` of the config's family.

    Args:
        config: the config.
        **arguments: keyword arguments of the encoder class, such as `dtype` and `name`.
    """
    if config.is_language_model:
        raise InputError(
            "A Transformer-XL reads a text from left to right, so it is no encoder for tasks. Use "
            "TransformerXL.from_pretrained, or a checkpoint of another family."
        )
    return encoder_class(config)(config, **arguments)
