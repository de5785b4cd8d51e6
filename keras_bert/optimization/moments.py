"""What AdamW and LAMB share: two moments of each gradient, BERT's exclusions, clipping of all gradients together."""

import contextlib
import math
import re

import keras
from keras import ops

from keras_bert.accelerate.backend import updates

# Google excludes what matches "LayerNorm", "layer_norm" or "bias". Keras calls the two weights of a LayerNorm gamma and
# beta whatever the layer is called, so those names are excluded too. Matched are the name of the variable and, for
# LayerNorm, that of its layer: a model may be called debias_bert.
_EXCLUDED = re.compile(r"layer_?norm[^/]*(/[^/]*)?$|bias[^/]*$|(^|/)(gamma|beta)$", re.IGNORECASE)


class MomentOptimizer(keras.optimizers.Optimizer):
    """Keeps `m` and `v` for each variable, knows which variables are regularised, and clips. Subclasses update.

    LayerNorm, biases and what a user names with `exclude_from_weight_decay` are left out of the weight decay.

    Of weights in 16 bits the moments, averages and sums are float32, and so is the update, which is rounded once: in
    bfloat16, 0.999 is 1, and squares of gradients are 0 in float16.

    Args:
        learning_rate: number or `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: 0 switches decay off.
        beta_1, beta_2, epsilon: the constants of Adam.
        global_clipnorm: the norm of all gradients together is scaled down to this; `None` switches clipping off.
        **kwargs: what every Keras optimiser takes.
    """

    # Whether the slices of a row of an embedding are summed before they are clipped, as Keras' optimisers do not.
    sums_slices = True

    def __init__(self, learning_rate, weight_decay, beta_1, beta_2, epsilon, global_clipnorm, name, **kwargs):
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
        self._once = None

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        self._is_excluded = [not self._use_weight_decay(variable) for variable in variables]

    def add_variable(self, shape, initializer="zeros", dtype=None, **arguments):
        return super().add_variable(
            shape, initializer, "float32" if dtype in ("float16", "bfloat16") else dtype, **arguments
        )

    def slots(self):
        """Returns `(variable, m, v)` for each variable that is trained; none before the first update."""
        return (
            list(zip(self._trainable_variables, self._momentums, self._velocities, strict=True)) if self.built else []
        )

    def _use_weight_decay(self, variable):
        # What a user excludes with `exclude_from_weight_decay` is excluded as well.
        path = getattr(variable, "path", variable.name)
        return not is_excluded(path) and super()._use_weight_decay(variable)

    def _apply_weight_decay(self, variables):
        """Does nothing: the decay is a term of `update_step`."""

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        self._once = _OnceEach()
        try:
            super()._backend_update_step(grads, trainable_variables, learning_rate)
        finally:
            self._once = None

    def _subtract(self, variable, change):
        """Subtracts a change, which may be wider than the variable."""
        if change.dtype == variable.dtype:
            self.assign_sub(variable, change)
        else:
            weights = ops.cast(ops.convert_to_tensor(variable), change.dtype)
            self.assign(variable, ops.cast(weights - change, variable.dtype))

    def _once_per_update(self, key, make):
        """Returns `make()`, which is called for the first variable of an update that asks for this key.

        What depends on the step alone would otherwise be in the graph once for each variable, and TensorFlow takes
        its time over every operation before the first step.
        """
        return make() if self._once is None else self._once.get(key, make)

    def apply(self, grads, trainable_variables=None):
        # TensorFlow gives the gradient of an embedding as slices, one per looked-up row. Keras would accumulate and
        # clip the slices, not their sums.
        if updates and not self._clips_slices():
            grads = [updates.dense_gradient(gradient) for gradient in grads]
        super().apply(grads, trainable_variables)

    def _clips_slices(self):
        return bool(self.global_clipnorm) and not self.gradient_accumulation_steps and self.loss_scale_factor is None

    def _clip_gradients(self, grads):
        if updates and self._clips_slices():
            return updates.clip_by_global_norm(grads, self.global_clipnorm)
        return super()._clip_gradients(grads)

    def finalize_variable_values(self, var_list):
        # Before the first update there is no average: Keras would make all weights 0. In float16 a run may begin with
        # updates that are left out.
        if self.use_ema and int(ops.convert_to_numpy(self.iterations)) == 0:
            return
        super().finalize_variable_values(var_list)

    def _update_model_variables_moving_average(self, trainable_variables):
        # Keras computes in the type of the variables, and in bfloat16 what an average keeps would be all of it.
        if self.use_ema:
            trainable_variables = [
                variable if average is None or average.dtype == variable.dtype else ops.cast(variable, average.dtype)
                for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True)
            ]
        super()._update_model_variables_moving_average(trainable_variables)

    def _overwrite_model_variables_with_average_value(self, trainable_variables):
        pairs = list(zip(trainable_variables, self._model_variables_moving_average, strict=True))
        if all(average is None or average.dtype == variable.dtype for variable, average in pairs):
            super()._overwrite_model_variables_with_average_value(trainable_variables)
            return
        for variable, average in pairs:
            if average is not None:
                variable.assign(ops.cast(average, variable.dtype))

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }


def is_excluded(path: str) -> bool:
    """Returns whether a variable of this path, such as `encoder/layer_0/attention/query/bias`, is not regularised."""
    return _EXCLUDED.search(path) is not None


class _OnceEach:
    """Values by key. A dictionary would be an attribute that Keras tracks and saves."""

    def __init__(self):
        self._values = {}

    def get(self, key, make):
        if key not in self._values:
            self._values[key] = make()
        return self._values[key]


def computed_after(gradient):
    """Returns a context whose operations wait for the gradient.

    TensorFlow begins a step with all that can be computed then. Products of the weights would be kept to its end.
    """
    return updates.computed_after(gradient) if updates else contextlib.nullcontext()


def one_minus_power(beta, step):
    """Returns `1 - beta ** step`, exact to the last bits: the plain form has an error of 6e-5 in float32 at step 1."""
    return -ops.expm1(step * math.log(beta)) if beta else ops.ones_like(step)
