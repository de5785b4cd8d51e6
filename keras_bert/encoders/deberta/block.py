"""A layer of DeBERTa: attention whose scores are of contents and of distances, and a convolution beside it in some."""

from typing import Any

import keras
from keras import ops

from keras_bert.encoders.deberta.config import CONTENT_TO_POSITION, POSITION_TO_CONTENT
from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.attention import SelfAttention, products_of_heads
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.relative_attention import shift_to_keys
from keras_bert.layers.transformer_block import TransformerBlock

# The bias of padding, which attends to all columns alike as in transformers: classifiers there read column 0 also where
# it is padding. With this number, rounding makes all scores equal in float32 and float64.
LOWEST = -1e30
# Types of scores -> the dense layers that the vectors of distances pass for them, if they do not share others.
_OWN_LAYERS = {CONTENT_TO_POSITION: "distance_key", POSITION_TO_CONTENT: "distance_query"}


@keras.saving.register_keras_serializable(package="keras_bert")
class DisentangledAttention(SelfAttention):
    """Multi-head self-attention that adds the products of contents with the vectors of distances to the scores.

    The score of query i and key j is `(q_i k_j + q_i Pk_r + k_j Pq_r) / sqrt(D * (1 + number of types))`. Pk and Pq are
    projections of the vectors of distances, and r is the row of the distance i - j.

    Args:
        num_heads, dropout, initializer_range: as for `SelfAttention`.
        score_types: "c2p" for the second product, "p2c" for the third.
        shares_projections: whether the dense layers of keys and queries make Pk and Pq; otherwise they have their own.
        distance_dropout: fraction of the vectors of distances that become 0 in training.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, S, S]` or `[B, 1, 1, S]`, see `numbered_mask.attention_bias`.
        distance_vectors: float `[R, H]`. It gets a gradient.
        distance_rows: int `[2 S + 1]`, the rows in it of the distances S, S - 1, ..., -S.
        sequences: int32 `[B, S]`, 0 for padding.
        flat_indices, training, return_attention, and what is returned: as for `SelfAttention`.

    Reference: He et al., 2020, arXiv 2006.03654, section 3.1. Here the products are with the rows of distances that
    occur, and are moved to the keys as in Dai et al., 2019, appendix B: nothing of the size of the scores is gathered.
    """

    learns_bias = True

    def __init__(
        self,
        num_heads,
        dropout=0.1,
        initializer_range=0.02,
        score_types=(CONTENT_TO_POSITION, POSITION_TO_CONTENT),
        shares_projections=False,
        distance_dropout=0.1,
        **kwargs,
    ):
        super().__init__(num_heads, dropout, initializer_range, **kwargs)
        self.score_types = tuple(score_types)
        self.shares_projections = shares_projections
        self.distance_dropout = Dropout(distance_dropout, dtype=self.dtype_policy, name="distance_dropout")

    def build(self, hidden_shape, *other_shapes):
        super().build(hidden_shape)
        self.score_scale = (self.head_size * (1 + len(self.score_types))) ** -0.5
        for score_type, name in _OWN_LAYERS.items():
            if score_type in self.score_types and not self.shares_projections:
                self._add_dense(name)

    def distance_layers(self) -> tuple[keras.layers.Dense, ...]:
        """Returns the dense layers for vectors of distances only."""
        return tuple(getattr(self, name) for name in _OWN_LAYERS.values() if hasattr(self, name))

    def call(
        self,
        hidden,
        attention_bias,
        distance_vectors,
        distance_rows,
        sequences,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        # B = batch, S = sequence length, R = rows of distances, H = hidden size, N = number of heads, D = head size
        batch_size, _, _, length = ops.shape(attention_bias)
        sizes = (batch_size, self.num_heads, length, length)
        flat = ops.reshape(hidden, (-1, self.hidden_size))  # [B * S, H]
        query = self._split(self.query(flat) * self.score_scale, batch_size, length, training)  # [B, N, S, D]
        key, value = (self._split(dense(flat), batch_size, length, training) for dense in (self.key, self.value))
        distance_vectors = self.distance_dropout(distance_vectors, training=training)
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        is_token = ops.expand_dims(sequences, (1, 3)) > 0  # [B, 1, S, 1]
        bias = ops.where(is_token, ops.cast(attention_bias, dtype), ops.cast(LOWEST, dtype))
        if CONTENT_TO_POSITION in self.score_types:
            dense = self.key if self.shares_projections else self.distance_key
            rows = self._rows_of_distances(dense(distance_vectors), distance_rows[:-1])
            bias = bias + ops.cast(shift_to_keys(products_of_heads(query, rows), length), dtype)
        if POSITION_TO_CONTENT in self.score_types:
            dense = self.query if self.shares_projections else self.distance_query
            # Seen from the key, distances have the other sign.
            rows = self._rows_of_distances(dense(distance_vectors) * self.score_scale, ops.flip(distance_rows[1:]))
            scores = shift_to_keys(products_of_heads(key, rows), length)  # [B, N, key, query]
            bias = bias + ops.cast(ops.swapaxes(scores, 2, 3), dtype)
        gathered, probabilities = self._attend(query, key, value, bias, sizes, training, return_attention)
        output = self._project(gathered, sizes, ops.shape(hidden), flat_indices, training)
        return (output, probabilities) if return_attention else output

    def _rows_of_distances(self, projected, rows):
        """Returns the projected vectors of distances for each head: `[R, H]`, int `[T]` -> `[N, D, T]`."""
        heads = ops.reshape(vectors_at_flat(projected, rows), (-1, self.num_heads, self.head_size))
        return ops.transpose(heads, (1, 2, 0))


@keras.saving.register_keras_serializable(package="keras_bert")
class DisentangledBlock(TransformerBlock):
    """A `TransformerBlock` with `DisentangledAttention`, and with a `kernel_size` the sum with a convolution:
    `LayerNorm(block(x) + activation(convolution(x)))`.

    Args:
        score_types, shares_projections: as for `DisentangledAttention`.
        kernel_size: number of columns that the convolution reads, odd; 0: there is none.
        convolution_activation: the activation after it, as in `BertConfig.hidden_act`.
        others: as for `TransformerBlock`. `dropout` is that of the vectors of distances and of the convolution too.

    Call arguments:
        hidden, attention_bias, distance_vectors, distance_rows: as for `DisentangledAttention`.
        sequences: int32 `[B, S]`, the number of each token's sequence. For the convolution, a neighbour of another
            sequence counts as zeros. Its sums are 0 where the number is 0: for padding.
        query_columns: None: the attention runs for all tokens.
        flat_indices, training, return_attention, and what is returned: as for `TransformerBlock`.

    Reference: He et al., 2020, arXiv 2006.03654; transformers, `models/deberta_v2/modeling_deberta_v2.py`, `ConvLayer`.
    """

    attention_class = DisentangledAttention

    def __init__(
        self, *sizes, score_types=(), shares_projections=False, kernel_size=0, convolution_activation="tanh", **kwargs
    ):
        super().__init__(*sizes, **kwargs)
        self.score_types = self.attention.score_types = tuple(score_types)
        self.shares_projections = self.attention.shares_projections = shares_projections
        self.attention.distance_dropout.rate = self.dropout.rate
        self.kernel_size, self.convolution_activation = kernel_size, convolution_activation
        if kernel_size:
            self.convolution_layer_norm = self._layer_norm("convolution_layer_norm")
            self.convolution_dropout = Dropout(self.dropout.rate, dtype=self.dtype_policy, name="convolution_dropout")
            self._activate = hidden_activation(convolution_activation)

    def build(self, hidden_shape, *other_shapes):
        super().build(hidden_shape)
        if self.kernel_size:
            width = self.hidden_size
            self.convolution_kernel = self.new_weight("convolution_kernel", (self.kernel_size, width, width))
            self.convolution_bias = self.add_weight(name="convolution_bias", shape=(width,), initializer="zeros")
            self.convolution_layer_norm.build((None, width))

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        layers = super().dense_layers()
        query, key, value, output = layers["attention"]
        return {**layers, "attention": (query, key, value, *self.attention.distance_layers(), output)}

    def call(
        self,
        hidden,
        attention_bias,
        distance_vectors,
        distance_rows,
        sequences,
        query_columns=None,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        attended = self.attention(
            *(hidden, attention_bias, distance_vectors, distance_rows, sequences),
            flat_indices=flat_indices,
            training=training,
            return_attention=return_attention,
        )
        vectors = hidden if flat_indices is None else vectors_at_flat(hidden, flat_indices)
        output = self._output(vectors, attended, training, return_attention)
        if not self.kernel_size:
            return output
        output, *probabilities = output if return_attention else (output,)
        is_token = ops.expand_dims(ops.cast(sequences > 0, hidden.dtype), 2)  # [B, S, 1]
        convolved = self.convolution_dropout(self._convolved(hidden, sequences) * is_token, training=training)
        convolved = self._activate(convolved, training)
        if flat_indices is not None:
            convolved, is_token = (vectors_at_flat(values, flat_indices) for values in (convolved, is_token))
        output = self.convolution_layer_norm(output + convolved, training=training) * is_token
        return (output, *probabilities) if return_attention else output

    def _convolved(self, hidden: Any, sequences: Any) -> Any:
        """Returns the sum over the columns of the kernel, `[B, S, H]`."""
        length, reach = ops.shape(hidden)[1], self.kernel_size // 2
        padded = ops.pad(hidden, ((0, 0), (reach, reach), (0, 0)))
        numbers = ops.pad(sequences, ((0, 0), (reach, reach)))
        parts = []
        for first in range(self.kernel_size):
            is_same = ops.equal(numbers[:, first : first + length], sequences)
            parts.append(padded[:, first : first + length] * ops.expand_dims(ops.cast(is_same, hidden.dtype), 2))
        joined = ops.reshape(ops.concatenate(parts, axis=2), (-1, self.kernel_size * self.hidden_size))
        kernel = ops.reshape(ops.convert_to_tensor(self.convolution_kernel), (-1, self.hidden_size))
        convolved = ops.matmul(joined, kernel) + ops.convert_to_tensor(self.convolution_bias)
        return ops.reshape(convolved, ops.shape(hidden))
