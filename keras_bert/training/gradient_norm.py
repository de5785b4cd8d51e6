"""The norm of all gradients together, as it is before they are clipped."""

import keras

from keras_bert.accelerate import updates


class GradientNorm:
    """Keeps the norm of the gradients of an optimiser's last update.

    Where the optimiser clips by the same norm, TensorFlow computes it once for both. Make it with `of`, before the
    step is traced and in the scope of the model's strategy.
    """

    def __init__(self):
        self._norm = keras.Variable(
            0.0, trainable=False, dtype="float32", aggregation="only_first_replica", name="gradient_norm"
        )

    @classmethod
    def of(cls, optimizer: keras.optimizers.Optimizer) -> "GradientNorm":
        """Returns what watches an optimiser; the same one when it is asked for again."""
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # what a LossScaleOptimizer wraps
        known = getattr(inner._clip_gradients, "gradient_norm", None)
        if known is not None:
            return known
        watching = cls()
        inner._clip_gradients = watching._noting(inner._clip_gradients)
        return watching

    def _noting(self, clip):
        def note_and_clip(gradients):
            self._norm.assign(keras.ops.cast(updates.global_norm(gradients), "float32"))
            return clip(gradients)

        note_and_clip.gradient_norm = self
        return note_and_clip

    def __float__(self) -> float:
        return float(self._norm.value.numpy())
