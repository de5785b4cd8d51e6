"""Measures the norm of all gradients together before they are clipped."""

import keras

from keras_bert.accelerate.backend import numpy_of, on_tensorflow, updates

_NAME = "gradient_norm"


class GradientNorm:
    """The norm of all gradients in the last update of an optimiser.

    If the optimiser clips by the same norm, TensorFlow computes it only once. Create it with `of` before the step is
    traced, in the scope of the model's strategy.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer):
        if on_tensorflow():
            self._norm = keras.Variable(
                0.0, trainable=False, dtype="float32", aggregation="only_first_replica", name=_NAME
            )
        else:  # other backends keep only what is assigned to the optimiser's own variables
            self._norm = optimizer.add_variable((), dtype="float32", name=_NAME)

    @classmethod
    def of(cls, optimizer: keras.optimizers.Optimizer) -> "GradientNorm":
        """Returns the gradient norm of an optimiser; the same object in every call."""
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # inside a LossScaleOptimizer
        clip = inner._clip_gradients
        if not hasattr(clip, "gradient_norm"):
            norm = cls(inner)

            def measure_and_clip(gradients):
                norm._norm.assign(keras.ops.cast(_global_norm(gradients), "float32"))
                return clip(gradients)

            measure_and_clip.gradient_norm = norm
            inner._clip_gradients = measure_and_clip
        return inner._clip_gradients.gradient_norm

    def __float__(self) -> float:
        return float(numpy_of(self._norm))


def is_gradient_norm(variable: keras.Variable) -> bool:
    """Returns whether a variable of an optimiser is its gradient norm, which no later update depends on."""
    return variable.name == _NAME


def _global_norm(gradients):
    if updates:
        return updates.global_norm(gradients)
    squares = [keras.ops.sum(keras.ops.square(keras.ops.cast(one, "float32"))) for one in gradients if one is not None]
    return keras.ops.sqrt(sum(squares))
