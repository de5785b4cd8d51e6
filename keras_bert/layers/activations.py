"""The hidden activations that `bert_config.json` can name."""

import functools
import math
from collections.abc import Callable

import keras

from keras_bert.accelerate.backend import tensorflow_kernels
from keras_bert.program.errors import InputError


def _tanh_gelu(values):
    """Keras' tanh form of GELU, whose gradient in float16 is finite too.

    The cubes of float16 are infinite from 41 on, and tanh has no slope there: 0 times infinity is NaN.
    """
    if keras.backend.standardize_dtype(values.dtype) != "float16":
        return keras.ops.gelu(values, approximate=True)
    near = keras.ops.clip(values, -16.0, 16.0)  # beyond, tanh is 1 or -1 in all types
    cubes = keras.ops.power(near, 3)
    return 0.5 * values * (1.0 + keras.ops.tanh(math.sqrt(2 / math.pi) * (near + 0.044715 * cubes)))


_ACTIVATIONS = {
    # Google's code computes the tanh approximation and calls it "gelu"; Hugging Face's "gelu" is the exact one.
    "gelu": _tanh_gelu,
    "gelu_erf": functools.partial(keras.ops.gelu, approximate=False),
    "relu": keras.ops.relu,
    "tanh": keras.ops.tanh,
    "linear": lambda values: values,
}


@keras.saving.register_keras_serializable(package="keras_bert")
class ActivatedDense(keras.layers.Dense):
    """`keras.layers.Dense` whose GELU keeps less for the backward pass, where Keras runs on TensorFlow.

    Outside of training it is Keras' own, which TensorFlow computes in one operation.

    Args:
        activation_name: as in `BertConfig.hidden_act`.
        arguments: as of `keras.layers.Dense`.
    """

    def __init__(self, units, activation_name, **arguments):
        super().__init__(units, **arguments)
        self.activation_name = activation_name
        self._activate = hidden_activation(activation_name)

    def call(self, inputs, training=None):
        values = super().call(inputs, training=training)
        if tensorflow_kernels and training and self.activation_name in ("gelu", "gelu_erf"):
            return tensorflow_kernels.gelu(values, approximate=self.activation_name == "gelu")
        return self._activate(values)

    def get_config(self):
        config = super().get_config()
        del config["activation"]
        return {**config, "activation_name": self.activation_name}


def hidden_activation(name: str) -> Callable:
    """Returns the function that `hidden_act` names.

    Raises:
        InputError: `name` is none of the activations of `BertConfig`.
    """
    if name not in _ACTIVATIONS:
        raise InputError(f"hidden_act must be one of {', '.join(_ACTIVATIONS)}. Received: {name!r}")
    return _ACTIVATIONS[name]
