"""Cross attention: the tokens of a target attend to those of a source."""

import keras

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class CrossAttention(BertLayer):
    """The part of a decoder's layer that reads the source: attention, then a residual sum and a LayerNorm.

    Args:
        num_heads, dropout, attention_dropout, layer_norm_epsilon, initializer_range: as for `TransformerBlock`.

    Call arguments:
        hidden: float `[B, T, H]`, the tokens of the target. The outputs have this shape.
        source: float `[B, S, H]`, the encoder's vectors of the source.
        source_bias: float `[B, 1, 1, S]`, 0 for tokens and a large negative number for padding.
        training: whether to apply dropout.

    Reference: Vaswani et al., 2017, section 3.2.3; transformers' `BertLayer` with `add_cross_attention`.
    """

    def __init__(
        self,
        num_heads,
        dropout=0.1,
        attention_dropout=0.1,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.attention = SelfAttention(
            num_heads, attention_dropout, initializer_range, dtype=self.dtype_policy, name="attention"
        )
        self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, source_shape=None, source_bias_shape=None):
        self.attention.build(hidden_shape)
        self.layer_norm.build((None, hidden_shape[-1]))

    def call(self, hidden, source, source_bias, training=False):
        attended = self.attention(source, source_bias, query_tokens=hidden, training=training)
        return self.layer_norm(hidden + self.dropout(attended, training=training), training=training)

    def attend_to(self, hidden, key, value, source_bias):
        """As `call` in inference, with the source's keys and values, see `SelfAttention.attend_to`."""
        return self.layer_norm(hidden + self.attention.attend_to(hidden, key, value, source_bias))

    def compute_output_shape(self, hidden_shape, source_shape=None, source_bias_shape=None):
        return hidden_shape
