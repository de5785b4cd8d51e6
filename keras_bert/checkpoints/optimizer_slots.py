"""The moments of a model's Adam optimizer, for formats that can hold them."""

import numpy as np

from keras_bert.checkpoints.checkpoint import AdamSlots, StoredTensor
from keras_bert.checkpoints.model_weights import model_weights, tensor_of
from keras_bert.optimization import AdamW, Muon
from keras_bert.program.errors import InputError


def adam_slots_of(model) -> AdamSlots:
    """Returns the moments of the `AdamW` that a model was compiled with. They are copied when they are read.

    Raises:
        InputError: the model has no or another optimizer, or has not been trained since `compile`.
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
