"""Attention whose scores are of contents and of distances."""

import keras
from keras import ops

from keras_bert.encoders.deberta.config import CONTENT_TO_POSITION, POSITION_TO_CONTENT
from keras_bert.layers.attention import SelfAttention, products_of_heads
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.relative_attention import shift_to_keys

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
        flat_indices, training, return_attention: as for `SelfAttention`.

    Returns:
        as `SelfAttention`.

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
