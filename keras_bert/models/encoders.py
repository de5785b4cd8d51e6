"""Selects the encoder class that computes a model family."""

from typing import Any

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.registry import imported


def encoder_class(config: BertConfig) -> type:
    """Returns the encoder class of the config's family, see `registry.Family.encoder`."""
    return imported(config.family.encoder)


def make_encoder(config: BertConfig, tables_of: Any = None, **arguments):
    """Returns a new `Encoder` of the config's family.

    Args:
        config: the config.
        tables_of: as for `BertEncoder`. Other encoders than those do not take it.
        **arguments: keyword arguments of the encoder class, such as `dtype` and `name`.
    """
    if config.is_language_model:
        raise InputError(
            "A Transformer-XL reads a text from left to right, so it is no encoder for tasks. Use "
            "TransformerXL.from_pretrained, or a checkpoint of another family."
        )
    shared = {} if tables_of is None else {"tables_of": tables_of}
    return encoder_class(config)(config, **shared, **arguments)
