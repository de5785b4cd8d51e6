"""One layer of the encoder."""

import keras
from keras import ops

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import vectors_at, vectors_at_flat
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class TransformerBlock(BertLayer):
    """One layer of BERT: self-attention, then two dense layers. Both parts end with a residual sum and a LayerNorm.

    Args:
        num_heads: number of attention heads.
        intermediate_size: width between the two dense layers.
        activation: name of the function between them, as in `BertConfig.hidden_act`.
        dropout: fraction of each sub-layer's outputs that become 0 in training.
        attention_dropout: fraction of the attention probabilities that become 0 in training.
        layer_norm_epsilon: added to the variance in LayerNorm.
        initializer_range: standard deviation of the initial kernels.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, S]` or `[B, 1, 1, S]`, see `numbered_mask.attention_bias`.
        query_columns: int `[B, F]`. Only the tokens in these columns attend (to all tokens), and only their vectors are
            returned. By default all do, and F = S.
        flat_indices: int `[T]`, indices into the B * S tokens. All tokens attend, but the layers after the attention
            run for these only, and only their vectors are returned. It excludes `query_columns`.
        training: whether to apply dropout.
        return_attention: whether to return the attention probabilities (before dropout) too.

    Returns:
        `[B, F, H]`, or `[T, H]` with `flat_indices`. With `return_attention`, a pair of it and the probabilities
        `[B, N, F, S]` of the N heads.

    Reference: Devlin et al., 2018, section 3; Vaswani et al., 2017, section 3.1.
    """

    attention_class = SelfAttention

    def __init__(
        self,
        num_heads,
        intermediate_size,
        activation="gelu",
        dropout=0.1,
        attention_dropout=0.1,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.attention = self.attention_class(
            num_heads, attention_dropout, initializer_range, dtype=self.dtype_policy, name="attention"
        )
        self.attention_layer_norm = self._layer_norm("attention_layer_norm")
        self.intermediate_dense = self.new_dense("intermediate_dense", intermediate_size, activation_name=activation)
        self.output_layer_norm = self._layer_norm("output_layer_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def _layer_norm(self, name):
        return LayerNorm(self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)

    def build(self, hidden_shape, attention_bias_shape=None, query_columns_shape=None, flat_indices_shape=None):
        self.hidden_size = hidden_shape[-1]
        self.output_dense = self.new_dense("output_dense", self.hidden_size)
        self.attention.build(hidden_shape)
        self.attention_layer_norm.build((None, self.hidden_size))
        self.intermediate_dense.build((None, self.hidden_size))
        self.output_dense.build((None, self.intermediate_size))
        self.output_layer_norm.build((None, self.hidden_size))

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        """Returns {part of the block: its dense layers in the order of computation}."""
        attention = self.attention
        return {
            "attention": (attention.query, attention.key, attention.value, attention.output_dense),
            "feed_forward": (self.intermediate_dense, self.output_dense),
        }

    def call(
        self,
        hidden,
        attention_bias,
        query_columns=None,
        flat_indices=None,
        training=False,
        return_attention=False,
    ):
        vectors, query_tokens = hidden, None
        if query_columns is not None:
            vectors = query_tokens = vectors_at(hidden, query_columns)
        elif flat_indices is not None:
            vectors = vectors_at_flat(hidden, flat_indices)
        attended = self.attention(
            hidden,
            attention_bias,
            training=training,
            return_attention=return_attention,
            query_tokens=query_tokens,
            flat_indices=flat_indices,
        )
        return self._output(vectors, attended, training, return_attention)

    def _output(self, vectors, attended, training, return_attention):
        """Returns what `call` returns, from the vectors of the tokens that attend and what the attention returned."""
        attended, probabilities = attended if return_attention else (attended, None)
        vectors = self.after_attention(vectors, attended, training=training)
        output = self.feed_forward(vectors, training=training)
        return (output, probabilities) if return_attention else output

    def after_attention(self, vectors, attended, training=False):
        """Adds the output of the attention to the vectors and normalises the sum."""
        return self.attention_layer_norm(vectors + self.dropout(attended, training=training), training=training)

    def feed_forward(self, vectors, training=False):
        """Applies the two dense layers, with the residual sum and LayerNorm: `[..., H]` -> `[..., H]`."""
        # Two dimensions, as in SelfAttention. TensorFlow fuses the residual sum with the product too.
        flat = ops.reshape(vectors, (-1, self.hidden_size))
        transformed = self.output_dense(self.intermediate_dense(flat, training=training))
        flat = self.output_layer_norm(flat + self.dropout(transformed, training=training), training=training)
        return ops.reshape(flat, ops.shape(vectors))

    def compute_output_shape(
        self, hidden_shape, *other_shapes, query_columns_shape=None, flat_indices_shape=None, **more_shapes
    ):
        selected = query_columns_shape or flat_indices_shape
        return (*selected, hidden_shape[-1]) if selected else hidden_shape
