"""The hidden activations that `bert_config.json` can name."""

import functools
from collections.abc import Callable

import keras

from keras_bert.errors import InputError

_ACTIVATIONS = {
    # Google's code computes the tanh approximation and calls it "gelu"; Hugging Face's "gelu" is the exact one.
    "gelu": functools.partial(keras.ops.gelu, approximate=True),
    "gelu_erf": functools.partial(keras.ops.gelu, approximate=False),
    "relu": keras.ops.relu,
    "tanh": keras.ops.tanh,
    "linear": lambda values: values,
}


def hidden_activation(name: str) -> Callable:
    """Returns the function that `hidden_act` names.

    Raises:
        InputError: `name` is none of the activations of `BertConfig`.
    """
    if name not in _ACTIVATIONS:
        raise InputError(f"hidden_act must be one of {', '.join(_ACTIVATIONS)}. Received: {name!r}")
    return _ACTIVATIONS[name]
