"""Reads, starts and names the weights of a model, and the moments of its Adam, as in checkpoints."""

import contextlib
import copy
import functools
from collections.abc import Iterator

import numpy as np

from keras_bert.checkpoints.checkpoint import ENCODER, GENERATOR, AdamSlots, StoredTensor, numpy_dtype
from keras_bert.layers.bert_layer import merged_kernel
from keras_bert.models.trainable_parts import LORA_WEIGHTS, lora_layers
from keras_bert.optimization import AdamW, Muon
from keras_bert.program.errors import InputError
from keras_bert.program.private_interfaces import private


def model_weights(model) -> dict:
    """Returns name -> Keras variable: `encoder/layer_0/attention/query/kernel`, `masked_lm_head/output_bias`.

    The names do not depend on the name of the model, nor on whether it is an encoder or contains one. The matrices of
    LoRA are not listed: see `tensors_of`. Those of a `generator` that the encoder does not share begin with its name.
    """
    encoder = getattr(model, "encoder", model)
    weights = {f"{ENCODER}/{_inside(weight.path, encoder.name)}": weight for weight in encoder.weights}
    if encoder is not model:
        known = {id(weight) for weight in encoder.weights}
        if hasattr(model, GENERATOR):
            own = {name: weight for name, weight in model_weights(model.generator).items() if id(weight) not in known}
            weights |= {f"{GENERATOR}/{name}": weight for name, weight in own.items()}
            known |= {id(weight) for weight in own.values()}
        weights |= {_inside(weight.path, model.name): weight for weight in model.weights if id(weight) not in known}
    return {name: weight for name, weight in weights.items() if weight.name not in LORA_WEIGHTS}


def tensors_of(model) -> dict[str, StoredTensor]:
    """Returns name -> tensor, which is copied from the model when it is read. LoRA is merged into the kernels."""
    tensors = {name: tensor_of(weight) for name, weight in model_weights(model).items()}
    names = {id(weight): name for name, weight in model_weights(model).items()}
    for layer in lora_layers(model):
        name = names[id(layer._kernel)]
        tensors[name] = StoredTensor(tensors[name].shape, tensors[name].dtype, functools.partial(merged_kernel, layer))
    return tensors


@contextlib.contextmanager
def variables_made_last() -> Iterator[list]:
    """A context in which a model is created without initial values; they are assigned when the context ends.

    So values from a checkpoint can replace the random initial values, which would take two seconds and twice the memory
    for a BASE model. Append the model to the list that the context returns.
    """
    import keras

    models: list = []
    names: list = []
    try:
        # The inner context cleans up after a failed constructor, the outer one after damaged tensors.
        with keras_as_before_on_error(), keras.StatelessScope(), keras_as_before_on_error():
            yield models
            for variable in (variable for model in models for variable in model.variables):
                # TensorFlow would add the names of the enclosing layers, whose scopes have ended by now.
                names.append((variable, variable._name))
                variable._name = variable.path
    finally:
        for variable, name in names:
            variable._name = name


@contextlib.contextmanager
def keras_as_before_on_error() -> Iterator[None]:
    """A context that restores Keras' global state if an error is raised.

    Keras keeps, for the whole thread, the variables without initial values and the counts of layer names. The remains
    of a failed model would make the next model fail too.
    """
    # Keras has no public access to this state; `clear_session` would reset the user's own models too.
    tracker = private("keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER")

    before = {
        name: copy.copy(value) if isinstance(value, (dict, list, set)) else value
        for name, value in vars(tracker).items()
    }
    try:
        yield
    except BaseException:
        state = vars(tracker)
        state.clear()
        state.update(before)
        raise


def start_as(weight, tensor: StoredTensor) -> None:
    """Sets the initial value of a variable, for a model that is created in `variables_made_last`."""
    # Keras has no public way to do this. It keeps the initializer of such a variable until the context ends.
    if weight._initializer is None:
        raise RuntimeError(f"This version of Keras has given {weight.path} its first value too early.")
    weight._initializer = lambda shape, dtype=None: tensor.read().astype(numpy_dtype(dtype or weight.dtype), copy=False)


def tensor_of(weight) -> StoredTensor:
    """Returns a tensor that is copied from the variable when it is read."""
    from keras import ops

    return StoredTensor(tuple(weight.shape), weight.dtype, lambda: np.asarray(ops.convert_to_numpy(weight)))


def _inside(path: str, name: str) -> str:
    """("bert_encoder/layer_0/attention/query/kernel", "bert_encoder") -> "layer_0/attention/query/kernel"."""
    return path.rpartition(f"{name}/")[2] if path.count(f"{name}/") == 1 else path.partition("/")[2]


def adam_slots_of(model) -> AdamSlots:
    """Returns the moments of the `AdamW` that a model was compiled with. They are copied when they are read.

    Raises `InputError` if the model has no or another optimizer, or has not been trained since `compile`.
    """
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # unwraps a LossScaleOptimizer
    if not isinstance(optimizer, AdamW) or isinstance(optimizer, Muon):
        has = "no optimizer" if optimizer is None else type(optimizer).__name__
        raise InputError(
            f"include_optimizer needs a model that keras_bert.optimization.AdamW has trained, and this "
            f"{type(model).__name__} has {has}. Leave include_optimizer out."
        )
    if not optimizer.built:
        raise InputError(
            f"include_optimizer: the AdamW of this {type(model).__name__} has made no update, so there is nothing to "
            "write. Train the model first, or leave include_optimizer out."
        )
    names = {id(weight): name for name, weight in model_weights(model).items()}
    found = [(names[id(weight)], slots) for weight, *slots in optimizer.slots() if id(weight) in names]
    return AdamSlots(
        momentums={name: tensor_of(momentum) for name, (momentum, _) in found},
        velocities={name: tensor_of(velocity) for name, (_, velocity) in found},
        num_updates=StoredTensor.of(np.array(optimizer.iterations, "int64")),
    )
