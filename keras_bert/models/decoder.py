"""The decoder: blocks of an encoder with a causal mask, each followed by attention to a source."""

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.cross_attention import CrossAttention
from keras_bert.layers.numbered_mask import MASKED
from keras_bert.models.bert_layers import in_order, make_block, make_embeddings


class DecoderLayers(keras.layers.Layer):
    """Embeddings and blocks with the names and shapes of a `BertEncoder`'s, for a decoder with weights of its own."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.embeddings = make_embeddings(config, self.dtype_policy)
        self.blocks = [make_block(config, self.dtype_policy, f"layer_{index}") for index in range(config.num_blocks)]
        self._config = config

    def build(self, input_shape=None):
        self.embeddings.build((None, None), (None, None), (None, None))
        for block in self.blocks:
            block.build((None, None, self._config.hidden_size))


class CrossAttentions(keras.layers.Layer):
    """A `CrossAttention` for each block."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [
            CrossAttention(
                num_heads=config.num_attention_heads,
                dropout=config.hidden_dropout_prob,
                attention_dropout=config.attention_probs_dropout_prob,
                layer_norm_epsilon=config.layer_norm_eps,
                initializer_range=config.initializer_range,
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(config.num_blocks)
        ]
        self._width = config.hidden_size

    def build(self, input_shape=None):
        for block in self.blocks:
            block.build((None, None, self._width))


class Decoder:
    """Computes vectors of target tokens, all at once or token by token with a cache; both give the same vectors.

    `layers` are `DecoderLayers`, or a `BertEncoder` whose weights the decoder shares.
    """

    def __init__(self, config: BertConfig, layers, cross_attentions: CrossAttentions):
        self.config = config
        self.embeddings = layers.embeddings
        blocks, cross = in_order(layers.blocks, config), in_order(cross_attentions.blocks, config)
        self.pairs = list(zip(blocks, cross, strict=True))

    def vectors(self, target_ids, source, source_mask, training=False):
        """Returns the vectors of all tokens of a target, `[B, T, H]`, each computed from the tokens up to itself.

        Args:
            target_ids: int `[B, T]`.
            source: float `[B, S, H]`, the encoder's vectors.
            source_mask: int `[B, S]`, 0 for padding.
        """
        columns = ops.arange(ops.shape(target_ids)[1], dtype="int32")
        hidden = self._embed(target_ids, columns + ops.zeros_like(ops.cast(target_ids, "int32")), training)
        causal = _bias(ops.expand_dims(columns, 0) <= ops.expand_dims(columns, 1))[None, None]  # [1, 1, T, T]
        causal = causal + ops.zeros((ops.shape(target_ids)[0], 1, 1, 1), causal.dtype)  # blocks read B from the bias
        source_bias = self.source_bias(source_mask)
        for block, cross in self.pairs:
            attended = block.attention(hidden, causal, training=training)
            hidden = block.after_attention(hidden, attended, training=training)
            hidden = cross(hidden, source, source_bias, training=training)
            hidden = block.feed_forward(hidden, training=training)
        return hidden

    def source_bias(self, source_mask):
        """Returns 0 for tokens and a large negative number for padding: int `[B, S]` -> `[B, 1, 1, S]`."""
        return _bias(ops.not_equal(source_mask, 0))[:, None, None, :]

    def read_source(self, source) -> list:
        """Returns the keys and values of the source in every layer: pairs of `[B, N, S, D]`."""
        return [cross.attention.keys_and_values(source) for _, cross in self.pairs]

    def empty_cache(self, num_rows, length: int) -> list:
        """Returns the cache for targets of `length` tokens: a pair of zeros `[R, N, length, D]` for every layer."""
        config = self.config
        shape = (num_rows, config.num_attention_heads, length, config.hidden_size // config.num_attention_heads)
        dtype = self.pairs[0][0].compute_dtype
        return [(ops.zeros(shape, dtype), ops.zeros(shape, dtype)) for _ in self.pairs]

    def step(self, ids, column, cache: list, sources: list, source_bias):
        """Computes the vectors of the tokens in one column, whose earlier columns are in the cache.

        Args:
            ids: int `[B, K]`, the tokens of K targets for each of B sources.
            column: int scalar, their column, from 0.
            cache: what `empty_cache(B * K, length)` or the step before returned.
            sources, source_bias: what `read_source` and `source_bias` returned for B sources.

        Returns:
            `[B, K, H]`, and the cache with this column.
        """
        width = self.config.hidden_size
        num_rows, num_targets = ops.shape(ids)
        hidden = self._embed(ids, ops.zeros_like(ids) + column)
        columns = ops.arange(cache[0][0].shape[2], dtype="int32")
        is_column, bias = ops.equal(columns, column)[:, None], _bias(columns <= column)[None, None, None]
        new_cache = []
        for (block, cross), (keys, values), source in zip(self.pairs, cache, sources, strict=True):
            hidden = ops.reshape(hidden, (-1, 1, width))  # [B * K, 1, H]: every target has keys of its own
            key, value = block.attention.keys_and_values(hidden)
            keys, values = ops.where(is_column, key, keys), ops.where(is_column, value, values)
            new_cache.append((keys, values))
            hidden = block.after_attention(hidden, block.attention.attend_to(hidden, keys, values, bias))
            hidden = ops.reshape(hidden, (num_rows, num_targets, width))  # the K targets read the same source
            hidden = block.feed_forward(cross.attend_to(hidden, *source, source_bias))
        return hidden, new_cache

    def _embed(self, ids, positions, training=False):
        positions = positions + self.config.position_offset
        return self.embeddings(ids, positions, ops.zeros_like(ids), training=training)


def _bias(is_allowed):
    """Returns 0 where it is allowed and a large negative number elsewhere, float32."""
    return (1.0 - ops.cast(is_allowed, "float32")) * MASKED
