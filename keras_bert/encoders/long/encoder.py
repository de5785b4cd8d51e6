"""`LongEncoder`: the encoder of Longformer and BigBird, whose time and memory grow linearly with the length of rows."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.encoders.long.block_attention import SparseBlock, WindowBlock
from keras_bert.encoders.long.block_patterns import sparse_blocks, windows
from keras_bert.encoders.long.config import LongConfig
from keras_bert.layers.numbered_mask import without_left_padding
from keras_bert.models.encoder_base import FIRST_TEXT, FIRST_TOKEN, POOLED_OUTPUT, SEGMENTS, Tokens
from keras_bert.program.errors import InputError
from keras_bert.records import features


@keras.saving.register_keras_serializable(package="keras_bert")
class LongEncoder(BertEncoder):
    """A `BertEncoder` with attention between blocks of a row instead of between all pairs of its tokens.

    Longformer: each token attends to a window around it and to the global tokens, which attend to all tokens. BigBird:
    each block of tokens attends to a few other blocks. Its random blocks follow from the config, so a model gives the
    same answers everywhere. Rows of at most `config.most_full_blocks` blocks have full attention. Padding after a row
    does not change its vectors; in transformers, more than a block of padding does.

    Args:
        config: a `LongConfig`.
        **arguments: those of `BertEncoder`, without `output_attentions`, which would need a score for each pair.

    Call arguments:
        inputs: as for `BertEncoder`, without `cls_positions`, and with one more optional feature of Longformer:
            `global_mask`, int `[B, S]`: 1 for global tokens. By default `global_tokens` selects them. Only
            the first `config.max_global_tokens` of a row are global.
        training: whether to apply dropout.

    Raises:
        InputError: rows are packed, or `global_mask` does not fit.

    Reference: Beltagy et al., 2020, arXiv 2004.05150; Zaheer et al., 2020, arXiv 2007.14062.
    """

    supports = (SEGMENTS, POOLED_OUTPUT)

    no_attentions = "it computes no score for most pairs of tokens"

    def __init__(self, config: LongConfig, **arguments):
        self.block_class = WindowBlock if config.has_windows else SparseBlock
        super().__init__(config, **arguments)

    def positions_of(self, input_mask):
        positions = ops.zeros_like(input_mask) + ops.arange(ops.shape(input_mask)[1], dtype="int32")
        return without_left_padding(positions, input_mask) if self.config.position_offset else positions

    def _check_inputs(self, inputs) -> None:
        super()._check_inputs(inputs)
        mask, is_global = (inputs.get(name) for name in (features.INPUT_MASK, features.GLOBAL_MASK))
        if features.CLS_POSITIONS in inputs or (isinstance(mask, np.ndarray) and mask.max(initial=0) > 1):
            raise InputError(
                f"{self.config.model_type} cannot take packed rows (cls_positions, or numbers above 1 in input_mask). "
                "Make records with one sequence in each row."
            )
        if is_global is None:
            return
        if not self.config.has_windows:
            raise InputError(
                f"{self.config.model_type} takes no {features.GLOBAL_MASK}: its first and last block are global."
            )
        expected, received = (tuple(inputs[name].shape) for name in (features.INPUT_IDS, features.GLOBAL_MASK))
        if expected != received:
            raise InputError(
                f"{features.GLOBAL_MASK} must have the shape of {features.INPUT_IDS}, {list(expected)}. Received: "
                f"{list(received)}"
            )
        most = self.config.max_global_tokens
        if isinstance(is_global, np.ndarray) and (is_global != 0).sum(axis=-1).max(initial=0) > most:
            raise InputError(
                f"{features.GLOBAL_MASK} has {(is_global != 0).sum(axis=-1).max()} global tokens in a row, more than "
                f"max_global_tokens={most} of the config. Mark fewer, or raise max_global_tokens."
            )

    def read(self, inputs) -> "LongTokens":
        tokens = super().read(inputs)
        is_full = self.config.has_full_attention(tokens.ids.shape[1])
        is_token = None if is_full else ops.not_equal(tokens.sequences, 0)
        if not self.config.has_windows:
            return LongTokens(**vars(tokens), is_token=is_token)
        given, most = inputs.get(features.GLOBAL_MASK), self.config.max_global_tokens
        if given is not None:
            is_global = ops.not_equal(given, 0)
        else:
            is_global = self._global_by_default(tokens.ids)
            most = 1 if self.global_tokens == FIRST_TOKEN else most
        return LongTokens(**vars(tokens), is_token=is_token, is_global=is_global, most_global=most)

    def _global_by_default(self, ids):
        """Returns the global tokens that `global_tokens` selects: int `[B, S]` -> bool `[B, S]`."""
        columns = ops.expand_dims(ops.arange(ops.shape(ids)[1], dtype="int32"), 0)
        if self.global_tokens == FIRST_TOKEN:
            return ops.logical_or(ops.zeros_like(ids, dtype="bool"), ops.equal(columns, 0))
        is_separator = ops.cast(ops.equal(ids, self.config.sep_token_id), "int32")
        seen = ops.cumsum(is_separator, axis=1)
        if self.global_tokens == FIRST_TEXT:
            return ops.logical_and(ops.equal(seen, 0), ops.sum(is_separator, axis=1, keepdims=True) > 0)
        return seen - is_separator >= 2  # after the two separators between the texts

    def block_kinds(self, tokens):
        if tokens.is_token is None:
            return super().block_kinds(tokens)
        return self.config.windows if self.config.has_windows else range(self.config.num_hidden_layers)

    def block_inputs(self, tokens, kind, query_columns=None, training=False) -> tuple:
        """Returns the pattern of a block, or the bias of full attention. A kind is the width of a window in Longformer,
        and the number of a layer in BigBird."""
        config = self.config
        if tokens.is_token is None:
            return super().block_inputs(tokens, kind, query_columns)
        if config.has_windows:
            return (windows(tokens.is_token, tokens.is_global, kind // 2, tokens.most_global),)
        most_blocks = config.max_position_embeddings // config.block_size
        heads, random = config.num_attention_heads, config.num_random_blocks
        return (sparse_blocks(tokens.is_token, kind, heads, config.block_size, random, most_blocks),)

    def takes_query_columns(self, tokens) -> bool:
        return tokens.is_token is None


@dataclasses.dataclass(frozen=True, eq=False)
class LongTokens(Tokens):
    """The inputs of a `LongEncoder`."""

    is_token: Any  # bool `[B, S]`, false for padding; None for rows with full attention
    is_global: Any = None  # bool `[B, S]`, the global tokens of Longformer; None in BigBird
    most_global: int = 0  # the largest number of global tokens in a row
