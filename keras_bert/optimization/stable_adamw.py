"""StableAdamW: AdamW whose update is clipped for each variable by itself."""

from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import updates
from keras_bert.optimization.adamw import AdamW
from keras_bert.optimization.moments import computed_after, one_minus_power


@keras.saving.register_keras_serializable(package="keras_bert")
class StableAdamW(AdamW):
    """AdamW with Adafactor's update clipping, with BERT's exclusions from the decay.

    Step t for a variable `w` with gradient `g`:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        m', v' = m / (1 - beta_1^t), v / (1 - beta_2^t)
        rms = sqrt(mean(g^2 / max(v', epsilon^2)))
        w = w - learning_rate / max(1, rms) * (m' / (sqrt(v') + epsilon) + weight_decay * w)

    `rms` is near 1 while the gradients of a variable have their usual size. After a jump, before `v` has followed,
    the step becomes smaller in proportion. This replaces the clipping of the global norm, which is off by default.

    Args:
        learning_rate: number or `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay, beta_1, beta_2, epsilon, layer_decay: as in `AdamW`.
        global_clipnorm: the largest norm of all gradients together; None for no clipping.
        **kwargs: further arguments of Keras optimisers, such as `use_ema`. The bias is always corrected.

    Raises:
        InputError: `layer_decay` is not above 0 and at most 1.

    Reference: Wortsman et al., 2023, arXiv 2304.13013, algorithm 2; used by ModernBERT, arXiv 2412.13663.
    """

    def __init__(
        self,
        learning_rate: Any = 5e-5,
        weight_decay: float = 0.01,
        global_clipnorm: float | None = None,
        name: str = "stable_adamw",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay, global_clipnorm=global_clipnorm, name=name, **kwargs)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        dtype, multiplier = momentum.dtype, self._rate_multipliers[index]
        decay, rate, epsilon = self._once_per_update(
            (dtype, multiplier), lambda: self._rates(dtype, learning_rate, multiplier)
        )
        correction = self._once_per_update(
            dtype, lambda: one_minus_power(self.beta_2, ops.cast(self.iterations + 1, dtype))
        )
        with computed_after(gradient):
            gradient = ops.cast(updates.dense_gradient(gradient) if updates else gradient, dtype)
            change = self._adam_change(gradient, momentum, velocity, rate, epsilon)
            if self.weight_decay and not self._is_excluded[index]:
                change = change + ops.cast(ops.convert_to_tensor(variable), dtype) * decay
            corrected = ops.maximum(velocity / correction, self.epsilon**2)
            rms = ops.sqrt(ops.mean(ops.square(gradient) / corrected))
            self._subtract(variable, change / ops.maximum(rms, 1.0))
