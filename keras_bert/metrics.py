"""What is reported: means whose weights are known only batch by batch."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class RatioOfSums(keras.metrics.Metric):
    """The sum of all numerators over the sum of all weights since the last reset; 0 before the first weight.

    A mean of the batches' means would give a batch with one masked token the say of a batch with a thousand.

    Example:
        >>> metric = RatioOfSums(name="masked_lm_accuracy")
        >>> metric.update_state(numerator=1.0, weight=1.0)
        >>> metric.update_state(numerator=0.0, weight=3.0)
        >>> float(metric.result())
        0.25
    """

    def __init__(self, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.numerator = self.add_variable(shape=(), initializer="zeros", name="numerator")
        self.weight = self.add_variable(shape=(), initializer="zeros", name="weight")

    def update_state(self, numerator, weight):
        self.numerator.assign_add(ops.cast(numerator, self.dtype))
        self.weight.assign_add(ops.cast(weight, self.dtype))

    def result(self):
        return ops.divide_no_nan(self.numerator, self.weight)
