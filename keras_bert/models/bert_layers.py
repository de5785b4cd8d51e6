"""The layers of BERT made from a config: what encoders and the decoder are built of."""

from collections.abc import Callable
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.layers.embeddings import BertEmbeddings
from keras_bert.layers.transformer_block import TransformerBlock


def make_embeddings(
    config: BertConfig,
    dtype: Any,
    tables_of: Any = None,
    embeddings_class: type[BertEmbeddings] = BertEmbeddings,
    has_positions: bool = True,
) -> BertEmbeddings:
    """Returns the embeddings of a config, not yet built."""
    return embeddings_class(
        vocab_size=config.vocab_size,
        hidden_size=config.embedding_size,
        max_positions=config.max_position_embeddings if has_positions else 0,
        num_segments=config.type_vocab_size,
        dropout=config.hidden_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        projected_size=config.hidden_size if config.embedding_projection else None,
        tables_of=tables_of,
        dtype=dtype,
        name="embeddings",
    )


def make_block(
    config: BertConfig, dtype: Any, name: str, block_class: Callable = TransformerBlock, **arguments: Any
) -> Any:
    """Returns a block of a config, not yet built. `arguments` are those that its class has in addition."""
    return block_class(
        num_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        activation=config.hidden_act,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        dtype=dtype,
        name=name,
        **arguments,
    )


def in_order(blocks: list, config: BertConfig) -> list:
    """Returns blocks in the order of computation. If layers share weights, blocks are repeated."""
    layers_of_a_group = config.num_hidden_layers // (config.num_hidden_groups or config.num_hidden_layers)
    groups = [blocks[first : first + config.inner_group_num] for first in range(0, len(blocks), config.inner_group_num)]
    return [block for group in groups for _ in range(layers_of_a_group) for block in group]
