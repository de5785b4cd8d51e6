"""LAMB: Adam with steps in proportion to the norm of each variable, for large batches."""

from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import updates
from keras_bert.optimization.moments import MomentOptimizer, computed_after, one_minus_power


@keras.saving.register_keras_serializable(package="keras_bert")
class LAMB(MomentOptimizer):
    """LAMB as published, with BERT's exclusions.

    Step t for a weight `w` with gradient `g` (all gradients are first clipped together to `global_clipnorm`):

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        update = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay * w
        w = w - learning_rate * |w| / |update| * update

    `|.|` is the norm of the whole variable; if one of the two norms is 0, their ratio is 1. LayerNorm, biases and the
    variables named in `exclude_from_weight_decay` get neither decay nor ratio, as in Google's code.

    Learning rates are larger than Adam's: a rate of 0.01 changes a weight by a hundredth of its norm. Unlike this one,
    Keras' `LAMB` adds the decay outside the ratio, and gives a ratio to biases too.

    Args:
        learning_rate: number or `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: the decay; 0 for none.
        beta_1, beta_2, epsilon: the constants of Adam; `epsilon` is added outside the root.
        global_clipnorm: the largest norm of all gradients together; None for no clipping.
        **kwargs: further arguments of Keras optimisers, such as `use_ema`.

    Example:
        >>> schedule = WarmupPolynomialDecay(peak=5e-3, num_train_steps=1000, num_warmup_steps=100, power=0.5)
        >>> optimizer = LAMB(schedule)  # for model.compile(optimizer=optimizer)

    Reference: You et al., 2019, arXiv 1904.00962, algorithm 2.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        global_clipnorm: float | None = 1.0,
        name: str = "lamb",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay, beta_1, beta_2, epsilon, global_clipnorm, name, **kwargs)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        dtype = self._momentums[index].dtype
        correction_1, correction_2 = self._once_per_update(dtype, lambda: self._corrections(dtype))
        with computed_after(gradient):
            gradient = ops.cast(updates.dense_gradient(gradient) if updates else gradient, dtype)
            momentum = self.beta_1 * self._momentums[index] + (1 - self.beta_1) * gradient
            velocity = self.beta_2 * self._velocities[index] + (1 - self.beta_2) * ops.square(gradient)
            self.assign(self._momentums[index], momentum)
            self.assign(self._velocities[index], velocity)
            update = momentum / correction_1 / (ops.sqrt(velocity / correction_2) + self.epsilon)
            rate = ops.cast(learning_rate, dtype)
            if not self._is_excluded[index]:
                weights = ops.cast(ops.convert_to_tensor(variable), dtype)
                if self.weight_decay:
                    update = update + self.weight_decay * weights
                rate = rate * _trust_ratio(weights, update)
            self._subtract(variable, rate * update)

    def _corrections(self, dtype):
        """Returns `1 - beta^t` for both moments: the total weight of all gradients in the averages m and v."""
        step = ops.cast(self.iterations + 1, dtype)
        return one_minus_power(self.beta_1, step), one_minus_power(self.beta_2, step)


def _trust_ratio(weights, update):
    """Returns `|weights| / |update|`, or 1 if a norm is 0, as a scalar of their dtype."""
    weights_norm, update_norm = (ops.sqrt(ops.sum(ops.square(tensor))) for tensor in (weights, update))
    both = ops.logical_and(weights_norm > 0, update_norm > 0)
    return ops.where(both, weights_norm / update_norm, ops.ones_like(update_norm))
