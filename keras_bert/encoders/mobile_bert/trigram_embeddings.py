"""MobileBERT's embeddings: narrow token vectors, joined with those of their neighbours."""

import keras
from keras import ops

from keras_bert.encoders.mobile_bert.bottleneck_block import NoNorm
from keras_bert.layers.embeddings import BertEmbeddings


@keras.saving.register_keras_serializable(package="keras_bert")
class TrigramEmbeddings(BertEmbeddings):
    """Turns token ids into vectors: dropout(norm(dense(next, token, previous) + position + segment)).

    A neighbour outside of the token's sequence counts as zeros: padding, another sequence packed in the row, and
    columns beyond the row. transformers reads the vector of [PAD] behind a padded sequence, which is zeros there too
    unless it was trained.

    Args:
        token_size: width E of the token table.
        normalizes: whether the norm is a LayerNorm, otherwise `NoNorm`.
        **arguments: those of `BertEmbeddings`, without `projected_size`; `hidden_size` is the width of the other tables
            and of the outputs.

    Call arguments:
        input_ids, positions, segment_ids, training, token_vectors: as for `BertEmbeddings`.
        sequences: int32 `[B, S]`, the number of each token's sequence; 0 for padding.

    Returns:
        `[B, S, hidden_size]`.

    Reference: Sun et al., 2020, arXiv 2004.02984, section 3.3, "embedding factorization".
    """

    not_in_config = ("tables_of", "projected_size")

    def __init__(self, token_size, normalizes=False, **arguments):
        super().__init__(**arguments)
        self.token_size = token_size
        self.normalizes = normalizes
        if not normalizes:
            self.layer_norm = NoNorm(dtype=self.dtype_policy, name="layer_norm")
        self.transformation = self.new_dense("transformation", self.hidden_size)

    def build(self, input_ids_shape, positions_shape=None, segment_ids_shape=None, sequences_shape=None):
        super().build(input_ids_shape)
        self.transformation.build((None, None, 3 * self.token_size))

    def _add_table(self, name, num_rows, width=None):
        return super()._add_table(name, num_rows, self.token_size if name == "token_embeddings" else width)

    def call(self, input_ids, positions, segment_ids, sequences, training=False, token_vectors=None):
        tokens = self.vectors_of(input_ids, token_vectors)  # [B, S, E]
        is_joined = ops.equal(sequences[:, :-1], sequences[:, 1:])  # [B, S - 1]: with the token behind
        is_joined = ops.expand_dims(ops.cast(is_joined, tokens.dtype), 2)
        behind = ops.pad(tokens[:, 1:] * is_joined, ((0, 0), (0, 1), (0, 0)))
        before = ops.pad(tokens[:, :-1] * is_joined, ((0, 0), (1, 0), (0, 0)))
        vectors = self.transformation(ops.concatenate([behind, tokens, before], axis=2))
        vectors = ops.cast(vectors, tokens.dtype) + ops.take(self.position_embeddings, positions, axis=0)
        if self.num_segments:
            vectors = vectors + self.segment_vectors(segment_ids, vectors)
        return self.dropout(self.layer_norm(vectors, training=training), training=training)

    def compute_output_shape(self, input_ids_shape, *other_shapes):
        return (*input_ids_shape, self.hidden_size)
