"""The common base of all optimisers: two moments per variable, BERT's exclusions, clipping by the global norm."""

import contextlib
import math
import re
import types
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import updates

# Google excludes names that contain "LayerNorm", "layer_norm" or "bias". Keras calls the weights of a LayerNorm gamma
# and beta, so these are excluded too. Only the names of the variable and, for LayerNorm, of its layer count, because a
# model may be called debias_bert.
_EXCLUDED = re.compile(r"layer_?norm[^/]*(/[^/]*)?$|bias[^/]*$|(^|/)(gamma|beta)$", re.IGNORECASE)


class MomentOptimizer(keras.optimizers.Optimizer):
    """An optimiser that keeps two moments, `m` and `v`, of each variable. Subclasses define the update.

    LayerNorm, biases and the variables named in `exclude_from_weight_decay` have no weight decay.

    For 16-bit weights, moments, averages, sums and the update are float32; only the new weight is rounded. In bfloat16,
    0.999 would be 1, and in float16 squares of gradients would be 0. The arguments are those of `AdamW`.
    """

    # Whether the slices of an embedding's gradient are summed before clipping. Keras' optimisers do not sum them.
    sums_slices = True
    # Whether `apply` adds up the gradients of the devices of a tf.distribute strategy. Keras' optimisers clip the
    # gradients of each device first. `DistributedModel` switches it off, because it adds them up itself.
    sums_devices = True

    def __init__(
        self,
        learning_rate: Any,
        weight_decay: float,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        global_clipnorm: float | None,
        name: str,
        **kwargs: Any,
    ):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            global_clipnorm=global_clipnorm,
            name=name,
            **kwargs,
        )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self._update_cache = None

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        self._is_excluded = [not self._use_weight_decay(variable) for variable in variables]

    def add_variable(self, shape: Any, initializer: Any = "zeros", dtype: Any = None, **arguments: Any) -> Any:
        return super().add_variable(
            shape, initializer, "float32" if dtype in ("float16", "bfloat16") else dtype, **arguments
        )

    def slots(self) -> Any:
        """Returns `(variable, m, v)` for each trained variable, or an empty list before the first update."""
        return (
            list(zip(self._trainable_variables, self._momentums, self._velocities, strict=True)) if self.built else []
        )

    def _use_weight_decay(self, variable):
        # Keras checks the user's `exclude_from_weight_decay`.
        path = getattr(variable, "path", variable.name)
        return not is_excluded(path) and super()._use_weight_decay(variable)

    def _apply_weight_decay(self, variables):
        """Does nothing: the decay is a term of `update_step`."""

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        self._update_cache = types.SimpleNamespace(values={})  # Keras would track and save a dictionary
        try:
            super()._backend_update_step(grads, trainable_variables, learning_rate)
        finally:
            self._update_cache = None

    def _subtract(self, variable, change):
        """Subtracts a change, whose dtype may be wider than the variable's, and rounds once."""
        if change.dtype == variable.dtype:
            self.assign_sub(variable, change)
        else:
            weights = ops.cast(ops.convert_to_tensor(variable), change.dtype)
            self.assign(variable, ops.cast(weights - change, variable.dtype))

    def _once_per_update(self, key, make):
        """Returns `make()`, but calls it only for the first variable of an update that asks for this key.

        Otherwise the graph would compute values that depend on the step alone once for each variable. Each operation
        adds to the time before the first step.
        """
        if self._update_cache is None:
            return make()
        values = self._update_cache.values
        if key not in values:
            values[key] = make()
        return values[key]

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        if updates and self.sums_devices:
            grads = updates.summed_over_devices(grads)
        # In TensorFlow, an embedding's gradient consists of slices, one per looked-up token. Keras would accumulate and
        # clip these slices instead of their sums.
        if updates and not self._clips_slices():
            grads = [updates.dense_gradient(gradient) for gradient in grads]
        super().apply(grads, trainable_variables)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return grads_and_vars  # `apply` has added them up

    def _clips_slices(self):
        return bool(self.global_clipnorm) and not self.gradient_accumulation_steps and self.loss_scale_factor is None

    def _clip_gradients(self, grads):
        if updates and self._clips_slices():
            return updates.clip_by_global_norm(grads, self.global_clipnorm)
        return super()._clip_gradients(grads)

    def finalize_variable_values(self, var_list: Any) -> None:
        # Before the first update there is no average, and Keras would set all weights to 0. A float16 run may begin
        # with skipped updates.
        if self.use_ema and int(ops.convert_to_numpy(self.iterations)) == 0:
            return
        super().finalize_variable_values(var_list)

    def _update_model_variables_moving_average(self, trainable_variables):
        # Keras computes in the dtype of the variables. In bfloat16 the momentum of the average would be rounded to 1.
        if self.use_ema:
            trainable_variables = [
                variable if average is None or average.dtype == variable.dtype else ops.cast(variable, average.dtype)
                for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True)
            ]
        super()._update_model_variables_moving_average(trainable_variables)

    def _overwrite_model_variables_with_average_value(self, trainable_variables):
        pairs = list(zip(trainable_variables, self._model_variables_moving_average, strict=True))
        if updates and all(average is None or average.dtype == variable.dtype for variable, average in pairs):
            super()._overwrite_model_variables_with_average_value(trainable_variables)
            return
        for variable, average in pairs:
            if average is not None:
                # A copy, because steps on JAX delete their inputs: the weight and its average would be one array.
                variable.assign(ops.copy(ops.cast(average, variable.dtype)))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }


def is_excluded(path: str) -> bool:
    """Returns whether a variable has no weight decay: "encoder/layer_0/attention/query/bias" -> True."""
    return _EXCLUDED.search(path) is not None


def computed_after(gradient):
    """Returns a context whose operations run after the gradient is computed.

    TensorFlow runs operations as soon as it can. Products of weights would be computed at the start of a step and take
    memory until its end.
    """
    return updates.computed_after(gradient) if updates else contextlib.nullcontext()


def one_minus_power(beta, step):
    """Returns `1 - beta ** step` without rounding errors, which are 6e-5 at step 1 in float32 in the plain form."""
    return -ops.expm1(step * math.log(beta)) if beta else ops.ones_like(step)
