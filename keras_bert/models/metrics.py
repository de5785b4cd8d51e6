"""Metrics that are ratios of sums over all batches."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class RatioOfSums(keras.metrics.Metric):
    """The sum of all numerators over the sum of all weights since the last reset.

    A mean of batch means would give a batch with one masked token the same weight as a batch with a thousand.

    Args:
        empty_value: the result while the weights add up to 0. Use 0 for a loss and NaN for an accuracy, since an
            accuracy of 0 would mean that everything was wrong.

    Example:
        >>> metric = RatioOfSums(name="masked_lm_accuracy")
        >>> metric.update_state(numerator=1.0, weight=1.0)
        >>> metric.update_state(numerator=0.0, weight=3.0)
        >>> float(metric.result())
        0.25
    """

    def __init__(self, name=None, dtype=None, empty_value=0.0):
        super().__init__(name=name, dtype=dtype)
        self.empty_value = empty_value
        self.numerator = self.add_variable(shape=(), initializer="zeros", name="numerator")
        self.weight = self.add_variable(shape=(), initializer="zeros", name="weight")

    def update_state(self, numerator, weight):
        self.numerator.assign_add(ops.cast(numerator, self.dtype))
        self.weight.assign_add(ops.cast(weight, self.dtype))

    def result(self):
        ratio = ops.divide_no_nan(self.numerator, self.weight)
        return ops.where(ops.equal(self.weight, 0), ops.cast(self.empty_value, self.dtype), ratio)

    def get_config(self):
        return {**super().get_config(), "empty_value": self.empty_value}
