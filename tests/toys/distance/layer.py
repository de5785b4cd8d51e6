"""The attention of the family."""

import keras
from keras import ops

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable("toys")
class SharpAttention(SelfAttention):
    """Self-attention whose scores are multiplied by a number of each head, which is learned."""

    takes_numbers = False  # the encoder adds distances to the bias

    def build(self, hidden_shape, *other_shapes):
        super().build(hidden_shape)
        self.sharpness = self.add_weight((self.num_heads,), "ones", name="sharpness")

    def _attend(self, query, *inputs):  # [B, N, F, D]
        return super()._attend(query * ops.reshape(ops.cast(self.sharpness, query.dtype), (1, -1, 1, 1)), *inputs)


@keras.saving.register_keras_serializable("toys")
class SharpBlock(TransformerBlock):
    """One layer of the encoder."""

    attention_class = SharpAttention
