"""Dense layers with products of 8-bit integers, which are several times faster on processors with VNNI or AMX.

They use TensorFlow's operation `_QuantizedMatMul`, which is undocumented. The following was found by comparison with
integer arithmetic (tests/serving/graph/test_eight_bit_products.py). For integers x and W from -127 to 127, let r_x and
r_W[n] be the values that 127 stands for in x and in column n of W. Then the operation returns

    activation(sum(x * W[:, n]) * r_x / 127 * r_W[n] / 127 + bias[n])

in float32. The sum is exact with VNNI, with AMX and without oneDNN; elsewhere only if no number of W exceeds 64.
TensorFlow 2.20 has the operation, 2.12 does not. It is the only quantised product that has a range for each column and
applies GELU in the same pass; a separate pass for GELU would cost most of the gain.
"""

import keras
import numpy as np
import tensorflow as tf

from keras_bert.program.private_interfaces import private
from keras_bert.serving.graph.eight_bit_weights import LARGEST, computed_by, quantize

_apply_op = private("tensorflow.python.framework.op_def_library.apply_op")
SERVING_VERSIONS = ("2.20", "2.21")
# The activation of `BertConfig` -> what the operation applies to the sum.
_FUSED = {"gelu": ["GeluApproximate"], "gelu_erf": ["GeluExact"], "relu": ["Relu"], "tanh": ["Tanh"], "linear": []}
# A range must not be empty, but a batch may have zeros only.
SMALLEST_RANGE = 1e-30
# Processors without VNNI make the inputs positive and add two products in 16 bits: 2 * 255 * 64 still fits. With 127
# the sums would overflow silently.
LARGEST_OF_KERNELS = 64
_RANDOM_TOKENS = (16, 64)
# In `balanced_divisors` no size is below this part of the median: an input may be 0 for random tokens only.
_SMALLEST_PART = 0.1
_EXPONENT = 0.6


class EightBitDense:
    """A dense layer whose kernel and inputs are rounded to 8 bits.

    The kernel has a range for each column. The range of the inputs is their largest absolute value, which is computed
    in every call. A batch usually shares one range, so an answer depends slightly, within the rounding, on the other
    texts of its batch.

    Args:
        name: the name of the variables.
        dense: a built `keras.layers.Dense`.
        activation: the activation of the layer, named as in `BertConfig.hidden_act`.
        divisors: float32 `[inputs]`, see `balanced_divisors`; by default all are 1. The layer divides its inputs by
            them and multiplies the rows of the kernel by them. This changes the rounding, but not the product.
        range_per_row: whether each row of the inputs has a range of its own. Only without an activation.

    Attributes:
        stored: what a SavedModel has to store instead of the kernel: numbers and ranges.

    Call arguments:
        inputs: float32 `[M, inputs]`.

    Returns:
        float32 `[M, outputs]`.
    """

    def __init__(self, name: str, dense, activation: str = "linear", divisors=None, range_per_row: bool = False):
        kernel = keras.ops.convert_to_numpy(dense.kernel)
        self.stored, self._factors, self._range_per_row = [], None, range_per_row
        if divisors is not None:
            kernel = kernel * divisors[:, None]
            self._factors = tf.Variable(1 / divisors, trainable=False, name=f"{name}_factors")
            self.stored = [self._factors]
        numbers, scale = quantize(kernel, 0, LARGEST_OF_KERNELS)
        self._numbers = tf.Variable(numbers, trainable=False, name=f"{name}_numbers")
        self._ranges = tf.Variable(scale[0] * LARGEST, trainable=False, name=f"{name}_ranges")
        self._bias = dense.bias if dense.use_bias else tf.zeros([dense.units])
        self._fused = ["BiasAdd", *_FUSED[activation], "Dequantize"]
        self.stored += [self._numbers, self._ranges]

    def __call__(self, inputs, training=None):
        if self._factors is not None:
            inputs *= self._factors
        if self._range_per_row:
            sizes = tf.maximum(tf.reduce_max(tf.abs(inputs), axis=-1, keepdims=True), SMALLEST_RANGE)
            # The operation adds a bias before the rows have their size again, so it adds zeros.
            return self._product(inputs / sizes, (-1.0, 1.0), tf.zeros_like(self._bias)) * sizes + self._bias
        smallest = tf.minimum(tf.reduce_min(inputs), 0.0)
        largest = tf.maximum(tf.reduce_max(inputs), SMALLEST_RANGE)
        return self._product(inputs, (smallest, largest), self._bias)

    def _product(self, inputs, input_range, bias):
        numbers, smallest, largest = quantized(inputs, *input_range)
        ranges = self._ranges.read_value()
        (product,), _ = _apply_op(
            "_QuantizedMatMul",
            name="eight_bit_product",
            device_inputs=[numbers, tf.bitcast(self._numbers, tf.qint8), tf.convert_to_tensor(bias)],
            # The ranges are (smallest, largest); the larger absolute value counts. TensorFlow caches prepared kernels
            # by the address of the ranges, so these must be the variable itself, not a value computed from it.
            host_inputs=[smallest, largest, ranges, ranges],
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


def quantized(values, smallest, largest):
    """Rounds values to integers from -127 to 127. 127 stands for the larger absolute value of the range.

    Args:
        values: float32 tensor of any shape.
        smallest, largest: float32 scalars, the range of the values.

    Returns:
        qint8 of that shape, and two float32 scalars: the values that -127 and 127 stand for.
    """
    return tf.raw_ops.QuantizeV2(
        input=values,
        min_range=smallest,
        max_range=largest,
        T=tf.qint8,
        mode="SCALED",
        round_mode="HALF_TO_EVEN",
        narrow_range=True,
        ensure_minimum_range=0.0,
    )


def eight_bit_dense_layers(model) -> list[tuple]:
    """Returns the dense layers of a model's transformer blocks, each with the `EightBitDense` made from it."""
    encoder = getattr(model, "encoder", model)
    blocks = list(dict.fromkeys(encoder.blocks_in_order()))  # layers may share blocks
    divisors = {id(layer): sizes for layer, sizes in input_divisors(encoder)}
    pairs = []
    for number, block in enumerate(blocks):
        for part, layers in block.dense_layers().items():
            for dense in layers:
                activation = getattr(dense, "activation_name", "linear")
                prefix = "attention_" if part == "attention" and dense.name == "output_dense" else ""
                name = f"layer_{number}_{prefix}{dense.name}"
                range_per_row = id(dense) in divisors and divisors[id(dense)] is None
                pairs.append((dense, EightBitDense(name, dense, activation, divisors.get(id(dense)), range_per_row)))
    return pairs


def input_divisors(encoder) -> list[tuple]:
    """Returns the dense layers of an encoder's feed-forward parts, each with the `balanced_divisors` of its inputs.

    A layer behind an activation has None instead: each row of its inputs needs a range of its own, because a few tokens
    have far larger values than the others there. Elsewhere this would gain little for its time.
    """
    blocks = list(dict.fromkeys(encoder.blocks_in_order()))  # layers may share blocks
    parts = [block.dense_layers()["feed_forward"] for block in blocks]
    first = [layer for part in parts for layer in part[::2]]
    divided = [
        (layer, balanced_divisors(sizes, keras.ops.convert_to_numpy(layer.kernel)))
        for layer, sizes in zip(first, _input_sizes(encoder, first), strict=True)
    ]
    return [*divided, *((layer, None) for part in parts for layer in part[1::2])]


def balanced_divisors(largest: np.ndarray, kernel: np.ndarray, exponent: float = _EXPONENT) -> np.ndarray:
    """Returns divisors that leave both the inputs and the kernel of a layer their precision.

    In every text, a few inputs of a layer are many times larger than the others, which would then get few integers.
    Large divisors would take the precision from the kernel instead. From SmoothQuant (Xiao et al., 2023, section 4),
    whose exponent is by default the one that had the smallest error where ranges are computed in each call.

    Args:
        largest: float `[inputs]`, the largest absolute value of each input.
        kernel: float `[inputs, outputs]`.
        exponent: from 0 to 1: the larger, the more equal the inputs become.

    Returns:
        float32 `[inputs]`, positive. Their median is 1.
    """
    of_inputs, of_kernel = (
        np.maximum(sizes, _SMALLEST_PART * np.median(sizes) or 1)
        for sizes in (largest, np.abs(kernel).max(axis=1, initial=0))
    )
    divisors = of_inputs**exponent / of_kernel ** (1 - exponent)
    return (divisors / np.median(divisors)).astype(np.float32)


def _input_sizes(encoder, layers) -> list[np.ndarray]:
    """Returns the largest absolute value of each input of the layers, `[inputs]`, for rows of random tokens.

    Which inputs are large depends on the weights, not on the text, so random tokens show it.
    """
    found = {}

    def watching(layer):
        call = layer.call

        def watched(inputs, training=None):
            largest = np.abs(keras.ops.convert_to_numpy(inputs)).max(axis=0)
            found[id(layer)] = np.maximum(found.get(id(layer), 0), largest)
            return call(inputs, training=training)

        return watched

    vocabulary = encoder.config.vocab_size
    length = min(_RANDOM_TOKENS[1], encoder.config.max_sequence_length)
    ids = np.random.default_rng(0).integers(vocabulary, size=(_RANDOM_TOKENS[0], length))
    with computed_by([(layer, watching(layer)) for layer in layers]):
        encoder({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})
    return [found[id(layer)] for layer in layers]
