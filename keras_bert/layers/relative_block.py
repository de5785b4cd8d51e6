"""One layer of XLNet or Transformer-XL."""

import keras
from keras import ops

from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.relative_attention import RelativeAttention
from keras_bert.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_bert")
class RelativeBlock(TransformerBlock):
    """A `TransformerBlock` with `RelativeAttention`, and with dropout between the two dense layers too.

    Args:
        uses_segments: as for `RelativeAttention`.
        others: as for `TransformerBlock`.

    Call arguments:
        hidden, attention_bias, distances, is_other_segment, memory, query_columns, query_tokens: as for
            `RelativeAttention`. Only the vectors of the query tokens are returned.
        flat_indices, training, return_attention: as for `TransformerBlock`.

    Returns:
        as `TransformerBlock`.

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
