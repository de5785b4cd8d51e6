"""Builds KerasHub's encoder with random weights, in the shape of one of our configs."""

from collections.abc import Mapping


def backbone_of(config: Mapping, dropout: float):
    """Returns a `BertBackbone`; `config` is a result of `BertConfig.to_dict`."""
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        dropout=dropout,
        max_sequence_length=config["max_position_embeddings"],
    )
