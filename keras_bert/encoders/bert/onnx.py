"""Encoders as ONNX operations: what all have in common, and `BertEncoder`."""

import numpy as np

from keras_bert.records import features
from keras_bert.serving.graph.onnx_graph import OnnxGraph
from keras_bert.serving.graph.onnx_layers import array, dense, kernel, layer_norm, stored_name, table

# The bias of the attention scores of padding, see `numbered_mask.attention_bias`.
_MASKED = -30000.0


class OnnxEncoder:
    """Adds a `BertEncoder` to a graph. Other encoders override methods that begin with an underscore.

    Each row has one sequence: `input_mask` is 0 or 1. With the input `position_ids`, rows are packed, and `is_packed`
    is true: the mask numbers their sequences. With `cls_positions` beside it, methods that return one vector for a row
    return one for each sequence.

    Args:
        inputs: feature name -> the value of it, int32 `[B, S]`; `cls_positions` is `[B, K]`.
        rows: the name of the axis of B.
    """

    # Whether the bias of the attention depends on the token that attends.
    _bias_of_queries = False

    def __init__(self, graph: OnnxGraph, encoder, inputs: dict[str, str], rows: str = "batch"):
        self.graph = graph
        self.rows = rows
        self.encoder = encoder
        self.config = encoder.config
        self.inputs = inputs
        self.is_packed = features.POSITION_IDS in inputs
        self._select = None

    def can_pack(self) -> bool:
        """Returns whether rows may be packed. Subclasses say so themselves: their methods may look at columns."""
        return type(self) is OnnxEncoder

    def sequence_output(self) -> str:
        """Returns the vectors of all tokens, `[B, S, H]`."""
        return self._run()

    def vectors_at(self, columns: str | None = None) -> tuple[str, str | None]:
        """Returns the vectors of the first tokens, `[B, 1, H]`, and of columns, int64 `[B, P]` -> `[B, P, H]`, or None.

        The last block runs for these only. Packed rows have no selected columns, and K first tokens: `[B, K, H]`.
        """
        graph = self.graph
        if columns is None:
            return (self._run(self.first_tokens, "sequences") if self.is_packed else self._run(self.first, 1)), None
        selected = graph.node("Concat", graph.node("Sub", *[self.first(columns)] * 2), columns, axis=1)
        indices = graph.node("Unsqueeze", selected, axes=[2])
        vectors = self._run(lambda hidden: graph.node("GatherND", hidden, indices, batch_dims=1), "selected")
        return self.first(vectors), self._part(vectors, 1, np.iinfo(np.int64).max)

    def pooled_at(self, columns: str | None = None) -> tuple[str, str | None]:
        """Returns the output of the pooler, `[B, H]`, and the vectors of selected columns; see `vectors_at`."""
        first, vectors = self.vectors_at(columns)
        return self.pooled(first), vectors

    def pooled(self, tokens: str) -> str:
        """Returns the output of the pooler `[B, H]` for the vectors of all tokens of the rows, `[B, S, H]`."""
        return self._pooler(self.vectors_of_sequences(tokens if self.is_packed else self.first(tokens)))

    def vectors_of_sequences(self, first: str) -> str:
        """Returns a vector for each sequence: `[B, 1, H]` -> `[B, H]`; of packed rows, `[B, K, H]` -> `[B * K, H]`."""
        if self.is_packed:
            return self.graph.node("Reshape", first, self.graph.integers(-1, self.config.hidden_size))
        return self.graph.node("Squeeze", first, axes=[1])

    def first_tokens(self, values: str) -> str:
        """Returns the values of the first token of each sequence of packed rows: `[B, S, ...]` -> `[B, K, ...]`."""
        return self.graph.at_columns(values, self.graph.to_int64(self.inputs[features.CLS_POSITIONS]))

    def token_features(self, tokens: str) -> str:
        """Returns what the last layer of a task on tokens reads, `[B, S, H]`; see `Encoder.token_features`."""
        return self._pooler(tokens) if self.encoder.has_token_head else tokens

    def _pooler(self, vectors: str) -> str:
        return self.graph.activation(self.config.pooler_act, dense(self.graph, self.encoder.pooler.dense, vectors))

    def _run(self, select=None, num_selected: int | str | None = None) -> str:
        """Returns the vectors after the last block, which runs for all tokens, or for those that `select` returns.

        `num_selected` is their number in a row, or its name.
        """
        self._select = select
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
        vectors = layer_norm(graph, layer.layer_norm, self._sum_of_tables())
        return dense(graph, layer.projection, vectors) if layer.projected_size else vectors

    def _sum_of_tables(self) -> str:
        graph, layer = self.graph, self.encoder.embeddings
        vectors = graph.rows(*self._token_table(), self.inputs[features.INPUT_IDS])
        if layer.max_positions:
            vectors = graph.node("Add", vectors, graph.rows(*table(layer.position_embeddings), self._positions()))
        if layer.num_segments:
            segments = self.inputs.get(features.SEGMENT_IDS)
            if segments is None:  # the model has one segment
                segments = graph.integers(0)
            vectors = graph.node("Add", vectors, graph.rows(*table(layer.segment_embeddings), segments))
        return vectors

    def _token_table(self) -> tuple[str, np.ndarray]:
        return table(self.encoder.embeddings.token_embeddings)

    def _columns(self) -> str:
        """Returns 0, 1, ..., int64 `[S]`."""
        graph = self.graph
        shape = graph.node("Shape", self.inputs[features.INPUT_MASK])
        length = graph.node("Gather", shape, graph.weight("one", np.int64(1)))
        columns = graph.node("Range", graph.weight("zero", np.int64(0)), length, graph.weight("one", np.int64(1)))
        graph.state_axes(columns, ["length"], "int64")
        return columns

    def _positions(self) -> str:
        """Returns the rows of the table of positions, `[S]`; `[B, S]` if padding is not counted, or rows are packed."""
        if self.is_packed:
            positions, offset = self.graph.to_int64(self.inputs[features.POSITION_IDS]), self.config.position_offset
            return self.graph.node("Add", positions, self.graph.integers(offset)) if offset else positions
        graph, mask, columns = self.graph, self.inputs[features.INPUT_MASK], self._columns()
        if not self.config.position_offset:
            return columns
        seen = graph.node("CumSum", graph.to_int64(mask), graph.weight("one", np.int64(1)))
        is_left = graph.to_int64(graph.node("Equal", seen, graph.integers(0)))
        moved = graph.node("Sub", columns, graph.node("ReduceSum", is_left, axes=[1], keepdims=1))
        counted = graph.node("Mul", graph.node("Add", moved, graph.integers(1)), graph.to_int64(mask))
        return graph.node("Add", counted, graph.integers(self.config.position_offset - 1))  # that row is of padding

    def _attention_bias(self) -> str:
        """Returns 0 for tokens and a large negative number for padding, `[B, 1, 1, S]`.

        In packed rows it is 0 for tokens of the same sequence, `[B, 1, S, S]`. ONNX Runtime does not fuse that form.
        """
        graph = self.graph
        if self.is_packed:
            return self._bias(graph.node("Unsqueeze", self._same_sequence(), axes=[1]))
        mask = graph.node("Unsqueeze", graph.node("Unsqueeze", self.inputs[features.INPUT_MASK], axes=[1]), axes=[2])
        return self._bias(graph.to_float(mask))

    def _same_sequence(self) -> str:
        """Returns whether two tokens of a packed row are in the same sequence, float32 `[B, S, S]`."""
        graph, mask = self.graph, self.inputs[features.INPUT_MASK]
        return graph.to_float(graph.node("Equal", *(graph.node("Unsqueeze", mask, axes=[axis]) for axis in (2, 1))))

    def _bias_at(self, bias: str, select) -> str:
        """Returns the bias of the tokens that attend in the last block: `[B, N, S, S]` -> `[B, N, F, S]`."""
        graph, order = self.graph, [0, 2, 1, 3]
        return graph.node("Transpose", select(graph.node("Transpose", bias, perm=order)), perm=order)

    def _bias(self, allowed: str) -> str:
        """Returns 0 where `allowed` is 1, and a large negative number where it is 0."""
        graph = self.graph
        return graph.node("Mul", graph.node("Sub", graph.number(1), allowed), graph.number(_MASKED))

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
        graph, order = self.graph, [0, 2, 1, 3]
        if tokens != hidden and (self._bias_of_queries or self.is_packed):  # the last block runs for selected tokens
            bias = self._bias_at(bias, self._select)
        query, key, value = self._query_key_value(layer, hidden, tokens)
        key = graph.node("Transpose", self._split(layer, key), perm=[0, 2, 3, 1])
        query, value = (graph.node("Transpose", self._split(layer, part), perm=order) for part in (query, value))
        return self._attend(layer, query, key, value, bias)

    def _split(self, layer, values: str) -> str:
        """Returns the vectors of the heads: `[B, S, H]` -> `[B, S, N, D]`."""
        return self.graph.node("Reshape", values, self.graph.integers(0, 0, layer.num_heads, layer.head_size))

    def _attend(self, layer, query: str, key: str, value: str, bias: str, scale: float | None = None) -> str:
        """Returns the outputs of all heads: `[B, N, F, D]`, `[B, N, D, S]` and `[B, N, S, D]` -> `[B, F, N * D]`.

        `scale` is the factor of the scores, by default `D ** -0.5`.
        """
        graph = self.graph
        divisor = layer.head_size**0.5 if scale is None else 1 / scale
        scores = graph.node("Div", graph.node("MatMul", query, key), graph.number(divisor))
        probabilities = graph.node("Softmax", graph.node("Add", scores, bias), axis=3)
        gathered = graph.node("Transpose", graph.node("MatMul", probabilities, value), perm=[0, 2, 1, 3])
        return graph.node("Reshape", gathered, graph.integers(0, 0, layer.num_heads * layer.head_size))

    def _query_key_value(self, layer, hidden: str, tokens: str) -> list[str]:
        graph, layers = self.graph, (layer.query, layer.key, layer.value)
        if not graph.joins_products or tokens != hidden:
            return [dense(graph, part, values) for part, values in zip(layers, (tokens, hidden, hidden), strict=True)]
        # One product of integers instead of three. With floats, ONNX Runtime does this itself.
        joined_kernel = np.concatenate([kernel(part) for part in layers], axis=1)
        bias = np.concatenate([array(part.bias) for part in layers])
        joined = graph.dense(f"{stored_name(layer)}/query_key_value", hidden, joined_kernel, bias)
        return graph.node("Split", joined, num_outputs=3, axis=2, split=[layer.hidden_size] * 3)

    def first(self, values: str) -> str:
        """Returns `values[:, :1]`."""
        return self._part(values, 0, 1)

    def _part(self, values: str, start: int, end: int) -> str:
        """Returns `values[:, start:end]`."""
        graph = self.graph
        return graph.node("Slice", values, graph.integers(start), graph.integers(end), graph.integers(1))
