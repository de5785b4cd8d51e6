"""SpanBERT's boundary objective: the tokens of a masked span from the two tokens beside it."""

import keras
from keras import ops

from keras_bert.layers.choosing import formulas_for
from keras_bert.layers.heads import VocabularyHead
from keras_bert.layers.layer_norm import LayerNorm

# As in SpanBERT's code: longer spans are predicted up to this token, and the position vectors have this width.
MAX_SPAN_TOKENS = 20
_POSITION_SIZE = 200


def span_boundaries(columns, is_used):
    """Finds the spans of adjacent masked tokens.

    Args:
        columns: int32 `[B, P]`, the masked columns of each row, ascending.
        is_used: bool `[B, P]`; other entries belong to no span.

    Returns:
        for each token the column before its span, that after it, and its number in the span, each int32 `[B, P]`.

    Example:
        columns [[2, 3, 4, 7]] -> left [[1, 1, 1, 6]], right [[5, 5, 5, 8]], numbers [[0, 1, 2, 0]]
    """
    entries = ops.arange(ops.shape(columns)[1], dtype="int32")
    # Inside a span, column and entry number grow together.
    keys = columns - entries
    is_same = ops.equal(keys[:, :, None], keys[:, None, :]) & is_used[:, :, None] & is_used[:, None, :]  # [B, P, P]
    is_before = entries[None, :] < entries[:, None]
    numbers = ops.sum(ops.cast(is_same & is_before, "int32"), axis=-1)
    num_after = ops.sum(ops.cast(is_same & ops.transpose(is_before), "int32"), axis=-1)
    return columns - numbers - 1, columns + num_after + 1, numbers


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanBoundaryHead(VocabularyHead):
    """Scores every token of the vocabulary for the tokens of masked spans, without the vectors of the span itself.

    The vectors before and after the span and a learnt vector for the number of the token in the span are joined. Two
    dense layers follow, each with an activation and a LayerNorm. The logits are products with the token embeddings,
    plus a bias for each token.

    Args:
        vocab_size: number of tokens.
        activation, layer_norm_epsilon, initializer_range: as for `TransformerBlock`.

    Call arguments:
        left, right: float `[B, P, H]`, the vectors before and after the span of each token.
        numbers: int `[B, P]`, the number of each token in its span, below `MAX_SPAN_TOKENS`.
        token_embeddings: float `[vocab_size, E]`.

    Returns:
        `[B, P, vocab_size]`, in at least float32.

    Reference: Joshi et al., 2020, arXiv 1907.10529, section 3.2.
    """

    def __init__(self, vocab_size, activation="gelu", layer_norm_epsilon=1e-12, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range

    def build(self, left_shape, right_shape=None, numbers_shape=None, token_embeddings_shape=None):
        width, size = left_shape[-1], token_embeddings_shape[-1]
        shape = (MAX_SPAN_TOKENS, _POSITION_SIZE)
        self.position_embeddings = self.new_weight("position_embeddings", shape, autocast=False)
        self._add_output_bias()
        self.dense, self.layer_norm = self._dense_and_norm("", 2 * width + _POSITION_SIZE, width)
        self.second_dense, self.second_layer_norm = self._dense_and_norm("second_", width, size)

    def _dense_and_norm(self, prefix: str, inputs: int, outputs: int):
        dense = self.new_dense(f"{prefix}dense", outputs, inputs, activation_name=self.activation)
        norm = LayerNorm(self.layer_norm_epsilon, dtype=self.dtype_policy, name=f"{prefix}layer_norm")
        norm.build((None, outputs))
        return dense, norm

    def call(self, left, right, numbers, token_embeddings):
        positions = ops.cast(ops.take(self.position_embeddings, numbers, axis=0), left.dtype)
        joined = ops.concatenate([left, right, positions], axis=-1)
        hidden = ops.reshape(joined, (-1, joined.shape[-1]))  # [B * P, 2 * H + 200]
        hidden = self.second_layer_norm(self.second_dense(self.layer_norm(self.dense(hidden))))
        products = formulas_for(training=True).product_with_rows(hidden, token_embeddings)
        return self._scores(products, ops.shape(left)[0])
