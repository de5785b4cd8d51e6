"""Dense layers that pack their weights once, which makes short requests faster.

oneDNN multiplies with weights in an order of its own. TensorFlow rearranges them in every call, unless they are
constants of the graph. For a few tokens this takes longer than the product. Constants would store the weights in the
graph, once for each signature. So the layers use TensorFlow's operation `_MklNativeFusedMatMul`, which keeps the
rearranged weights if told that they never change.

The operation is undocumented, and exists in TensorFlow for x86 only. Each signature that is used keeps packed weights
of its own.
"""

import tensorflow as tf

from keras_bert.models.encoder_base import encoder_of
from keras_bert.program.private_interfaces import private
from keras_bert.serving.eight_bit_weights import computed_by

_OPERATION = "_MklNativeFusedMatMul"
# TensorFlow registers its kernels under this label.
_KERNEL = "MklNameChangeOp"
# The activation of `BertConfig` -> what the operation applies to the sum.
_FUSED = {"gelu": ["GeluApproximate"], "gelu_erf": ["GeluExact"], "relu": ["Relu"], "tanh": ["Tanh"], "linear": []}

_apply_op = private("tensorflow.python.framework.op_def_library.apply_op")


class PackedDense:
    """A dense layer whose kernel is packed in the first call. Use it in a graph only, for weights that never change.

    Args:
        dense: a built `keras.layers.Dense` with a bias.
        activation: the activation of the layer, named as in `BertConfig.hidden_act`.

    Call arguments:
        inputs: float32 or bfloat16 `[M, inputs]`.

    Returns:
        `[M, outputs]`.
    """

    def __init__(self, dense, activation: str = "linear"):
        self._dense = dense
        self._fused = ["BiasAdd", *_FUSED[activation]]

    def __call__(self, inputs, training=None):
        kernel, bias = (tf.convert_to_tensor(weight) for weight in (self._dense.kernel, self._dense.bias))
        with tf.compat.v1.get_default_graph()._kernel_label_map({_OPERATION: _KERNEL}):
            return _apply_op(
                _OPERATION,
                name="packed_product",
                a=inputs,
                b=kernel,
                args=[bias],
                is_filter_const=True,
                transpose_a=False,
                transpose_b=False,
                fused_ops=self._fused,
                epsilon=0.0,
                leakyrelu_alpha=0.0,
            )


class PackedModel:
    """A model that computes the dense layers of its encoder with packed weights. Otherwise it behaves as the original.

    Args:
        model: a `BertModel`.
    """

    def __init__(self, model):
        self._model = model
        blocks = dict.fromkeys(encoder_of(model).blocks_in_order())  # ALBERT's layers share blocks
        layers = [layer for block in blocks for part in block.dense_layers().values() for layer in part]
        self._replaced = [(layer, PackedDense(layer, getattr(layer, "activation_name", "linear"))) for layer in layers]

    def __call__(self, inputs, training=False):
        with computed_by(self._replaced):
            return self._model(inputs, training=training)

    def __getattr__(self, name: str):
        return getattr(self._model, name)
