"""StableAdamW equals the algorithm of the paper in NumPy."""

import numpy as np
from optimization.test_optimization import IS_DECAYED, NAMES, keras_steps, random_problem

from keras_bert.optimization import StableAdamW


def paper_steps(weights, gradients, rate, *, decay, b1=0.9, b2=0.999, epsilon=1e-6):
    """Algorithm 2 of arXiv 2304.13013 in float64, with its own recursion of corrected averages."""
    w = [weight.astype("float64") for weight in weights]
    v, u = [0.0 * weight for weight in w], [0.0 * weight for weight in w]
    for t, step_gradients in enumerate(gradients, start=1):
        hat_1, hat_2 = b1 * (1 - b1 ** (t - 1)) / (1 - b1**t), b2 * (1 - b2 ** (t - 1)) / (1 - b2**t)
        for i, g in enumerate(step_gradients):
            v[i] = hat_1 * v[i] + (1 - hat_1) * g
            u[i] = hat_2 * u[i] + (1 - hat_2) * g * g
            rms = np.sqrt(np.mean(g * g / np.maximum(u[i], epsilon**2)))
            step = rate / max(1.0, rms)
            w[i] = w[i] - step * (v[i] / (np.sqrt(u[i]) + epsilon) + (decay * w[i] if IS_DECAYED[i] else 0.0))
    return w


def test_it_is_the_algorithm_of_the_paper():
    weights, gradients = random_problem(num_steps=20, gradient_scale=0.1, seed=4)
    gradients[12] = [100 * gradient for gradient in gradients[12]]  # such a jump is what it makes smaller
    found = keras_steps(StableAdamW(0.05, weight_decay=0.3), weights, gradients)
    for name, left, right in zip(NAMES, found, paper_steps(weights, gradients, 0.05, decay=0.3), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8, err_msg=name)
