"""The formulas of explanations: points of integrated gradients, and attention rollout."""

import numpy as np
from keras import ops

QUADRATURES = ("gausslegendre", "riemann_trapezoid")


def quadrature(steps: int, name: str = "gausslegendre") -> tuple[np.ndarray, np.ndarray]:
    """Returns points and weights of an integral from 0 to 1, float64 `(steps,)` both.

    >>> quadrature(3, "riemann_trapezoid")
    (array([0. , 0.5, 1. ]), array([0.16666667, 0.33333333, 0.16666667]))

    Args:
        steps: the number of points.
        name: `gausslegendre`, or `riemann_trapezoid`: equal steps, where both ends count half and, as in captum, the
            weights add up to (steps - 1) / steps.
    """
    if name == "gausslegendre":
        points, weights = np.polynomial.legendre.leggauss(steps)
        return (1 + points) / 2, weights / 2
    weights = np.full(steps, 1 / steps)
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, steps), weights


def attention_rollout(attentions):
    """Returns how much of each token's input reaches each token's output, `[B, S, S]`; rows add up to 1.

    Half of a layer's output comes from its residual connection. Heads are averaged, and layers multiplied.

    Args:
        attentions: L tensors `[B, N, S, S]`, the probabilities of each layer, the first layer first.

    Reference: Abnar and Zuidema, 2020, arXiv 2005.00928, section 3.
    """
    result = None
    for attention in attentions:
        mean = ops.mean(ops.cast(attention, "float32"), axis=1)
        mixed = (mean + ops.eye(ops.shape(mean)[-1], dtype=mean.dtype)) / 2
        mixed = mixed / ops.sum(mixed, axis=-1, keepdims=True)
        result = mixed if result is None else ops.matmul(mixed, result)
    return result
