"""Keras layers as ONNX operations, and the names and values of their weights."""

import numpy as np
from keras import ops

from keras_bert.layers.bert_layer import merged_kernel
from keras_bert.serving.graph.onnx_graph import OnnxGraph


def dense(graph: OnnxGraph, layer, values: str, exact: bool = False) -> str:
    """Returns a Keras dense layer without its activation; see `OnnxGraph.dense`."""
    bias = None if layer.bias is None else array(layer.bias)
    return graph.dense(stored_name(layer), values, kernel(layer), bias, exact)


def layer_norm(graph: OnnxGraph, layer, values: str) -> str:
    """Returns a `LayerNorm`."""
    gamma = array(layer.gamma)
    beta = array(layer.beta) if layer.use_bias else np.zeros_like(gamma)
    return graph.layer_norm(values, stored_name(layer), gamma, beta, layer.epsilon)


def stored_name(part) -> str:
    """Returns a path without the model's name, which Keras numbers: `classifier_1/dense/kernel` -> `dense/kernel`."""
    return part.path.split("/", 1)[1]


def kernel(layer) -> np.ndarray:
    return merged_kernel(layer).astype(np.float32) if layer.lora_enabled else array(layer.kernel)


def table(variable) -> tuple[str, np.ndarray]:
    return stored_name(variable), array(variable)


def array(variable) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(variable, "float32"))
