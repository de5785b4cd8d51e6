"""The hidden activations that `bert_config.json` can name."""

from collections.abc import Callable

import keras

from keras_bert.layers.choosing import formulas_for
from keras_bert.program.options import check_choice

# Name -> function(values, training).
_ACTIVATIONS = {
    # Google's code computes the tanh approximation and calls it "gelu"; Hugging Face's "gelu" is the exact one.
    "gelu": lambda values, training=False: formulas_for(training).gelu(values, approximate=True),
    "gelu_erf": lambda values, training=False: formulas_for(training).gelu(values, approximate=False),
    "relu": lambda values, training=False: keras.ops.relu(values),
    "silu": lambda values, training=False: values * keras.ops.sigmoid(values),
    "tanh": lambda values, training=False: keras.ops.tanh(values),
    "linear": lambda values, training=False: values,
}


@keras.saving.register_keras_serializable(package="keras_bert")
class ActivatedDense(keras.layers.Dense):
    """A dense layer whose activation is named as in `BertConfig.hidden_act`.

    In training on TensorFlow, its GELU keeps fewer tensors for the backward pass than that of Keras. In inference it is
    that of Keras, which TensorFlow fuses with the product.

    Args:
        units: width of the outputs.
        activation_name: see `hidden_activation`.
        **arguments: further arguments of `keras.layers.Dense`.

    Call arguments:
        inputs: float `[..., H]`; the outputs are `[..., units]`.
        training: whether a backward pass follows.
    """

    def __init__(self, units, activation_name, **arguments):
        super().__init__(units, **arguments)
        self.activation_name = activation_name
        self._activate = hidden_activation(activation_name)

    def call(self, inputs, training=None):
        return self._activate(super().call(inputs, training=training), training)

    def get_config(self):
        config = super().get_config()
        del config["activation"]
        return {**config, "activation_name": self.activation_name}


def hidden_activation(name: str) -> Callable:
    """Returns the activation as `function(values, training=False)`. Raises `InputError` if none has this name."""
    check_choice("hidden_act", name, tuple(_ACTIVATIONS))
    return _ACTIVATIONS[name]
