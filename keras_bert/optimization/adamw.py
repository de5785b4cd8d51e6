"""AdamW as BERT uses it, with lower learning rates for lower layers if requested."""

import re
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import updates
from keras_bert.optimization.moments import MomentOptimizer, computed_after, one_minus_power
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number

# The names of these parts of a `BertEncoder` in the paths of variables.
_LAYER = re.compile(r"(?:^|.*/)layer_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/(?:layer_norm/)?[^/]+$")  # the model itself may be called embeddings


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay, which skips LayerNorm and biases, as BERT uses it.

    One step for a weight `w` with gradient `g` (all gradients are first clipped together to `global_clipnorm`):

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        w = w - learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * w)

    With `bias_correction`, `m` and `v` in the last line are divided by `1 - beta_1^t` and `1 - beta_2^t` in update t,
    as in the paper and in `torch.optim.AdamW`. Google trained BERT without it. It makes fine-tuning on small data sets
    more stable (Mosbach et al., 2020, arXiv 2006.04884).

    With `layer_decay`, the learning rate of a variable is multiplied by `layer_decay ** (number of layers above it)`:
    by 1 for the pooler and the head, by `layer_decay` for the last layer of the encoder, and by the smallest factor for
    the embeddings. Lower layers hold more general knowledge and should change less (Howard and Ruder, 2018, arXiv
    1801.06146; Clark et al., 2020, arXiv 2003.10555, whose code has one more power everywhere below the head).

    Args:
        learning_rate: number or `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: the decay, which is multiplied by the learning rate as in Google's code. 0 for none.
        beta_1, beta_2, epsilon: the constants of Adam; `epsilon` is added outside the root.
        bias_correction: see above.
        global_clipnorm: the largest norm of all gradients together; None for no clipping.
        layer_decay: see above. It recognises layers by the names in our models. 1 gives all variables the same rate.
        **kwargs: further arguments of Keras optimisers, such as `use_ema` or `gradient_accumulation_steps`.

    Raises:
        InputError: `layer_decay` is not above 0 and at most 1.

    Example:
        >>> schedule = WarmupLinearDecay(peak=1e-4, num_train_steps=1000, num_warmup_steps=100)
        >>> optimizer = AdamW(schedule, bias_correction=False)  # for model.compile(optimizer=optimizer)

    Reference: google-research/bert `optimization.py`; Loshchilov and Hutter, 2019, arXiv 1711.05101.
    """

    def __init__(
        self,
        learning_rate: Any = 5e-5,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = True,
        global_clipnorm: float | None = 1.0,
        layer_decay: float = 1.0,
        name: str = "adamw",
        **kwargs: Any,
    ):
        check_number("layer_decay", layer_decay, above=0, at_most=1)
        super().__init__(learning_rate, weight_decay, beta_1, beta_2, epsilon, global_clipnorm, name, **kwargs)
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self._rate_multipliers = rate_multipliers([variable.path for variable in variables], self.layer_decay)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
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
        """Updates the moments and returns the number that Adam subtracts from the variable, in their dtype."""
        if updates:
            gradient = updates.dense_gradient(gradient)
        gradient = ops.cast(gradient, momentum.dtype)
        self.assign(momentum, self.beta_1 * momentum + (1 - self.beta_1) * gradient)
        self.assign(velocity, self.beta_2 * velocity + (1 - self.beta_2) * ops.square(gradient))
        return rate * momentum / (ops.sqrt(velocity) + epsilon)

    def _rates(self, dtype, learning_rate, multiplier: float):
        """Returns the factor of decay, the learning rate and epsilon for a dtype and multiplier, as scalars."""
        rate, epsilon = ops.cast(learning_rate, dtype), ops.cast(self.epsilon, dtype)
        if multiplier != 1.0:
            rate = rate * multiplier
        decay = rate * self.weight_decay if self.weight_decay else None
        if self.bias_correction:
            # With c = 1 - beta^t: m / c1 / (sqrt(v / c2) + epsilon) = sqrt(c2) / c1 * m / (sqrt(v) + sqrt(c2) *
            # epsilon). So only scalars are corrected, no tensors.
            step = ops.cast(self.iterations + 1, dtype)
            root = ops.sqrt(one_minus_power(self.beta_2, step))
            rate, epsilon = rate * root / one_minus_power(self.beta_1, step), epsilon * root
        return decay, rate, epsilon

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "bias_correction": self.bias_correction, "layer_decay": self.layer_decay}


def is_in_layer(path: str) -> bool:
    """Returns whether a variable belongs to a layer of an encoder: "encoder/layer_0/attention/query/kernel" -> True."""
    return _LAYER.search(path) is not None


def rate_multipliers(paths: Sequence[str], layer_decay: float) -> list[float]:
    """Returns the factor of each variable's learning rate: `layer_decay ** (number of layers above it)`.

    >>> rate_multipliers(["m/embeddings/token_embeddings", "m/layer_0/x", "m/layer_1/x", "m/classifier/kernel"], 0.5)
    [0.125, 0.25, 0.5, 1.0]

    Raises:
        InputError: `layer_decay` is not 1, but no path belongs to a layer of an encoder.
    """
    layers = [_LAYER.search(path) for path in paths]
    num_layers = max((int(layer[1]) + 1 for layer in layers if layer), default=0)
    if layer_decay != 1 and not num_layers:
        raise InputError(
            f"layer_decay is {layer_decay}, but no layer of an encoder is trained: no variable is named layer_0/..., "
            f"layer_1/... Received: {', '.join(paths[:3])}, ... Leave layer_decay out."
        )
    multipliers = []
    for path, layer in zip(paths, layers, strict=True):
        above = num_layers + 1 if _EMBEDDINGS.search(path) else 0
        multipliers.append(layer_decay ** (num_layers - int(layer[1]) if layer else above))
    return multipliers
