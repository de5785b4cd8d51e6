"""LAMB equals the algorithm of the paper in NumPy.

`tests/models/test_distributed_model.py` compares several devices with one.
"""

import numpy as np
import pytest
from optimization.test_optimization import IS_DECAYED, NAMES, keras_steps, random_problem

from keras_bert.optimization import LAMB


def paper_steps(weights, gradients, rates, *, decay, clip=1.0, b1=0.9, b2=0.999, epsilon=1e-6, excluded=None):
    """Algorithm 2 of arXiv 1904.00962 with phi(x) = x, in float64; excluded weights have no decay and a ratio of 1."""
    excluded = [not is_decayed for is_decayed in IS_DECAYED] if excluded is None else excluded
    x = [weight.astype("float64") for weight in weights]
    m, v = [0.0 * weight for weight in x], [0.0 * weight for weight in x]
    for t, (step_gradients, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = np.sqrt(sum((g**2).sum() for g in step_gradients))
        for i, g in enumerate(step_gradients):
            g = g * (clip / max(norm, clip) if clip else 1.0)
            m[i] = b1 * m[i] + (1 - b1) * g
            v[i] = b2 * v[i] + (1 - b2) * g * g
            r = (m[i] / (1 - b1**t)) / (np.sqrt(v[i] / (1 - b2**t)) + epsilon)
            if excluded[i]:
                x[i] = x[i] - rate * r
                continue
            direction = r + decay * x[i]
            norms = np.linalg.norm(x[i]), np.linalg.norm(direction)
            ratio = norms[0] / norms[1] if all(norms) else 1.0
            x[i] = x[i] - rate * ratio * direction
    return x


@pytest.mark.parametrize("decay", [0.0, 5.0])
@pytest.mark.parametrize("gradient_scale", [0.01, 10.0])
def test_lamb_is_the_algorithm_of_the_paper(decay, gradient_scale):
    weights, gradients = random_problem(num_steps=7, gradient_scale=gradient_scale)
    found = keras_steps(LAMB(0.05, weight_decay=decay), weights, gradients)
    expected = paper_steps(weights, gradients, [0.05] * 7, decay=decay)
    for name, left, right in zip(NAMES, found, expected, strict=True):
        # The rate is computed in float32 for every dtype of the weights.
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8, err_msg=name)


def test_where_a_norm_is_0_the_ratio_is_1():
    weights, gradients = random_problem(num_steps=3)
    zeros, no_gradients = [0 * weight for weight in weights], [[0 * g for g in step] for step in gradients]
    for case in ((zeros, gradients), (weights, no_gradients)):
        found = keras_steps(LAMB(0.1, weight_decay=0.0), *case)
        for left, right in zip(found, paper_steps(*case, [0.1] * 3, decay=0.0), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(found[0], weights[0])


def test_variables_that_a_user_excludes_have_neither_decay_nor_ratio():
    weights, gradients = random_problem(num_steps=4)
    optimizer = LAMB(0.1, weight_decay=0.3)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    found = keras_steps(optimizer, weights, gradients)
    expected = paper_steps(weights, gradients, [0.1] * 4, decay=0.3, excluded=[True, True, True])
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8)
