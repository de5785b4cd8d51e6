"""The parts of XLNet's files that have another form than ours: keys of the configs, and biases of all layers in one
variable.

Reference: zihangdai/xlnet `xlnet.py`, `modeling.py`; transformers, `models/xlnet/configuration_xlnet.py`.
"""

from collections.abc import Mapping

import numpy as np

from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError

# Their keys -> ours.
KEYS = {
    "d_model": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "d_inner": "intermediate_size",
    "ff_activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "summary_activation": "pooler_act",
    "longest_row": "max_position_embeddings",  # ours; they have no limit, and refuse the usual key
}
# Settings of the published models; others would be computed differently.
FIXED = {
    "attn_type": ("bi",),
    "bi_data": (False,),
    "same_length": (False,),
    "summary_type": ("last",),
    "summary_use_proj": (True,),
    "summary_proj_to_labels": (False,),
}
# Weights of the attention -> their names in transformers; Google's have those too, without a layer.
ATTENTION = {
    "content_bias": "r_w_bias",
    "distance_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
    "segment_embeddings": "seg_embed",
}
_SCOPE = "model/transformer"


def of_theirs(values: Mapping, file: str) -> dict:
    """Returns the values of a config of transformers or zihangdai/xlnet with our keys.

    Raises:
        InputError: the width of a head is not that of the model divided by the heads.
    """
    width, heads, head_size = (values.get(name) for name in ("d_model", "n_head", "d_head"))
    if all(isinstance(value, int) for value in (width, heads, head_size)) and heads * head_size != width:
        raise InputError(
            f"{file}: d_head={head_size} and n_head={heads} do not make d_model={width}. Only heads that divide "
            "d_model are supported."
        )
    keys = KEYS | {"n_token": "vocab_size"}
    ours = {keys.get(name, name): value for name, value in values.items()}
    if "hidden_dropout_prob" in ours:  # transformers has one rate for both
        ours.setdefault("attention_probs_dropout_prob", ours["hidden_dropout_prob"])
    return ours


def of_google(values: Mapping, file: str) -> dict:
    """Returns the values of `xlnet_config.json` with our keys."""
    return of_theirs({name: value for name, value in values.items() if name not in FIXED}, file)


def divided(variables: Mapping[str, StoredTensor], num_layers: int) -> dict[str, StoredTensor]:
    """Returns variables with one bias for each layer, named `layer_<number>/<name>`.

    A file has the biases of all layers in one variable, `[L, N, D]`. If its model has `untie_r` false, its layers share
    them, `[N, D]`; then every layer gets a copy.
    """
    divided = dict(variables)
    for name in ATTENTION.values():
        tensor = divided.pop(f"{_SCOPE}/{name}", None)
        if tensor is None:
            continue
        num_axes = 4 if name == "seg_embed" else 3
        if len(tensor.shape) == num_axes and tensor.shape[0] != num_layers:
            raise InputError(
                f"{_SCOPE}/{name} has the shape {list(tensor.shape)}, but the config has {num_layers} layers "
                "(n_layer). The config belongs to another checkpoint."
            )
        for number in range(num_layers):
            of_layer = tensor
            if len(tensor.shape) == num_axes:
                of_layer = tensor.changed(tensor.shape[1:], lambda array, number=number: array[number])
            divided[f"{_SCOPE}/layer_{number}/{name}"] = of_layer
    return divided


def joined(variables: Mapping[str, StoredTensor], num_layers: int) -> dict[str, StoredTensor]:
    """Reverses `divided`."""
    joined = dict(variables)
    for name in ATTENTION.values():
        parts = [joined.pop(f"{_SCOPE}/layer_{number}/{name}") for number in range(num_layers)]
        joined[f"{_SCOPE}/{name}"] = StoredTensor(
            (num_layers, *parts[0].shape),
            parts[0].dtype,
            lambda parts=parts: np.stack([part.read() for part in parts]),
        )
    return joined


def to_google(config: BertConfig) -> dict:
    """Returns the content of `xlnet_config.json`."""
    values = config.to_dict()
    keys = KEYS | {"n_token": "vocab_size"}
    kept = {theirs: values.pop(ours) for theirs, ours in keys.items() if ours in values}
    return {"d_head": config.head_size, "untie_r": True, **kept, **values}
