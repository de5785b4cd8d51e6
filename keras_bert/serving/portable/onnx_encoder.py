"""`BertEncoder` as ONNX operations."""

import numpy as np
from keras import ops

from keras_bert.models.trainable_parts import merged_kernel
from keras_bert.records import features
from keras_bert.serving.portable.onnx_graph import OnnxGraph

# The bias of the attention scores of padding, see `numbered_mask.attention_bias`.
_MASKED = -30000.0


class OnnxEncoder:
    """Adds an encoder to a graph.

    Each row has one sequence: `input_mask` is 0 or 1.

    Args:
        graph: the graph.
        encoder: a `BertEncoder`.
        inputs: feature name -> the value of it, int32 `[B, S]`.
        rows: the name of the axis of B.
    """

    def __init__(self, graph: OnnxGraph, encoder, inputs: dict[str, str], rows: str = "batch"):
        self.graph = graph
        self.rows = rows
        self.encoder = encoder
        self.config = encoder.config
        self.inputs = inputs

    def sequence_output(self) -> str:
        """Returns the vectors of all tokens, `[B, S, H]`."""
        return self._run()

    def vectors_at(self, columns: str | None = None) -> tuple[str, str | None]:
        """Returns the vectors of the first tokens, `[B, 1, H]`, and of selected columns, `[B, P, H]` or None.

        The last block runs for these only.

        Args:
            columns: int64 `[B, P]`.
        """
        graph = self.graph
        if columns is None:
            return self._run(lambda hidden: self._part(hidden, 0, 1), 1), None
        first = graph.node("Sub", *[self._part(columns, 0, 1)] * 2)
        selected = graph.node("Concat", first, columns, axis=1)
        indices = graph.node("Unsqueeze", selected, axes=[2])
        vectors = self._run(lambda hidden: graph.node("GatherND", hidden, indices, batch_dims=1), "selected")
        return self._part(vectors, 0, 1), self._part(vectors, 1, np.iinfo(np.int64).max)

    def pooled(self, first: str) -> str:
        """Returns the output of the pooler `[B, H]` for the vectors of first tokens, `[B, 1, H]`."""
        graph = self.graph
        vectors = dense(graph, self.encoder.pooler.dense, graph.node("Squeeze", first, axes=[1]))
        return graph.activation(self.config.pooler_act, vectors)

    def _run(self, select=None, num_selected: int | str | None = None) -> str:
        """Returns the vectors after the last block.

        Args:
            select: function of the last block's inputs that returns those of the tokens that it runs for; None: all.
            num_selected: the number of selected tokens of a row, or its name.
        """
        hidden, bias = self._embeddings(), self._attention_bias()
        blocks = self.encoder.blocks_in_order()
        for number, block in enumerate(blocks, start=1):
            tokens = hidden
            if select and number == len(blocks):
                tokens = select(hidden)
                self.graph.state_axes(tokens, [self.rows, num_selected, self.config.hidden_size])
            hidden = self._block(block, hidden, tokens, bias)
        return hidden

    def _embeddings(self) -> str:
        graph, layer = self.graph, self.encoder.embeddings
        tokens = graph.rows(*_table(layer.token_embeddings), self.inputs[features.INPUT_IDS])
        vectors = graph.node("Add", tokens, graph.rows(*_table(layer.position_embeddings), self._positions()))
        if layer.num_segments:
            segments = self.inputs.get(features.SEGMENT_IDS)
            if segments is None:  # the model has one segment
                segments = graph.integers(0)
            vectors = graph.node("Add", vectors, graph.rows(*_table(layer.segment_embeddings), segments))
        vectors = layer_norm(graph, layer.layer_norm, vectors)
        return dense(graph, layer.projection, vectors) if layer.projected_size else vectors

    def _positions(self) -> str:
        """Returns the rows of the table of positions, `[S]`; `[B, S]` if padding on the left is not counted."""
        graph, mask = self.graph, self.inputs[features.INPUT_MASK]
        length = graph.node("Gather", graph.node("Shape", mask), graph.weight("one", np.int64(1)))
        columns = graph.node("Range", graph.weight("zero", np.int64(0)), length, graph.weight("one", np.int64(1)))
        graph.state_axes(columns, ["length"], "int64")
        if not self.config.position_offset:
            return columns
        seen = graph.node("CumSum", graph.to_int64(mask), graph.weight("one", np.int64(1)))
        is_left = graph.to_int64(graph.node("Equal", seen, graph.integers(0)))
        moved = graph.node("Sub", columns, graph.node("ReduceSum", is_left, axes=[1], keepdims=1))
        positions = graph.node("Max", moved, graph.integers(0))
        return graph.node("Add", positions, graph.integers(self.config.position_offset))

    def _attention_bias(self) -> str:
        """Returns 0 for tokens and a large negative number for padding, `[B, 1, 1, S]`."""
        graph = self.graph
        mask = graph.node("Unsqueeze", graph.node("Unsqueeze", self.inputs[features.INPUT_MASK], axes=[1]), axes=[2])
        return graph.node("Mul", graph.node("Sub", graph.number(1), graph.to_float(mask)), graph.number(_MASKED))

    def _block(self, block, hidden: str, tokens: str, bias: str) -> str:
        """Returns the output of a block for `tokens`, `[B, F, H]`, which attend to `hidden`, `[B, S, H]`."""
        graph, attention = self.graph, block.attention
        attended = self._attention(attention, hidden, tokens, bias)
        attended = dense(graph, attention.output_dense, attended)
        vectors = layer_norm(graph, block.attention_layer_norm, graph.node("Add", attended, tokens))
        inner = graph.activation(block.activation, dense(graph, block.intermediate_dense, vectors))
        transformed = dense(graph, block.output_dense, inner)
        return layer_norm(graph, block.output_layer_norm, graph.node("Add", transformed, vectors))

    def _attention(self, layer, hidden: str, tokens: str, bias: str) -> str:
        """Returns the outputs of all heads, `[B, F, H]`."""
        graph, heads = self.graph, (layer.num_heads, layer.head_size)

        def split(values, order):
            return graph.node("Transpose", graph.node("Reshape", values, graph.integers(0, 0, *heads)), perm=order)

        query, key, value = self._query_key_value(layer, hidden, tokens)
        scores = graph.node("MatMul", split(query, [0, 2, 1, 3]), split(key, [0, 2, 3, 1]))
        scores = graph.node("Div", scores, graph.number(layer.head_size**0.5))
        probabilities = graph.node("Softmax", graph.node("Add", scores, bias), axis=3)
        gathered = graph.node("MatMul", probabilities, split(value, [0, 2, 1, 3]))
        gathered = graph.node("Transpose", gathered, perm=[0, 2, 1, 3])
        return graph.node("Reshape", gathered, graph.integers(0, 0, layer.hidden_size))

    def _query_key_value(self, layer, hidden: str, tokens: str) -> list[str]:
        graph, layers = self.graph, (layer.query, layer.key, layer.value)
        if graph.weights != "int8" or tokens != hidden:
            return [dense(graph, part, values) for part, values in zip(layers, (tokens, hidden, hidden), strict=True)]
        # One product of integers instead of three. With floats, ONNX Runtime does this itself.
        kernel = np.concatenate([_kernel(part) for part in layers], axis=1)
        bias = np.concatenate([_array(part.bias) for part in layers])
        joined = graph.dense(f"{stored_name(layer)}/query_key_value", hidden, kernel, bias)
        return graph.node("Split", joined, num_outputs=3, axis=2, split=[layer.hidden_size] * 3)

    def _part(self, values: str, start: int, end: int) -> str:
        """Returns `values[:, start:end]`."""
        graph = self.graph
        return graph.node("Slice", values, graph.integers(start), graph.integers(end), graph.integers(1))


def dense(graph: OnnxGraph, layer, values: str, exact: bool = False) -> str:
    """Returns a Keras dense layer without its activation; see `OnnxGraph.dense`."""
    bias = None if layer.bias is None else _array(layer.bias)
    return graph.dense(stored_name(layer), values, _kernel(layer), bias, exact)


def layer_norm(graph: OnnxGraph, layer, values: str) -> str:
    """Returns a `LayerNorm`."""
    return graph.layer_norm(values, stored_name(layer), _array(layer.gamma), _array(layer.beta), layer.epsilon)


def stored_name(part) -> str:
    """Returns the path of a layer or variable without the model's name, which Keras numbers.

    Example:
        "sequence_classifier_1/classifier/kernel" -> "classifier/kernel"
    """
    return part.path.split("/", 1)[1]


def _kernel(layer) -> np.ndarray:
    return merged_kernel(layer).astype(np.float32) if layer.lora_enabled else _array(layer.kernel)


def _table(variable) -> tuple[str, np.ndarray]:
    return stored_name(variable), _array(variable)


def _array(variable) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(variable, "float32"))
