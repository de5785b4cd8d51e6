"""Loss terms: a sum and a weight each, divided only after all parts of a batch have been added up. Example weights."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.layers.choosing import formulas_for
from keras_bert.records import features


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One term of a loss, `numerator / (weight + epsilon)`, before the division.

    If a batch is divided among devices or accumulation steps, numerators and weights must be summed over the parts
    before the division. Otherwise the loss would differ from that of the whole batch.

    Attributes:
        name: the name under which it is reported.
        numerator: scalar tensor, the weighted sum of the losses.
        weight: scalar tensor, the sum of the weights.
        epsilon: added to the weight.
    """

    name: str
    numerator: Any
    weight: Any
    epsilon: float = 0.0

    @property
    def value(self):
        """The weighted mean, a scalar tensor; 0 if the weight and epsilon are 0."""
        return ops.divide_no_nan(self.numerator, self.weight + self.epsilon)


def cross_entropy_term(name, logits, labels, weights=None, epsilon=0.0) -> LossTerm:
    """Returns the cross-entropy of labels `[...]`, int from 0 to C - 1, and logits `[..., C]` as a `LossTerm`.

    The weights `[...]` are 1 for every label by default.
    """
    losses = formulas_for(training=True).cross_entropy(logits, labels)
    return weighted_term(name, losses, labels, weights, epsilon)


def smoothed_cross_entropy_term(name, logits, labels, weights=None, smoothing=0.0) -> LossTerm:
    """Returns the cross-entropy with label smoothing as a `LossTerm`.

    The target distribution gives `1 - smoothing` to the label and spreads `smoothing`, at least 0 and below 1, evenly
    over all C classes. The other arguments are those of `cross_entropy_term`.

    Reference: Szegedy et al., 2015, section 7; `label_smoothing` of torch's CrossEntropyLoss.
    """
    losses = formulas_for(training=True).cross_entropy(logits, labels)
    if smoothing:
        # The mean over all classes of -log p.
        of_all = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
        losses = (1 - smoothing) * losses + smoothing * of_all
    return weighted_term(name, losses, labels, weights)


def accuracy_term(name, logits, labels, weights=None) -> LossTerm:
    """Returns the accuracy as a `LossTerm`; the arguments are those of `cross_entropy_term`."""
    best = formulas_for(training=True).argmax(logits)
    is_right = ops.equal(best, ops.cast(labels, "int32"))
    return weighted_term(name, ops.cast(is_right, logits.dtype), labels, weights)


def binary_cross_entropy_term(name, logits, labels, weights=None) -> LossTerm:
    """Returns the binary cross-entropy of labels `[B, C]`, averaged over the labels, as a `LossTerm`; weights `[B]`."""
    # max(x, 0) - x * y + log(1 + exp(-|x|)) never overflows.
    losses = ops.relu(logits) - logits * ops.cast(labels, logits.dtype) + ops.log1p(ops.exp(-ops.abs(logits)))
    return weighted_term(name, ops.mean(losses, axis=-1), labels[..., 0], weights)


def binary_accuracy_term(name, logits, labels, weights=None) -> LossTerm:
    """Returns the share of right decisions for labels `[B, C]`, as a `LossTerm`; a logit above 0 predicts 1."""
    is_right = ops.equal(logits > 0, ops.cast(labels, "bool"))
    return weighted_term(name, ops.mean(ops.cast(is_right, logits.dtype), axis=-1), labels[..., 0], weights)


def squared_error_term(name, outputs, targets, weights=None) -> LossTerm:
    """Returns the squared error, averaged over the outputs `[B, C]` of each example, as a `LossTerm`."""
    errors = ops.mean(ops.square(outputs - ops.cast(targets, outputs.dtype)), axis=-1)
    return weighted_term(name, errors, targets[..., 0], weights)


def absolute_error_term(name, outputs, targets, weights=None) -> LossTerm:
    """Returns the absolute error, averaged over the outputs `[B, C]` of each example, as a `LossTerm`."""
    errors = ops.mean(ops.abs(outputs - ops.cast(targets, outputs.dtype)), axis=-1)
    return weighted_term(name, errors, targets[..., 0], weights)


def weighted_term(name, values, labels, weights, epsilon=0.0) -> LossTerm:
    """Returns the sum of values `[...]`, times their weights, as a `LossTerm`; `labels` have the same shape."""
    # Derived from the labels instead of the values, so that the sum of the weights does not depend on predictions.
    weights = ops.ones_like(labels, dtype=values.dtype) if weights is None else ops.cast(weights, values.dtype)
    return LossTerm(name, ops.sum(values * weights), ops.sum(weights), epsilon)


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


def example_weights(x, sample_weight):
    """Returns the weights `[B]` of a batch's examples, or None if all weights are 1.

    A weight is the product of `sample_weight`, as given to `fit`, and of two optional features: `example_weights`, and
    `is_real_example`, which is 0 for examples that only fill up the last batch, as in Google's records.
    """
    found = [] if sample_weight is None else [sample_weight]
    if isinstance(x, Mapping):
        found += [x[name] for name in (features.IS_REAL_EXAMPLE, features.EXAMPLE_WEIGHTS) if name in x]
    weights = None
    for values in found:
        values = ops.reshape(ops.cast(values, "float32"), (-1,))
        weights = values if weights is None else weights * values
    return weights


def with_weights(x: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Returns the features and the weights; the weights are among the features if the labels are: Keras drops them."""
    if y is not None or not isinstance(x, Mapping) or sample_weight is None:
        return x, sample_weight
    return {**x, features.EXAMPLE_WEIGHTS: ops.convert_to_numpy(sample_weight)}, None


def without_weights(x: Mapping) -> dict:
    return {name: values for name, values in x.items() if name != features.EXAMPLE_WEIGHTS}


def compared_parts(x: Any, y: Any, y_pred: Any, sample_weight: Any) -> tuple:
    """Returns the arguments of `loss_term`; those of `loss_terms` are given."""
    labels = x.get(features.LABEL_IDS) if y is None and isinstance(x, Mapping) else y
    numbers = x.get(features.TEXT_NUMBERS) if isinstance(x, Mapping) else None
    return y_pred, labels, numbers, example_weights(x, sample_weight)
