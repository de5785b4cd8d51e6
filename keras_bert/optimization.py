"""How BERT is optimised: AdamW with BERT's exclusions, and warm-up followed by linear decay."""

import math
import re
from collections.abc import Sequence

import keras
from keras import ops

from keras_bert.errors import InputError

# Google excludes what matches "LayerNorm", "layer_norm" or "bias". Keras calls the two weights of a LayerNorm gamma and
# beta whatever the layer is called, so those names are excluded too.
_NOT_DECAYED = re.compile(r"(layer_?norm(alization)?|bias|/gamma$|/beta$|^gamma$|^beta$)", re.IGNORECASE)
# The names that `BertEncoder` gives its parts.
_LAYER = re.compile(r"(?:^|/)layer_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/")


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(keras.optimizers.Optimizer):
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

    # Whether the slices of a row of an embedding are summed before they are clipped, as Keras' optimisers do not.
    sums_slices = True

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
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        self._is_decayed = [bool(self.weight_decay) and self._use_weight_decay(variable) for variable in variables]
        self._rate_multipliers = rate_multipliers([variable.path for variable in variables], self.layer_decay)

    def slots(self):
        """Returns `(variable, m, v)` for each variable that is trained; none before the first update."""
        return (
            list(zip(self._trainable_variables, self._momentums, self._velocities, strict=True)) if self.built else []
        )

    def _use_weight_decay(self, variable):
        # What a user excludes with `exclude_from_weight_decay` is excluded as well.
        path = getattr(variable, "path", variable.name)
        return not _NOT_DECAYED.search(path) and super()._use_weight_decay(variable)

    def _apply_weight_decay(self, variables):
        """Does nothing: the decay is a term of `update_step`, as in the formula."""

    def apply(self, grads, trainable_variables=None):
        # TensorFlow gives the gradient of an embedding as slices, one per looked-up row. Keras would accumulate and
        # clip the slices, not their sums.
        if _on_tensorflow() and not self._clips_slices():
            grads = [_tensorflow_kernels().dense_gradient(gradient) for gradient in grads]
        super().apply(grads, trainable_variables)

    def _clips_slices(self):
        return bool(self.global_clipnorm) and not self.gradient_accumulation_steps and self.loss_scale_factor is None

    def _clip_gradients(self, grads):
        if _on_tensorflow() and self._clips_slices():
            return _tensorflow_kernels().clip_by_global_norm(grads, self.global_clipnorm)
        return super()._clip_gradients(grads)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        dtype = variable.dtype
        rate, epsilon = ops.cast(learning_rate, dtype), ops.cast(self.epsilon, dtype)
        if self._rate_multipliers[index] != 1.0:
            rate = rate * self._rate_multipliers[index]
        if self._is_decayed[index]:
            self.assign_sub(variable, ops.convert_to_tensor(variable) * (rate * self.weight_decay))
        if self.bias_correction:
            # m / c1 / (sqrt(v / c2) + epsilon) = sqrt(c2) / c1 * m / (sqrt(v) + sqrt(c2) * epsilon), where the
            # factors are of numbers instead of tensors.
            step = ops.cast(self.iterations + 1, dtype)
            root = ops.sqrt(_one_minus_power(self.beta_2, step))
            rate, epsilon = rate * root / _one_minus_power(self.beta_1, step), epsilon * root
        if _on_tensorflow():
            _tensorflow_kernels().adam_update(
                variable, momentum.value, velocity.value, gradient, rate, epsilon, self.beta_1, self.beta_2
            )
            return
        gradient = ops.cast(gradient, dtype)
        self.assign(momentum, self.beta_1 * momentum + (1 - self.beta_1) * gradient)
        self.assign(velocity, self.beta_2 * velocity + (1 - self.beta_2) * ops.square(gradient))
        self.assign_sub(variable, rate * momentum / (ops.sqrt(velocity) + epsilon))

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
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


def _on_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _tensorflow_kernels():
    from keras_bert import tensorflow_kernels

    return tensorflow_kernels


def _one_minus_power(beta, step):
    """Returns `1 - beta ** step`, exact to the last bits: the plain form has an error of 6e-5 in float32 at step 1."""
    return -ops.expm1(step * math.log(beta)) if beta else ops.ones_like(step)


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate rises linearly to `peak` during warm-up and falls linearly to 0 at `num_train_steps`.

        step < num_warmup_steps:  peak * step / num_warmup_steps
        otherwise:                peak * (1 - step / num_train_steps)

    `step` counts the updates made so far, from 0, as Google's global step does: with warm-up the first update has a
    learning rate of 0. The decay is a line from `peak` at step 0, so the rate drops a little where warm-up ends; that,
    too, is Google's.

    Args:
        peak: the highest learning rate.
        num_train_steps: the step at which the learning rate is 0; it stays 0 afterwards.
        num_warmup_steps: 0 switches warm-up off.

    Raises:
        InputError: the numbers make no schedule.

    Example:
        >>> schedule = WarmupLinearDecay(peak=1e-4, num_train_steps=100, num_warmup_steps=10)
        >>> float(schedule(5)), float(schedule(10)), float(schedule(100))   # about 5e-05, 9e-05, 0

    Reference: google-research/bert `optimization.py`.
    """

    def __init__(self, peak, num_train_steps, num_warmup_steps=0):
        super().__init__()
        if peak < 0:
            raise InputError(f"The learning rate must not be negative. Received: {peak}")
        if num_train_steps < 1:
            raise InputError(f"num_train_steps must be at least 1. Received: {num_train_steps}")
        if not 0 <= num_warmup_steps <= num_train_steps:
            raise InputError(
                f"num_warmup_steps must be between 0 and num_train_steps={num_train_steps}. Received: "
                f"{num_warmup_steps}. About a tenth of num_train_steps is usual."
            )
        self.peak = peak
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rate = self.peak * (1.0 - ops.minimum(step, self.num_train_steps) / self.num_train_steps)
        if self.num_warmup_steps:
            warmup_rate = self.peak * step / self.num_warmup_steps
            rate = ops.where(step < self.num_warmup_steps, warmup_rate, rate)
        return rate

    def get_config(self):
        return {
            "peak": self.peak,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }
