"""What users change in the layers of a model that is built: freezing, LoRA and Keras' quantisation.

A model's config says how to build it, so these changes are beside it in `.keras` files, pickles and copies. They are
made again before the weights and the state of the optimizer are loaded.
"""

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import keras

from keras_bert.program.atomic_output import atomic_named_file
from keras_bert.program.errors import InputError

# The key of the config with these settings.
LAYER_SETTINGS = "layer_settings"
# The modes of quantisation that need nothing but the weights.
_MODES = ("int8", "int4", "float8")


class NameWithTokenizer(str):
    """The name of a model in its config, with its tokenizer: `from_config` of this process gives it to the new model.

    In files it is the name alone. They have the vocabulary as an asset.
    """

    tokenizer: Any = None

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # as of other strings


def settings_of(model: keras.Model) -> dict[str, Any]:
    """Returns the settings of layers, by their paths; empty for a model as its class builds it.

    Raises:
        InputError: layers are quantised in a way that cannot be made again.
    """
    layers = _layers(model)
    frozen = [path for path, layer in layers.items() if not layer.trainable]
    weights = [
        f"{path}/{weight.name}"
        for path, layer in layers.items()
        if layer.trainable
        for weight in layer._trainable_variables
        if not weight.trainable
    ]
    lora = {p: [one.lora_rank, one.lora_alpha] for p, one in layers.items() if getattr(one, "lora_enabled", False)}
    quantized = {path: _quantization(layer) for path, layer in layers.items() if _mode(layer)}
    if not weights and not lora and not quantized and all(f"{path}/".startswith("encoder/pooler/") for path in frozen):
        return {}  # models whose outputs do not depend on the pooler freeze it themselves
    return {"frozen": frozen, "frozen_weights": weights, "lora": lora, "quantized": quantized}


def restore_settings(model: keras.Model, settings: Mapping[str, Any]) -> None:
    """Changes the layers of a new model as `settings_of` says."""
    layers = _layers(model)
    for path, config in settings["quantized"].items():
        config = keras.saving.deserialize_keras_object(config["config"])
        layers[path].quantize(config.mode, config=config)
    for path, (rank, alpha) in settings["lora"].items():
        largest = max(layers[path].kernel.shape)
        if not 0 < rank <= largest:
            raise InputError(
                f"{path}: the rank of LoRA must be 1 to {largest}, the width of its layer. Received: {rank}"
            )
        layers[path].enable_lora(rank, lora_alpha=alpha)
    frozen, weights = set(settings["frozen"]), set(settings["frozen_weights"])
    for layer in layers.values():
        layer.trainable = True
    for path, layer in layers.items():  # parents come before their parts
        if path in frozen:
            layer.trainable = False
        for weight in layer._trainable_variables:
            weight.trainable = weight.trainable and f"{path}/{weight.name}" not in weights


def save_lora(model: keras.Model, store: Any) -> None:
    """Writes the matrices of LoRA apart from the kernels. Keras' layers write their sum only."""
    for path, layer in _layers(model, into_models=False).items():
        if getattr(layer, "lora_enabled", False):
            for name in ("_kernel", "lora_kernel_a", "lora_kernel_b"):
                store[f"{path}/{name}".replace("/", ".")] = getattr(layer, name)


def load_lora(model: keras.Model, store: Any) -> None:
    """Lets Keras' layers with LoRA load what `save_lora` wrote, if it is there, when their turn comes."""
    for path, layer in _layers(model, into_models=False).items():
        if getattr(layer, "lora_enabled", False):
            names = {name: f"{path}/{name}".replace("/", ".") for name in ("_kernel", "lora_kernel_a", "lora_kernel_b")}
            stored = set(store.keys())
            values = {name: store[key][...] for name, key in names.items() if key in stored}
            layer.load_own_variables = functools.partial(_load_once, layer, values)


def _load_once(layer, values: Mapping, store: Any) -> None:
    """Loads the weights of a layer with LoRA in the place of its own method."""
    del layer.load_own_variables
    layer.load_own_variables(store)
    # Keras has set both matrices to 0, from where no training could move them.
    layer.lora_kernel_a.assign(keras.initializers.HeUniform()(layer.lora_kernel_a.shape))
    for name, value in values.items():
        getattr(layer, name).assign(value)


def check_can_be_written(model: keras.Model, how: str) -> None:
    """Raises `InputError` for a model that Keras has quantised; `how` is what would be written, for the message."""
    if any(_mode(layer) for layer in _layers(model).values()):
        raise InputError(
            f"This {type(model).__name__} was quantised by Keras, and {how} holds ordinary weights. Write it before "
            'quantize, or use model.save("model.keras").'
        )


def _mode(layer) -> str | None:
    return getattr(layer, "quantization_mode", None)


def _quantization(layer) -> dict:
    if _mode(layer) not in _MODES:
        raise InputError(
            f"A model in the quantisation {_mode(layer)} cannot be saved or copied. Use one of {', '.join(_MODES)}."
        )
    return {"config": keras.saving.serialize_keras_object(layer.quantization_config)}


def _layers(model, into_models: bool = True) -> dict[str, Any]:
    """Returns the layers below a model by their paths, such as `encoder/layer_0`, parents before their parts.

    Without `into_models`, the layers of a part that is a model itself, such as the encoder, are left out.
    """
    found: dict[str, Any] = {}
    seen = {id(model)}

    def visit(parent, prefix):
        for layer in parent._flatten_layers(include_self=False, recursive=False):
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            path, number = f"{prefix}{layer.name}", 1
            while path in found:
                number += 1
                path = f"{prefix}{layer.name}#{number}"
            found[path] = layer
            if into_models or not isinstance(layer, keras.Model):
                visit(layer, f"{path}/")

    visit(model, "")
    return found


def write_file(write: Callable, path: str | os.PathLike, overwrite: bool, ending: str) -> None:
    """Calls Keras' `write`: with a temporary name if it may write one local file without a question, else as it is."""
    name = os.fspath(path)
    if not name.endswith(ending) or "://" in name or os.path.isdir(name) or (os.path.exists(name) and not overwrite):
        write(path, overwrite=overwrite)
        return
    with atomic_named_file(path) as temporary:
        write(temporary)
