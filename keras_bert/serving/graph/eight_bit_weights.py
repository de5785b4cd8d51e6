"""Weights with 8 bits on disk and 32 in memory: the SavedModel has a quarter of the size and the same speed.

A matrix W is stored as integers from -127 to 127 and a float32 scale for each output channel (for an embedding table:
for each row), so that W is about numbers * scale. Vectors, such as biases and LayerNorm weights, stay float32.

The products are computed once, when a model is loaded: after restoring the variables, TensorFlow runs the initialisers
of resources, which otherwise fill lookup tables. So requests are as fast as with float32 weights.
"""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

LARGEST = 127  # so that the range of integers is symmetric


def quantize(matrix: np.ndarray, axis: int, largest: int = LARGEST) -> tuple[np.ndarray, np.ndarray]:
    """Returns integers and their scales, so that numbers * scales is nearest to a matrix.

    Args:
        matrix: float `[rows, columns]`.
        axis: the axis along which values share a scale: 0 for one scale per column, 1 for one per row.
        largest: the largest integer.

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
    """A `BertModel` whose matrices are computed from 8-bit integers. Otherwise it behaves as the original model.

    `stored` is what a SavedModel has to store: resources and variables, in the order of `model.weights`.
    """

    def __init__(self, model):
        self._model = model
        self._matrices = [
            (weight, _DequantizedMatrix(f"matrix_{number}", weight))
            for number, weight in enumerate(model.weights)
            if len(weight.shape) == 2
        ]
        matrices = {weight.path: matrix for weight, matrix in self._matrices}
        self.stored = []
        for weight in model.weights:
            if weight.path in matrices:
                matrix = matrices[weight.path]
                self.stored += [matrix, matrix.numbers, matrix.scale]
            else:
                self.stored.append(weight.value)

    def __call__(self, inputs, training=False):
        return self._computed(lambda: self._model(inputs, training=training))

    def vectors_of_ids(self, ids):
        """As `SentenceEncoder.vectors_of_ids`."""
        return self._computed(lambda: self._model.vectors_of_ids(ids))

    def token_vectors(self, rows, computes_padding):
        """As `MultiVectorEncoder.token_vectors`."""
        return self._computed(lambda: self._model.token_vectors(rows, computes_padding))

    def _computed(self, function: Callable):
        matrices = [(weight, matrix.read()) for weight, matrix in self._matrices]
        with keras.StatelessScope(matrices):
            return function()

    def __getattr__(self, name: str):
        return getattr(self._model, name)


class _DequantizedMatrix(tf.saved_model.experimental.TrackableResource):
    """A float32 variable that is not saved: loading computes it from 8-bit integers and scales."""

    def __init__(self, name: str, weight):
        super().__init__()
        self._name = name
        # An embedding table is read by rows; the columns of a kernel are its output channels.
        numbers, scale = quantize(keras.ops.convert_to_numpy(weight), 1 if weight.name.endswith("embeddings") else 0)
        self.numbers = tf.Variable(numbers, trainable=False, name=f"{name}_numbers")
        self.scale = tf.Variable(scale, trainable=False, name=f"{name}_scale")
        _ = self.resource_handle  # created here, not inside the first graph that reads it

    def read(self):
        """Returns the float32 matrix. Use it in a graph only: the variable exists after loading."""
        matrix = tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)
        return tf.ensure_shape(matrix, self.numbers.shape)

    def _create_resource(self):
        # A server runs this for every request and finds the variable by its name, within the memory of the model.
        # Python's loader adds a different suffix to the names for every model that it loads.
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self.numbers.shape, shared_name=self._name)

    def _initialize(self):
        matrix = tf.cast(self.numbers, tf.float32) * self.scale
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=matrix)

    def _destroy_resource(self):
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle)
