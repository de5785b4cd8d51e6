"""Weights that have 8 bits on disk and 32 in memory: a SavedModel a quarter as large, which computes as before.

A matrix W is stored as whole numbers from -127 to 127 and a float32 scale for each output channel (for a table of
embeddings, for each row): W is about numbers * scale. Vectors, such as biases and those of LayerNorm, stay float32.

The products are made once, when a model is loaded: TensorFlow runs the initialisers of resources, as it fills lookup
tables, after it has restored the variables. So a request costs what it costs with float32 weights.
"""

import contextlib
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

LARGEST = 127  # so that numbers lie symmetrically around 0


def quantize(matrix: np.ndarray, axis: int, largest: int = LARGEST) -> tuple[np.ndarray, np.ndarray]:
    """Returns whole numbers and their scales, so that numbers * scales is nearest to a matrix.

    Args:
        matrix: float `[rows, columns]`.
        axis: along which values share a scale: 0 for one scale a column, 1 for one a row.
        largest: the largest whole number.

    Returns:
        int8 `[rows, columns]` and float32 `[1, columns]` or `[rows, 1]`.

    Example:
        [[1.27, 0], [-0.5, 0]], 0 -> [[127, 0], [-50, 0]], [[0.01, 1]]
    """
    matrix = np.asarray(matrix, np.float32)
    scale = np.abs(matrix).max(axis=axis, keepdims=True) / np.float32(largest)
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.clip(np.rint(matrix / scale), -largest, largest).astype(np.int8), scale


class EightBitModel:
    """A model whose matrices are computed from 8-bit ones; in all else it is the model that it is made from.

    Args:
        model: a `BertModel`.
        replaced: dense layers of it, each with what is called instead; see `eight_bit_products`. Their kernels are left
            out, and the `stored` of what replaces them takes that place.

    Attributes:
        stored: what a SavedModel has to hold: the resources and variables, in the order of `model.weights`.
    """

    def __init__(self, model, replaced: Sequence[tuple] = ()):
        self._model = model
        self._replaced = replaced
        kernels = {dense.kernel.path: replacement for dense, replacement in replaced}
        self._matrices = [
            (weight, _DequantizedMatrix(f"matrix_{number}", weight))
            for number, weight in enumerate(model.weights)
            if len(weight.shape) == 2 and weight.path not in kernels
        ]
        matrices = {weight.path: matrix for weight, matrix in self._matrices}
        self.stored = []
        for weight in model.weights:
            if weight.path in kernels:
                self.stored += kernels[weight.path].stored
            elif weight.path in matrices:
                matrix = matrices[weight.path]
                self.stored += [matrix, matrix.numbers, matrix.scale]
            else:
                self.stored.append(weight.value)

    def __call__(self, inputs, training=False):
        matrices = [(weight, matrix.read()) for weight, matrix in self._matrices]
        with keras.StatelessScope(matrices), computed_by(self._replaced):
            return self._model(inputs, training=training)

    def __getattr__(self, name: str):
        return getattr(self._model, name)


@contextlib.contextmanager
def computed_by(replaced):
    """Replaces the `call` of layers inside the block."""
    for layer, replacement in replaced:
        layer.call = replacement
    try:
        yield
    finally:
        for layer, _ in replaced:
            del layer.call


class _DequantizedMatrix(tf.saved_model.experimental.TrackableResource):
    """A float32 variable that is no part of the saved weights: loading makes it from 8-bit numbers and scales."""

    def __init__(self, name: str, weight):
        super().__init__()
        self._name = name
        # A table of embeddings is read by rows; the columns of a kernel are its output channels.
        numbers, scale = quantize(keras.ops.convert_to_numpy(weight), 1 if weight.name.endswith("embeddings") else 0)
        self.numbers = tf.Variable(numbers, trainable=False, name=f"{name}_numbers")
        self.scale = tf.Variable(scale, trainable=False, name=f"{name}_scale")
        _ = self.resource_handle  # made here, and not inside the first graph that reads it

    def read(self):
        """Returns the matrix, float32; for use in a graph, where the variable exists once it is loaded."""
        matrix = tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)
        return tf.ensure_shape(matrix, self.numbers.shape)

    def _create_resource(self):
        # A server runs this for every request and finds the variable by its name, in a memory of the model's own; the
        # loader of Python gives the names of every model that it loads an ending of their own.
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self.numbers.shape, shared_name=self._name)

    def _initialize(self):
        matrix = tf.cast(self.numbers, tf.float32) * self.scale
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=matrix)

    def _destroy_resource(self):
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle)
