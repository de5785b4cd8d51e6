"""What is optimised: sums and weights, which become means only after all parts of a batch have been added up."""

import dataclasses
from typing import Any

from keras import ops

from keras_bert.layers.choosing import formulas_for


@dataclasses.dataclass(frozen=True)
class LossTerm:
    """One part of a loss: `numerator / (weight + epsilon)`, kept apart.

    A batch that is split over devices or accumulation steps has the same loss as a whole one only when numerators and
    weights are summed over the parts before the division.

    Attributes:
        name: what metrics call it.
        numerator: scalar tensor, the weighted sum of the single losses.
        weight: scalar tensor, the sum of the weights.
        epsilon: added to the weight.
    """

    name: str
    numerator: Any
    weight: Any
    epsilon: float = 0.0

    @property
    def value(self):
        """The mean; 0 where the weight is 0."""
        return ops.divide_no_nan(self.numerator, self.weight + self.epsilon)


def cross_entropy_term(name, logits, labels, weights=None, epsilon=0.0) -> LossTerm:
    """Returns the cross-entropy of integer labels as a `LossTerm`.

    Args:
        logits: float `[..., C]`.
        labels: int `[...]`, each below C.
        weights: `[...]`; 1 for every label when not given.
    """
    losses = formulas_for(training=True).cross_entropy(logits, labels)
    return _weighted_sum(name, losses, labels, weights, epsilon)


def accuracy_term(name, logits, labels, weights=None) -> LossTerm:
    """Returns the share of labels whose logit is the largest, as a `LossTerm` that is not optimised."""
    best = formulas_for(training=True).argmax(logits)
    is_right = ops.equal(best, ops.cast(labels, "int32"))
    return _weighted_sum(name, ops.cast(is_right, logits.dtype), labels, weights)


def binary_cross_entropy_term(name, logits, labels, weights=None) -> LossTerm:
    """Returns the cross-entropy of independent labels, its mean over them, as a `LossTerm`.

    Args:
        logits: float `[B, C]`.
        labels: 0 or 1, `[B, C]`.
        weights: `[B]`; 1 for every example when not given.
    """
    # max(x, 0) - x * y + log(1 + exp(-|x|)) overflows nowhere.
    losses = ops.relu(logits) - logits * ops.cast(labels, logits.dtype) + ops.log1p(ops.exp(-ops.abs(logits)))
    return _weighted_sum(name, ops.mean(losses, axis=-1), labels[..., 0], weights)


def binary_accuracy_term(name, logits, labels, weights=None) -> LossTerm:
    """Returns the share of labels, `[B, C]`, that are 1 where the logit is above 0 and 0 elsewhere."""
    is_right = ops.equal(logits > 0, ops.cast(labels, "bool"))
    return _weighted_sum(name, ops.mean(ops.cast(is_right, logits.dtype), axis=-1), labels[..., 0], weights)


def squared_error_term(name, outputs, targets, weights=None) -> LossTerm:
    """Returns the squared error, its mean over the outputs `[B, C]` of an example, as a `LossTerm`."""
    errors = ops.mean(ops.square(outputs - ops.cast(targets, outputs.dtype)), axis=-1)
    return _weighted_sum(name, errors, targets[..., 0], weights)


def absolute_error_term(name, outputs, targets, weights=None) -> LossTerm:
    """Returns the absolute error, its mean over the outputs `[B, C]` of an example, as a `LossTerm`."""
    errors = ops.mean(ops.abs(outputs - ops.cast(targets, outputs.dtype)), axis=-1)
    return _weighted_sum(name, errors, targets[..., 0], weights)


def _weighted_sum(name, values, labels, weights, epsilon=0.0):
    # Made from the labels and not from the values, so that the sum of the weights needs no prediction.
    weights = ops.ones_like(labels, dtype=values.dtype) if weights is None else ops.cast(weights, values.dtype)
    return LossTerm(name, ops.sum(values * weights), ops.sum(weights), epsilon)
