"""The weights of a model by their names in checkpoints."""

import numpy as np

from keras_bert.checkpoints.checkpoint import ENCODER, StoredTensor


def model_weights(model) -> dict:
    """Returns name -> Keras variable: `encoder/layer_0/attention/query/kernel`, `masked_lm_head/output_bias`.

    The names do not depend on what the model is called, nor on whether it is an encoder or has one.
    """
    encoder = getattr(model, "encoder", model)
    weights = {f"{ENCODER}/{_inside(weight.path, encoder.name)}": weight for weight in encoder.weights}
    if encoder is not model:
        known = {id(weight) for weight in encoder.weights}
        weights |= {_inside(weight.path, model.name): weight for weight in model.weights if id(weight) not in known}
    return weights


def tensors_of(model) -> dict[str, StoredTensor]:
    """Returns name -> tensor; each is copied out of the model when it is read."""
    return {name: _tensor_of(weight) for name, weight in model_weights(model).items()}


def _tensor_of(weight) -> StoredTensor:
    from keras import ops

    return StoredTensor(tuple(weight.shape), weight.dtype, lambda: np.asarray(ops.convert_to_numpy(weight)))


def _inside(path: str, name: str) -> str:
    """("bert_encoder/layer_0/attention/query/kernel", "bert_encoder") -> "layer_0/attention/query/kernel"."""
    return path.rpartition(f"{name}/")[2] if path.count(f"{name}/") == 1 else path.partition("/")[2]
