"""Dense layers that multiply 8-bit whole numbers, which processors with VNNI or AMX do several times faster.

The operation is TensorFlow's own, `_QuantizedMatMul`, which has no documentation. As found out against integer
arithmetic (tests/test_eight_bit_products.py): with whole numbers x and W from -127 to 127, and `r` the value that
127 stands for, the scale of x is r_x / 127, that of column n of W is r_W[n] / 127, and it gives

    activation(sum(x * W[:, n]) * r_x / 127 * r_W[n] / 127 + bias[n])

in float32, the sum being exact. TensorFlow 2.20 has it, 2.12 does not. It is the only quantised product that takes a
range for each column and does GELU in the same pass; with GELU as a pass of its own nothing would be won.
"""

import keras
import tensorflow as tf
from tensorflow.python.framework import op_def_library

from keras_bert.serving.eight_bit_weights import LARGEST, quantize

SERVING_VERSIONS = ("2.20", "2.21")
# The activation of `BertConfig` -> what the operation does after the sum.
_FUSED = {"gelu": ["GeluApproximate"], "gelu_erf": ["GeluExact"], "relu": ["Relu"], "tanh": ["Tanh"], "linear": []}
# A range must not be empty, and a batch may be.
_SMALLEST_RANGE = 1e-30


class EightBitDense:
    """What a dense layer computes, with its kernel and its inputs rounded to 8 bits.

    A kernel has a range for each column, inputs have one for the whole batch: their largest absolute value, found anew
    in every call. So an answer depends, within that rounding, on the texts that it is computed together with.

    Args:
        name: of the variables.
        dense: a built `keras.layers.Dense` with a bias.
        activation: of the layer, as `BertConfig.hidden_act` names it.

    Attributes:
        stored: what a SavedModel has to hold in the place of the kernel: numbers and ranges.

    Call arguments:
        inputs: float32 `[M, inputs]`.

    Returns:
        float32 `[M, outputs]`.
    """

    def __init__(self, name: str, dense, activation: str = "linear"):
        numbers, scale = quantize(keras.ops.convert_to_numpy(dense.kernel), axis=0)
        self._numbers = tf.Variable(numbers, trainable=False, name=f"{name}_numbers")
        self._ranges = tf.Variable(scale[0] * LARGEST, trainable=False, name=f"{name}_ranges")
        self._bias = dense.bias
        self._fused = ["BiasAdd", *_FUSED[activation], "Dequantize"]
        self.stored = [self._numbers, self._ranges]

    def __call__(self, inputs, training=None):
        numbers, largest = quantized(inputs)
        ranges = self._ranges.read_value()
        (product,), _ = op_def_library.apply_op(
            "_QuantizedMatMul",
            name="eight_bit_product",
            device_inputs=[numbers, tf.bitcast(self._numbers, tf.qint8), tf.convert_to_tensor(self._bias)],
            # Smallest and largest value of each: the larger absolute one counts. TensorFlow keeps what it prepared by
            # the address of the ranges, so these are the variable itself and nothing computed from it.
            host_inputs=[largest, largest, ranges, ranges],
            Tdevice_outputs=[tf.float32],
            Thost_outputs=[],
            T1=tf.qint8,
            T2=tf.qint8,
            Tbias=tf.float32,
            U=tf.float32,
            Tout=tf.float32,
            fused_ops=self._fused,
            input_quant_mode="SCALED",
            output_quant_mode="SCALED",
            is_weight_const=True,
            is_bias_const=True,
            transpose_a=False,
            transpose_b=False,
            leakyrelu_alpha=0.0,
        )
        return product


def quantized(values):
    """Returns whole numbers from -127 to 127, and what 127 stands for: the largest absolute value.

    Args:
        values: float32 tensor of any shape.

    Returns:
        qint8 of that shape and a float32 scalar.
    """
    largest = tf.maximum(tf.maximum(tf.reduce_max(values), -tf.reduce_min(values)), _SMALLEST_RANGE)
    numbers = tf.raw_ops.QuantizeV2(
        input=values,
        min_range=-largest,
        max_range=largest,
        T=tf.qint8,
        mode="SCALED",
        round_mode="HALF_TO_EVEN",
        narrow_range=True,
        ensure_minimum_range=0.0,
    )
    return numbers.output, largest


def eight_bit_dense_layers(model) -> list[tuple]:
    """Returns the dense layers of a model's transformer blocks, each with the `EightBitDense` made from it."""
    pairs = []
    for number, block in enumerate(getattr(model, "encoder", model).blocks):
        attention = block.attention
        layers = [attention.query, attention.key, attention.value, attention.output_dense, block.output_dense]
        activations = ["linear"] * len(layers)
        for dense, activation in zip([*layers, block.intermediate_dense], [*activations, block.activation], strict=True):
            pairs.append((dense, EightBitDense(f"layer_{number}_{dense.name}", dense, activation)))
    return pairs
