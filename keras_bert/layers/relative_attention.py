"""Self-attention with relative positions, segments and a memory, and the layer of XLNet and Transformer-XL with it."""

import keras
import numpy as np
from keras import ops

from keras_bert.layers import formulas
from keras_bert.layers.attention import SelfAttention, products_of_heads
from keras_bert.layers.choosing import formulas_for
from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.transformer_block import TransformerBlock


def distance_vectors(num_keys, length, hidden_size: int, longest: int | None = None, dtype="float32"):
    """Returns the vectors of all distances between a query and a key: the sines, then the cosines.

    Row t belongs to the distance `num_keys - t`: how many columns the key is before the query. Component i of the sines
    has the wavelength `2 pi * 10000 ** (2 i / H)`.

    Args:
        num_keys: number of keys: memory and row, an int or an int32 scalar.
        length: number of tokens of the row, likewise.
        hidden_size: H, an even number.
        longest: longer distances are shortened to this one; None: no limit.
        dtype: dtype of the result.

    Returns:
        `[num_keys + length, H]`.

    Reference: Dai et al., 2019, arXiv 1901.02860, section 3.3; zihangdai/xlnet `modeling.py`,
    `relative_positional_encoding`.
    """
    distances = ops.cast(num_keys, "int32") - ops.arange(num_keys + length, dtype="int32")
    if longest is not None:
        distances = ops.clip(distances, -longest, longest)
    frequencies = 1 / np.power(10_000.0, np.arange(0, hidden_size, 2) / hidden_size)
    angles = ops.expand_dims(ops.cast(distances, dtype), 1) * ops.convert_to_tensor(frequencies.astype(dtype))
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)


def shift_to_keys(scores, num_keys):
    """Returns the score of every query with every key, from its scores with every distance.

    Query i stands at key `K - S + i`, so its score with key j is that of row `S - i + j` of `distance_vectors`. Rows
    are shifted by reading the same numbers with another row length; nothing is gathered.

    Args:
        scores: `[B, N, S, K + S]`.
        num_keys: K, an int or an int32 scalar.

    Returns:
        `[B, N, S, K]`.

    Example, with S = 2 and K = 2:
        [[a, b, c, d],      [[c, d],
         [e, f, g, h]]  ->   [f, g]]

    Reference: Dai et al., 2019, appendix B.
    """
    batch_size, num_heads, length, num_distances = ops.shape(scores)
    rows = ops.reshape(scores, (batch_size, num_heads, num_distances, length))[:, :, 1:]
    return ops.reshape(rows, (batch_size, num_heads, length, num_distances - 1))[..., :num_keys]


@keras.saving.register_keras_serializable(package="keras_bert")
class RelativeAttention(SelfAttention):
    """Multi-head self-attention that adds scores for the distance of two tokens and for a change of the segment.

    The score of a query q and a key k is the sum of three products, each with a bias u of its own on q: `(q + u) k`,
    `(q + u) d` for the projected vector d of their distance, and `(q + u) s` if the two tokens have different segments.
    No dense layer has a bias.

    Args:
        num_heads, dropout, initializer_range: as for `SelfAttention`.
        uses_segments: whether there is the third product; Transformer-XL has the first two.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, K]` or `[B, 1, 1, K]`, for K = M + S keys: the memory, then the row.
        distances: float `[K + S, H]`, see `distance_vectors`.
        is_other_segment: float `[B, 1, F, K]`, 1 where query and key have different segments, else 0; None without
            segments.
        memory: float `[B, M, H]`: inputs of this layer for the tokens before the row. It gets no gradient.
        query_columns: int `[B, F]`, the columns where the query tokens stand; needed with `query_tokens`.
        flat_indices, query_tokens, training, return_attention, and what is returned: as for `SelfAttention`.

    Reference: Dai et al., 2019, arXiv 1901.02860, section 3.3; Yang et al., 2019, arXiv 1906.08237, section 2.5.
    """

    def __init__(self, num_heads, dropout=0.1, initializer_range=0.02, uses_segments=True, **kwargs):
        super().__init__(num_heads, dropout, initializer_range, **kwargs)
        self.uses_segments = uses_segments

    def build(self, hidden_shape, *other_shapes):
        self._set_sizes(hidden_shape[-1])
        for name in ("query", "key", "value", "distance", "output_dense"):
            self._add_dense(name, use_bias=False)
        heads = (self.num_heads, self.head_size)
        self.content_bias = self.new_weight("content_bias", heads)
        self.distance_bias = self.new_weight("distance_bias", heads)
        if self.uses_segments:
            self.segment_bias = self.new_weight("segment_bias", heads)
            # For equal segments, then for different ones.
            self.segment_embeddings = self.new_weight("segment_embeddings", (2, *heads))

    def call(
        self,
        hidden,
        attention_bias,
        distances,
        is_other_segment,
        memory=None,
        query_columns=None,
        flat_indices=None,
        query_tokens=None,
        training=False,
        return_attention=False,
    ):
        # B = batch, F = query tokens, S = row, K = keys, H = hidden size, N = number of heads, D = head size
        batch_size, _, _, num_keys = ops.shape(attention_bias)
        length = ops.shape(hidden)[1]
        query_tokens = hidden if query_tokens is None else query_tokens
        num_queries = ops.shape(query_tokens)[1]
        keys = hidden if memory is None else ops.concatenate([ops.stop_gradient(memory), hidden], axis=1)
        keys = ops.reshape(keys, (-1, self.hidden_size))  # [B * K, H]
        query = self.query(ops.reshape(query_tokens, (-1, self.hidden_size)))
        query = self._split(query * self.head_size**-0.5, batch_size, num_queries, training)  # [B, N, F, D]
        key = self._split(self.key(keys), batch_size, num_keys, training)  # [B, N, K, D]
        value = self._split(self.value(keys), batch_size, num_keys, training)

        distance = ops.reshape(self.distance(ops.cast(distances, self.compute_dtype)), (-1, *self.content_bias.shape))
        rows = ops.transpose(distance, (1, 2, 0))  # [N, D, K + S]
        scores = products_of_heads(query + self._scaled(self.distance_bias), rows)
        if query_columns is None:
            scores = shift_to_keys(scores, num_keys)
        else:
            first = length - ops.expand_dims(ops.cast(query_columns, "int32"), (1, 3))  # [B, 1, F, 1]
            scores = ops.take_along_axis(scores, first + ops.arange(num_keys, dtype="int32"), axis=3)
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        bias = ops.cast(scores, dtype)
        if self.uses_segments:
            bias = bias + self._score_of_change(query, dtype) * ops.cast(is_other_segment, dtype)
        bias = bias + ops.cast(attention_bias, dtype)

        query = query + self._scaled(self.content_bias)
        sizes = (batch_size, self.num_heads, num_queries, num_keys)
        gathered, probabilities = self._attend(query, key, value, bias, sizes, training, return_attention)
        shape = (batch_size, num_queries, self.hidden_size)
        output = self._project(gathered, sizes, shape, flat_indices, training)
        return (output, probabilities) if return_attention else output

    def _score_of_change(self, query, dtype):
        """Returns what a change of the segment adds to the scores of a query: `[B, N, F, D]` -> `[B, N, F, 1]`."""
        # The same number for all keys would change nothing, so only the difference of the two products is added.
        same, other = ops.split(ops.convert_to_tensor(self.segment_embeddings), 2)
        change = ops.cast(ops.expand_dims((other - same)[0], 2), self.compute_dtype)  # [N, D, 1]
        return ops.cast(products_of_heads(query + self._scaled(self.segment_bias), change), dtype)

    def _scaled(self, bias):
        """Returns a bias of the queries, scaled as these are: `[N, D]` -> `[N, 1, D]`."""
        return ops.expand_dims(ops.cast(bias, self.compute_dtype) * self.head_size**-0.5, 1)

    def _attend(self, query, key, value, bias, sizes, training, return_attention):
        dropout = ()
        if training and self.dropout.rate:
            dropout = formulas_for(training).draw_kept(sizes, self.dropout.rate, self.dropout.seed_generator)
        # The kernels give no gradient to the bias, which has the scores of distances here.
        outputs = formulas.attention(query, key, value, bias, *dropout, return_probabilities=return_attention)
        return outputs if return_attention else (outputs, None)


@keras.saving.register_keras_serializable(package="keras_bert")
class RelativeBlock(TransformerBlock):
    """A `TransformerBlock` with `RelativeAttention`, and with dropout between the two dense layers too.

    Args:
        uses_segments: as for `RelativeAttention`.
        others: as for `TransformerBlock`.

    Call arguments:
        hidden, attention_bias, distances, is_other_segment, memory, query_columns, query_tokens: as for
            `RelativeAttention`. Only the vectors of the query tokens are returned.
        flat_indices, training, return_attention, and what is returned: as for `TransformerBlock`.

    Reference: Dai et al., 2019, arXiv 1901.02860, section 3.3; Yang et al., 2019, arXiv 1906.08237; zihangdai/xlnet
    `modeling.py`, `two_stream_rel_attn`, `rel_multihead_attn` and `positionwise_ffn`.
    """

    attention_class = RelativeAttention
    compute_output_shape = RelativeAttention.compute_output_shape

    def __init__(self, *sizes, uses_segments=True, **kwargs):
        super().__init__(*sizes, **kwargs)
        self.uses_segments = self.attention.uses_segments = uses_segments

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        layers = super().dense_layers()
        query, key, value, output = layers["attention"]
        return {**layers, "attention": (query, key, value, self.attention.distance, output)}

    def call(
        self,
        hidden,
        attention_bias,
        distances,
        is_other_segment,
        memory=None,
        query_columns=None,
        flat_indices=None,
        query_tokens=None,
        training=False,
        return_attention=False,
    ):
        attended = self.attention(
            hidden,
            attention_bias,
            distances,
            is_other_segment,
            memory=memory,
            query_columns=query_columns,
            flat_indices=flat_indices,
            query_tokens=query_tokens,
            training=training,
            return_attention=return_attention,
        )
        attended, probabilities = attended if return_attention else (attended, None)
        vectors = hidden if query_tokens is None else query_tokens
        if flat_indices is not None:
            vectors = vectors_at_flat(vectors, flat_indices)
        vectors = self.attention_layer_norm(vectors + self.dropout(attended, training=training), training=training)
        # Two dimensions, as in SelfAttention.
        flat = ops.reshape(vectors, (-1, self.hidden_size))
        inner = self.dropout(self.intermediate_dense(flat, training=training), training=training)
        outer = self.dropout(self.output_dense(inner), training=training)
        output = ops.reshape(self.output_layer_norm(flat + outer, training=training), ops.shape(vectors))
        return (output, probabilities) if return_attention else output
