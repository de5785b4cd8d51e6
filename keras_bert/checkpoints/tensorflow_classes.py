"""The files that transformers' TensorFlow classes wrote until version 4, under the names of its PyTorch classes.

A `tf_model.h5` has a group for each layer of the model. In it, names begin with that of the model:
`bert/tf_bert_model/bert/encoder/layer_._0/output/dense/kernel:0`. In the parts of a divided file and in safetensors of
the format `tf`, names begin behind that. The lists of names in the attributes of a file are not read.

Reference: transformers 4.57, `modeling_tf_utils.py`.
"""

import os
import re
from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.name_table import TRANSPOSED, to_ours

TENSORFLOW_FILE = "tf_model.h5"
_MARK = ":0"  # ends the name of each variable of TensorFlow
_NUM_OUTER = 2  # the group and the name of the model
_LAST = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}
# Kernels, and the projections of a Transformer-XL.
_TRANSPOSED = re.compile(r".*(/kernel|_projs_\._\d+):0")
# DeBERTa-v2 only.
_PARTS = {"pos_proj": "pos_key_proj", "pos_q_proj": "pos_query_proj"}


def read_tensorflow_classes(path: str | os.PathLike, is_part: bool) -> dict[str, StoredTensor]:
    """Returns name in TensorFlow -> tensor of a `tf_model.h5`, or of a part of one; see `read_keras_weights`.

    A layer that shares the weights of another one has a copy of them.
    """
    num_outer = 0 if is_part else _NUM_OUTER
    return {"/".join(name.split("/")[num_outer:]): tensor for name, tensor in read_keras_weights(path).items()}


def is_of_tensorflow(tensors: Mapping[str, StoredTensor]) -> bool:
    """Returns whether tensors have the names of variables of TensorFlow."""
    return any(name.endswith(_MARK) for name in tensors)


def with_torch_names(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Returns tensors under the names and in the layout of transformers' PyTorch classes."""
    return {
        torch_name(name): to_ours(tensor, TRANSPOSED) if _TRANSPOSED.fullmatch(name) else tensor
        for name, tensor in tensors.items()
    }


def torch_name(name: str) -> str:
    """Returns the name of a tensor in PyTorch.

    Example:
        >>> torch_name("mlm___cls/predictions/transform/dense/kernel:0")
        'cls.predictions.transform.dense.weight'
        >>> torch_name("bert/encoder/layer_._0/output/LayerNorm/gamma:0")
        'bert.encoder.layer.0.output.LayerNorm.weight'
    """
    *parts, last = name.removesuffix(_MARK).replace("_._", "/").split("/")
    parts = [_PARTS.get(part, part.rpartition("___")[2]) for part in parts]
    return ".".join([*parts, _LAST.get(last, last)])
