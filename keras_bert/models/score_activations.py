"""The activations of a `CrossEncoder`'s scores. Imports no Keras, since loaded exports have them too."""

from collections.abc import Callable

import numpy as np

# Name -> function of outputs.
SCORE_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda outputs: 0.5 * (1 + np.tanh(0.5 * outputs)),  # this form cannot overflow
    "linear": lambda outputs: outputs,
    "tanh": np.tanh,
    "relu": lambda outputs: np.maximum(outputs, 0),
}
