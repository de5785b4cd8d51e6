"""Counts the operations of a training step, and measures the peak speed of the device."""

import functools
import re
import time

import keras

from keras_bert.accelerate.backend import compiled

_LAYER_KERNEL = re.compile(r"(?:^|/)layer_\d+/.*kernel$")
_PEAK_SECONDS = 0.1


class ModelFlops:
    """Counts the floating-point operations of training by the model's formulas, independent of how it computes them.

        6 * (weights of the layers' matrices * tokens + weights of the masked-LM head * predictions)
        + 12 * layers * heads * head size * attended pairs

    A product with a matrix of N weights takes 2 N operations per token, and its gradients twice as many (Kaplan et al.,
    2020, arXiv 2001.08361, section 2.1). The scores and weighted sums of attention take 4 times the size of all heads
    per pair of tokens, and their gradients twice as many (Chowdhery et al., 2022, arXiv 2204.02311, appendix B).
    Padding, embeddings, LayerNorm, the pooler and classifiers are not counted.
    """

    def __init__(self, model):
        config = model.config
        matrices = [weight for weight in model.weights if _LAYER_KERNEL.search(weight.path)]
        self._layer_weights = sum(int(keras.ops.size(weight)) for weight in matrices)
        self._head_weights = config.hidden_size * (config.hidden_size + config.vocab_size)
        self._per_pair = 12 * config.num_hidden_layers * config.num_attention_heads * config.head_size

    def of(self, tokens: float, attended_pairs: float, predictions: float) -> float:
        """Returns the number of operations for this input; see `InputProbe.sums`."""
        linear = 6 * (self._layer_weights * tokens + self._head_weights * predictions)
        return linear + self._per_pair * attended_pairs


@functools.cache
def measured_peak(dtype: str) -> float:
    """Returns the operations per second of products of large square matrices. Measures for 0.1 to 0.2 seconds."""
    size, peak, spent = 512, 0.0, 0.0

    # TensorFlow cannot turn a scalar of bfloat16 into an array.
    multiply = compiled(lambda matrix: keras.ops.cast(keras.ops.sum(keras.ops.matmul(matrix, matrix)[0]), "float32"))
    while spent < _PEAK_SECONDS and size <= 8192:
        matrix = keras.ops.ones([size, size], dtype)
        _timed(multiply, matrix)
        seconds = min(_timed(multiply, matrix) for _ in range(3))
        spent += 4 * seconds
        peak = max(peak, 2 * size**3 / seconds)
        size *= 2
    return peak


def _timed(function, argument) -> float:
    start = time.perf_counter()
    keras.ops.convert_to_numpy(function(argument))
    return time.perf_counter() - start
