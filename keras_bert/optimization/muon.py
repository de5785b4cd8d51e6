"""Muon for the matrices of an encoder's layers, with AdamW for all other variables."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.optimization.adamw import AdamW, is_in_layer
from keras_bert.optimization.moments import computed_after, is_excluded
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number

_NUM_ITERATIONS = 5
# The coefficients of the quintic iteration: all singular values end between about 0.7 and 1.2.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
# The root mean square of AdamW's updates, so that both parts take the same learning rate.
_UPDATE_RMS = 0.2


@keras.saving.register_keras_serializable(package="keras_bert")
class Muon(AdamW):
    """Muon for the matrices of an encoder's layers, and AdamW for embeddings, heads, the pooler and vectors.

    One step for a matrix `W` of shape `(rows, columns)` with gradient `G`:

        M = momentum * M + (1 - momentum) * G
        O = newton_schulz(momentum * M + (1 - momentum) * G)
        W = W - learning_rate * (0.2 * sqrt(max(rows, columns)) * O + weight_decay * W)

    `newton_schulz` replaces the singular values of a matrix by numbers near 1. The factor gives the update of a matrix
    a root mean square of about 0.2, which is that of AdamW. So all variables have one learning rate, one schedule and
    one decay. A matrix has one moment, and so half of AdamW's state.

    Args:
        learning_rate: number or `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay, global_clipnorm, layer_decay: as in `AdamW`, for all variables.
        momentum: the decay rate of the average of a matrix's gradients.
        **kwargs: further arguments of `AdamW`, for the other variables, and of Keras optimisers.

    Raises:
        InputError: `momentum` is not at least 0 and below 1; or (from `build`) no variable is a matrix of an encoder's
            layer.

    Reference: Jordan et al., 2024, https://kellerjordan.github.io/posts/muon; the factor and the decay are those of Liu
    et al., 2025, arXiv 2502.16982.
    """

    def __init__(
        self,
        learning_rate: Any = 5e-5,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        name: str = "muon",
        **kwargs: Any,
    ):
        check_number("momentum", momentum, at_least=0, below=1)
        super().__init__(learning_rate, weight_decay, name=name, **kwargs)
        self.momentum = momentum

    def build(self, variables: Sequence[Any]) -> None:
        if not any(map(is_layer_matrix, variables)):
            raise InputError(
                "Muon is for the matrices of an encoder's layers, but among the trained variables is none: "
                f"{', '.join(variable.path for variable in variables[:3])}, ... Use adamw."
            )
        super().build(variables)

    def add_variable_from_reference(self, reference_variable: Any, name: str | None = None, **arguments: Any) -> Any:
        if name == "velocity" and is_layer_matrix(reference_variable):
            return None
        return super().add_variable_from_reference(reference_variable, name, **arguments)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        if self._velocities[index] is not None:
            super().update_step(gradient, variable, learning_rate)
            return
        average = self._momentums[index]
        rate = ops.cast(learning_rate, average.dtype) * self._rate_multipliers[index]
        with computed_after(gradient):
            gradient = ops.cast(gradient, average.dtype)
            mixed = self.momentum * average + (1 - self.momentum) * gradient
            self.assign(average, mixed)
            direction = orthogonalized(self.momentum * mixed + (1 - self.momentum) * gradient)
            change = (_UPDATE_RMS * max(variable.shape) ** 0.5) * direction
            if self.weight_decay and not self._is_excluded[index]:
                change = change + self.weight_decay * ops.cast(ops.convert_to_tensor(variable), average.dtype)
            self._subtract(variable, rate * change)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "momentum": self.momentum}


def is_layer_matrix(variable: Any) -> bool:
    """Returns whether a variable is a matrix in a layer of an encoder, and no bias."""
    return len(variable.shape) == 2 and is_in_layer(variable.path) and not is_excluded(variable.path)


def orthogonalized(matrix: Any) -> Any:
    """Returns about `U V^T` for the matrix `U S V^T`, by five steps of a Newton-Schulz iteration."""
    a, b, c = _COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.transpose(matrix) if is_tall else matrix
    x = x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7)
    for _ in range(_NUM_ITERATIONS):
        gram = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * gram + c * ops.matmul(gram, gram), x)
    return ops.transpose(x) if is_tall else x
