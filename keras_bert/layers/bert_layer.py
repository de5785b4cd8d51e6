"""`BertLayer`: the base class of the other layers; and the kernel of a dense layer with LoRA."""

import inspect
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.activations import ActivatedDense
from keras_bert.layers.dropout import Dropout


class BertLayer(keras.layers.Layer):
    """A layer whose config has all arguments of its constructor, also those of the base classes.

    Each argument is an attribute with the same name. The attribute of a fraction may be the `Dropout` that has it.
    """

    # Arguments that the config has not.
    not_in_config: tuple[str, ...] = ()

    def new_dense(
        self,
        name: str,
        units: int,
        inputs: int | None = None,
        initializer_range: float | None = None,
        **arguments: Any,
    ) -> keras.layers.Dense:
        """Returns a dense layer in this layer's dtype.

        Args:
            name: its name.
            units: width of its outputs.
            inputs: width of its inputs. The layer is built for it; None: it is not built yet.
            initializer_range: standard deviation of the initial kernel; None: `self.initializer_range`.
            **arguments: further arguments. With `activation_name`, it is an `ActivatedDense`.
        """
        deviation = self.initializer_range if initializer_range is None else initializer_range
        layer_class = ActivatedDense if "activation_name" in arguments else keras.layers.Dense
        initializer = keras.initializers.TruncatedNormal(stddev=deviation)
        dense = layer_class(units, kernel_initializer=initializer, dtype=self.dtype_policy, name=name, **arguments)
        if inputs is not None:
            dense.build((None, inputs))
        return dense

    def new_weight(self, name: str, shape: tuple[int, ...], autocast: bool = True) -> Any:
        """Returns a weight with random numbers of the standard deviation `self.initializer_range`.

        Without `autocast`, only the rows that are gathered of a table are cast in mixed precision.
        """
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=autocast)

    def get_config(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self._argument_names() if name not in self.not_in_config}
        rates = {name: value.rate for name, value in values.items() if isinstance(value, Dropout)}
        return {**super().get_config(), **values, **rates}

    def _argument_names(self) -> list[str]:
        classes = type(self).__mro__[: type(self).__mro__.index(BertLayer)]
        parameters = [
            parameter
            for its_class in classes
            if "__init__" in vars(its_class)
            for parameter in list(inspect.signature(its_class.__init__).parameters.values())[1:]
        ]
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [parameter.name for parameter in parameters if parameter.kind not in variable]


def merged_kernel(layer) -> np.ndarray:
    """Returns W + alpha / rank * A B of a layer with LoRA, `[in, out]`, in the dtype of W.

    Reference: Hu et al., 2021, arXiv 2106.09685.
    """
    kernel, a, b = (
        ops.convert_to_numpy(weight) for weight in (layer._kernel, layer.lora_kernel_a, layer.lora_kernel_b)
    )
    # In float64, so that only the final cast rounds.
    product = a.astype(np.float64) @ b.astype(np.float64)
    return (kernel.astype(np.float64) + layer.lora_alpha / layer.lora_rank * product).astype(kernel.dtype)
