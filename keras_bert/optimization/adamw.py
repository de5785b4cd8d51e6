"""AdamW as BERT uses it, with lower rates for lower layers if asked."""

import re
from collections.abc import Sequence

import keras
from keras import ops

from keras_bert.accelerate.backend import updates
from keras_bert.optimization.moments import MomentOptimizer, computed_after, one_minus_power
from keras_bert.program.errors import InputError

# The names that `BertEncoder` gives its parts.
_LAYER = re.compile(r"(?:^|.*/)layer_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/(?:layer_norm/)?[^/]+$")  # a model may be called embeddings


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay that leaves out LayerNorm and biases, as BERT uses it.

    One step, for a weight `w` with gradient `g` (clipped together with all others to `global_clipnorm`):

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        w = w - learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * w)

    With `bias_correction`, `m` and `v` in the last line are divided by `1 - beta^t` for the t-th update, which is Adam
    of the paper and `torch.optim.AdamW`. Google trained BERT without it. Small data sets are fine-tuned more stably
    with it (Mosbach et al., 2020, arXiv 2006.04884).

    With `layer_decay`, the learning rate of a variable is multiplied by `layer_decay ** (layers above it)`: 1 for the
    pooler and the head, `layer_decay` for the last layer of the encoder, the least for the embeddings. What the lower
    layers know is general and shall change less (Howard and Ruder, 2018, arXiv 1801.06146; Clark et al., 2020, arXiv
    2003.10555, whose code has one power more everywhere below the head).

    Args:
        learning_rate: number or `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: 0 switches decay off. It is multiplied by the learning rate, as in Google's code.
        beta_1, beta_2, epsilon: the constants of Adam; `epsilon` is added outside the root.
        bias_correction: see above.
        global_clipnorm: the norm of all gradients together is scaled down to this; `None` switches clipping off.
        layer_decay: see above; 1 gives all variables the same rate. It goes by the names of our models' layers.
        **kwargs: what every Keras optimiser takes, such as `use_ema` or `gradient_accumulation_steps`.

    Raises:
        InputError: `layer_decay` is not above 0 and at most 1.

    Example:
        >>> schedule = WarmupLinearDecay(peak=1e-4, num_train_steps=1000, num_warmup_steps=100)
        >>> model.compile(optimizer=AdamW(schedule, bias_correction=False))

    Reference: google-research/bert `optimization.py`; Loshchilov and Hutter, 2019, arXiv 1711.05101.
    """

    def __init__(
        self,
        learning_rate=5e-5,
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        bias_correction=True,
        global_clipnorm=1.0,
        layer_decay=1.0,
        name="adamw",
        **kwargs,
    ):
        if not 0 < layer_decay <= 1:
            raise InputError(f"layer_decay must be above 0 and at most 1. Received: {layer_decay}")
        super().__init__(learning_rate, weight_decay, beta_1, beta_2, epsilon, global_clipnorm, name, **kwargs)
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._rate_multipliers = rate_multipliers([variable.path for variable in variables], self.layer_decay)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        dtype, multiplier = momentum.dtype, self._rate_multipliers[index]
        decay, rate, epsilon = self._once_per_update(
            (dtype, multiplier), lambda: self._rates(dtype, learning_rate, multiplier)
        )
        is_decayed = self.weight_decay and not self._is_excluded[index]
        if variable.dtype != dtype:
            with computed_after(gradient):
                change = self._adam_change(gradient, momentum, velocity, rate, epsilon)
                if is_decayed:
                    change = change + ops.cast(ops.convert_to_tensor(variable), dtype) * decay
                self._subtract(variable, change)
            return
        if is_decayed:
            with computed_after(gradient):
                self.assign_sub(variable, ops.convert_to_tensor(variable) * decay)
        if updates:
            constants = self._once_per_update(dtype, lambda: updates.adam_constants(dtype, self.beta_1, self.beta_2))
            updates.adam_update(variable, momentum.value, velocity.value, gradient, rate, epsilon, constants)
            return
        self.assign_sub(variable, self._adam_change(gradient, momentum, velocity, rate, epsilon))

    def _adam_change(self, gradient, momentum, velocity, rate, epsilon):
        """Updates the moments and returns what Adam subtracts, in their type."""
        if updates:
            gradient = updates.dense_gradient(gradient)
        gradient = ops.cast(gradient, momentum.dtype)
        self.assign(momentum, self.beta_1 * momentum + (1 - self.beta_1) * gradient)
        self.assign(velocity, self.beta_2 * velocity + (1 - self.beta_2) * ops.square(gradient))
        return rate * momentum / (ops.sqrt(velocity) + epsilon)

    def _rates(self, dtype, learning_rate, multiplier: float):
        """Returns what decay multiplies weights by, the rate of the update, and its epsilon: scalars of the dtype."""
        rate, epsilon = ops.cast(learning_rate, dtype), ops.cast(self.epsilon, dtype)
        if multiplier != 1.0:
            rate = rate * multiplier
        decay = rate * self.weight_decay if self.weight_decay else None
        if self.bias_correction:
            # m / c1 / (sqrt(v / c2) + epsilon) = sqrt(c2) / c1 * m / (sqrt(v) + sqrt(c2) * epsilon), where the
            # factors are of numbers instead of tensors.
            step = ops.cast(self.iterations + 1, dtype)
            root = ops.sqrt(one_minus_power(self.beta_2, step))
            rate, epsilon = rate * root / one_minus_power(self.beta_1, step), epsilon * root
        return decay, rate, epsilon

    def get_config(self):
        return {
            **super().get_config(),
            "bias_correction": self.bias_correction,
            "layer_decay": self.layer_decay,
        }


def rate_multipliers(paths: Sequence[str], layer_decay: float) -> list[float]:
    """Returns what each variable's learning rate is multiplied by: `layer_decay ** (layers above it)`.

    >>> rate_multipliers(["m/embeddings/token_embeddings", "m/layer_0/x", "m/layer_1/x", "m/classifier/kernel"], 0.5)
    [0.125, 0.25, 0.5, 1.0]

    Raises:
        InputError: there is no layer that could have a lower rate.
    """
    layers = [_LAYER.search(path) for path in paths]
    num_layers = max((int(layer[1]) + 1 for layer in layers if layer), default=0)
    if layer_decay != 1 and not num_layers:
        raise InputError(
            f"layer_decay is {layer_decay}, but no layer of an encoder is trained. Its variables would be called "
            f"layer_0/..., layer_1/... Received: {', '.join(paths[:3])}, ... Leave layer_decay out."
        )
    multipliers = []
    for path, layer in zip(paths, layers, strict=True):
        above = num_layers + 1 if _EMBEDDINGS.search(path) else 0
        multipliers.append(layer_decay ** (num_layers - int(layer[1]) if layer else above))
    return multipliers
