"""The tables of DeBERTa: of tokens, and of distances."""

import keras
import numpy as np
from keras import ops

from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.embeddings import BertEmbeddings
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class DebertaEmbeddings(BertEmbeddings):
    """Turns token ids into vectors: dropout(mask * LayerNorm(projection(token + position + segment))).

    Args:
        tables_of: a built `DebertaEmbeddings`, or None. The table of tokens is the sum of its table, which gets no
            gradient from here, and of `token_embeddings_difference`, which starts at 0. It is not saved in the config.
        **arguments: those of `BertEmbeddings`.

    Call arguments:
        input_ids, positions, segment_ids, training, token_vectors: as for `BertEmbeddings`.
        sequences: int32 `[B, S]`, 0 for padding, whose vectors become 0.

    Returns:
        `[B, S, projected_size or hidden_size]`.

    Reference: transformers, `models/deberta_v2/modeling_deberta_v2.py`, `DebertaV2Embeddings`; He et al., 2021, arXiv
    2111.09543, section 3.2, for the sum: gradient-disentangled embedding sharing.
    """

    projects_first = True

    def __init__(self, tables_of=None, **arguments):
        super().__init__(**arguments)
        self.has_difference = tables_of is not None
        if tables_of is not None:
            self.token_embeddings = tables_of.token_embeddings

    def _add_table(self, name, num_rows, width=None):
        if not (self.has_difference and name == "token_embeddings"):
            return super()._add_table(name, num_rows, width)
        shape = self.token_embeddings.shape
        self.token_embeddings_difference = self.add_weight(
            name="token_embeddings_difference", shape=shape, initializer="zeros", autocast=False
        )
        return self.token_embeddings

    def look_up(self, input_ids):
        vectors = super().look_up(input_ids)
        if not self.has_difference:
            return vectors
        return ops.stop_gradient(vectors) + ops.take(self.token_embeddings_difference, input_ids, axis=0)

    def call(self, input_ids, positions, segment_ids, sequences, training=False, token_vectors=None):
        vectors = self._sum_of_tables(input_ids, positions, segment_ids, token_vectors)
        vectors = self.projection(vectors) if self.projected_size else vectors
        vectors = self.layer_norm(vectors, training=training)
        is_token = ops.expand_dims(ops.cast(sequences > 0, vectors.dtype), 2)
        return self.dropout(vectors * is_token, training=training)


@keras.saving.register_keras_serializable(package="keras_bert")
class DistanceVectors(BertLayer):
    """The vectors of distances, which all layers share.

    Args:
        num_buckets, longest: see `rows_of_distances`.
        layer_norm_epsilon: added to the variance in the LayerNorm of the vectors; None: there is no LayerNorm.
        initializer_range: standard deviation of the initial table.

    Call arguments:
        ids: int `[B, S]`. Only its length S matters.
        training: whether a backward pass follows.

    Returns:
        the vectors of the distances that occur, float `[R, H]`, and the rows in them of the distances S, S - 1, ...,
        -S, int32 `[2 S + 1]`. A distance is the column of the query minus that of the key.
    """

    def __init__(self, num_buckets, longest, layer_norm_epsilon, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.num_buckets, self.longest = num_buckets, longest
        self.layer_norm_epsilon, self.initializer_range = layer_norm_epsilon, initializer_range
        self.rows = rows_of_distances(num_buckets, longest)
        self.layer_norm = None
        if layer_norm_epsilon is not None:
            self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm")

    def build(self, vectors_shape):
        shape = (2 * (self.num_buckets if self.num_buckets > 0 else self.longest), vectors_shape[-1])
        self.table = self.new_weight("table", shape)
        if self.layer_norm:
            self.layer_norm.build(shape)

    def call(self, ids, training=False):
        length = ops.shape(ids)[1]
        # Short rows have few distances, and only the vectors of these are normalised and projected.
        if isinstance(length, int):
            rows, reach = self.rows, min(length, self.longest)
        else:
            rows, reach = ops.convert_to_tensor(self.rows), ops.minimum(length, self.longest)
        first, last = rows[self.longest - reach], rows[self.longest + reach]
        vectors = ops.convert_to_tensor(self.table)[first : last + 1]
        distances = ops.clip(length - ops.arange(2 * length + 1, dtype="int32"), -self.longest, self.longest)
        found = ops.take(ops.convert_to_tensor(self.rows), distances + self.longest, axis=0) - first
        return self.layer_norm(vectors, training=training) if self.layer_norm else vectors, found


def rows_of_distances(num_buckets: int, longest: int) -> np.ndarray:
    """Returns the rows of the distances -longest, ..., longest in the table: int32 `[2 * longest + 1]`.

    There are `num_buckets` on each side. Distances of up to half of it have a bucket each, and the others get wider in
    equal steps of the logarithm. If it is not above 0, each distance has a bucket. Longer ones count as `longest`.

    Example:
        >>> rows_of_distances(num_buckets=4, longest=10).tolist()
        [0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 7, 7]

    Reference: microsoft/DeBERTa `da_utils.py`, `make_log_bucket_position`.
    """
    distances = np.arange(-longest, longest + 1)
    span, sizes = longest, np.abs(distances)
    if num_buckets > 0:
        span, middle = num_buckets, num_buckets // 2
        steps = np.log(np.maximum(sizes, middle) / middle) / np.log((longest - 1) / middle)
        wider = np.ceil(steps * (middle - 1)) + middle
        distances = np.where(sizes <= middle, distances, np.sign(distances) * wider)
    return np.clip(distances + span, 0, 2 * span - 1).astype("int32")
