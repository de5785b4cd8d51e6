"""Writes a model as an ONNX file with operations of the standard only."""

import os
from typing import Any

from keras_bert import registry
from keras_bert.models.encoder_base import Encoder, encoder_of
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.serving.graph.input_divisors import input_divisors
from keras_bert.serving.graph.onnx_graph import OPSET, OnnxGraph
from keras_bert.serving.graph.onnx_heads import OUTPUT, check_encoder, inputs_and_outputs
from keras_bert.serving.graph.onnx_layers import stored_name
from keras_bert.serving.portable.folder import PACKED_FILE, missing_package

# A protocol buffer holds at most 2 GiB.
_MOST_BYTES = (1 << 31) - 1
_SMALLEST_MOVED = 1 << 10  # bytes
# The inputs of files in Hugging Face folders.
_THEIR_INPUTS = {
    features.INPUT_IDS: "input_ids",
    features.INPUT_MASK: "attention_mask",
    features.SEGMENT_IDS: "token_type_ids",
}


def write_onnx(model, file_path: str | os.PathLike, weights: str | None = None) -> None:
    """Writes a model for ONNX Runtime and other runtimes: features in, the outputs of the Keras model out.

    Axes of batch and length are variable. Rows have one sequence each: `input_mask` is 0 or 1. The computation is
    float32, whatever the dtype of the model; LoRA is merged into the kernels.

    Args:
        model: a model whose entry in `registry.py` has `onnx`, with an encoder that ONNX files can hold.
        file_path: the `.onnx` file. It is written atomically.
        weights: None for float32; "float16": matrices are stored with 16 bits; "int8": matrices are stored with 8 bits
            and a scale for each column, or row of a table, and products of the encoder multiply 8-bit integers.

    Raises:
        InputError: the format cannot hold the model, the package onnx is missing, or the file cannot be written.
    """
    _check(model, weights)
    write_network(_network(model, _graph(model, weights)), file_path, weights)


def write_onnx_folder(model, file_path: str | os.PathLike, weights: str | None = None) -> None:
    """Writes the same file as `write_onnx`, and `packed.onnx` beside it if the model allows packed rows.

    ONNX Runtime fuses the attention of rows with one sequence only, so a folder has two networks. In packed rows,
    `input_mask` numbers the sequences. The file also takes `position_ids`, and `cls_positions` if it has an output for
    each sequence; see `row_layouts.pack`. Its weights are in the other file.
    """
    _check(model, weights)
    graph = _graph(model, weights)
    network = _network(model, graph)
    write_network(network, file_path, weights)
    # Only this graph reads the encoder again: the divisors have been computed.
    packed_graph = graph.empty(packed=True)
    packed = _network(model, packed_graph)
    if packed_graph.packed_inputs:
        _move_weights(packed, network, os.path.basename(file_path))
        write_network(packed, os.path.join(os.path.dirname(file_path), PACKED_FILE), weights)


def hugging_face_network(model, weights: str | None = None) -> Any:
    """Returns the `onnx.ModelProto` of a model with the inputs and outputs that files in Hugging Face folders have.

    Inputs are int64 `[batch, length]`: `input_ids`, `attention_mask` and, with segments, `token_type_ids`. The output
    is `last_hidden_state`, `logits`, or `start_logits` and `end_logits`, float32. The model's entry in `registry.py`
    has `hugging_face_onnx`; for the rest see `write_onnx`.
    """
    _check(model, weights)
    graph = _graph(model, weights)
    outputs = registry.imported(registry.task_of(model).hugging_face_onnx)(graph, model)
    inputs = {name: model.feature_axes for name in model.feature_names if name in _THEIR_INPUTS}
    outputs = {"logits" if name == OUTPUT else name: found for name, found in outputs.items()}
    return graph.model(inputs, outputs, _about(model, graph), {name: _THEIR_INPUTS[name] for name in inputs})


def _graph(model, weights: str | None) -> OnnxGraph:
    try:
        return OnnxGraph(weights, _divisors(model) if weights == "int8" else None)
    except ImportError as error:
        raise missing_package("onnx", error) from error


def _network(model, graph: OnnxGraph):
    """Returns the `onnx.ModelProto` of a model."""
    return graph.model(*inputs_and_outputs(graph, model), _about(model, graph))


def _about(model, graph: OnnxGraph) -> str:
    kind = f"{type(model).__name__} of keras_bert, {model.config.model_type}"
    return f"A {kind}, {graph.weights or 'float32'}, opset {OPSET}."


def write_network(written, file_path: str | os.PathLike, weights: str | None) -> None:
    """Writes an `onnx.ModelProto`. Raises `InputError` if it is too large, or the file cannot be written."""
    size = written.ByteSize()
    if size > _MOST_BYTES:
        raise InputError(
            f"An ONNX file holds at most {_MOST_BYTES:,} bytes, and the model has {size:,} with weights="
            f"{weights or 'float32'}. Use weights=float16 or int8, or format=saved_model."
        )
    with atomic_file(file_path) as file:
        file.write(written.SerializeToString(deterministic=True))


def _divisors(model) -> dict:
    return {stored_name(layer): divisors for layer, divisors in input_divisors(encoder_of(model))}


def _check(model, weights: str | None) -> None:
    encoder = encoder_of(model)
    if isinstance(encoder, Encoder):
        check_encoder(encoder)
    task = registry.task_of(model)
    if task is None or task.onnx is None:
        names = ", ".join(kind for kind in registry.TASKS if registry.task(kind).onnx)
        raise InputError(f"ONNX files can hold these models: {names}. Received: {type(model).__name__}")
    if encoder is model and (model.output_hidden_states or model.output_attentions):
        raise InputError(
            "ONNX files hold sequence_output and pooled_output of an encoder. Set output_hidden_states and "
            "output_attentions to False."
        )
    if weights not in (None, "float16", "int8"):
        raise InputError(f"weights must be float16, int8 or None (float32). Received: {weights!r}")


def _move_weights(packed, network, file_name: str) -> None:
    """Replaces the large weights of `packed` by references to the file of `network`, as the standard allows."""
    content, found, end = network.SerializeToString(deterministic=True), {}, 0
    for tensor in network.graph.initializer:
        start = content.index(tensor.raw_data, end)
        end = start + len(tensor.raw_data)
        found[tensor.name] = start, tensor.raw_data
    for tensor in packed.graph.initializer:
        start, data = found.get(tensor.name, (0, None))
        if tensor.raw_data != data or len(data) < _SMALLEST_MOVED:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        for key, value in {"location": file_name, "offset": start, "length": len(data)}.items():
            tensor.external_data.add(key=key, value=str(value))
