"""`DebertaEncoder` as ONNX operations."""

import numpy as np

from keras_bert.encoders.bert.onnx import OnnxEncoder
from keras_bert.encoders.deberta.block import LOWEST
from keras_bert.encoders.deberta.config import CONTENT_TO_POSITION, POSITION_TO_CONTENT
from keras_bert.records import features
from keras_bert.serving.graph.onnx_layers import array, dense, layer_norm, stored_name

_END = np.iinfo(np.int64).max


class OnnxDebertaEncoder(OnnxEncoder):
    """Adds a `DebertaEncoder` to a graph; see `OnnxEncoder`."""

    def can_pack(self):
        # A convolution looks at neighbouring columns, which may be of another sequence.
        return not any(block.kernel_size for block in self.encoder.blocks_in_order())

    def _run(self, select=None, num_selected=None):
        graph, layer = self.graph, self.encoder.distances
        mask = self.inputs[features.INPUT_MASK]
        self._is_token = graph.node("Unsqueeze", mask, axes=[2])  # [B, S, 1]
        if self.is_packed:
            self._is_token = graph.node("Min", graph.to_int64(self._is_token), graph.integers(1))
        self._is_token = graph.to_float(self._is_token)
        shape = graph.node("Shape", mask)
        self._num_rows, self._length = (graph.node("Gather", shape, graph.integers(axis)) for axis in (0, 1))  # [1]
        columns = self._columns()
        # -S, ..., S - 1
        self._distances = graph.node("Concat", graph.node("Sub", columns, self._length), columns, axis=0)
        vectors = graph.weight(stored_name(layer.table), array(layer.table)[None])
        self._distance_vectors = layer_norm(graph, layer.layer_norm, vectors) if layer.layer_norm else vectors
        return super()._run(select, num_selected)

    def _embeddings(self):
        layer, vectors = self.encoder.embeddings, self._sum_of_tables()
        if layer.projected_size:
            vectors = dense(self.graph, layer.projection, vectors)
        return self.graph.node("Mul", layer_norm(self.graph, layer.layer_norm, vectors), self._is_token)

    def _token_table(self):
        layer, (name, values) = self.encoder.embeddings, super()._token_table()
        return name, values + array(layer.token_embeddings_difference) if layer.has_difference else values

    def _attention_bias(self):
        """Returns the bias of padding, `[B, 1, S, S]`. Padding attends to all columns alike."""
        graph = self.graph
        attends = graph.node("Greater", graph.node("Unsqueeze", self._is_token, axes=[1]), graph.number(0))
        return graph.node("Where", attends, super()._attention_bias(), graph.number(LOWEST))

    def _block(self, block, hidden, tokens, bias):
        graph, output = self.graph, super()._block(block, hidden, tokens, bias)
        if not block.kernel_size:
            return output
        # Padding is zeros here, as what is left and right of the row.
        reach = block.kernel_size // 2
        shape = graph.node("Concat", self._num_rows, graph.integers(reach, block.hidden_size), axis=0)
        zeros = graph.node("Expand", graph.number(0), shape)
        padded = graph.node("Concat", zeros, hidden, zeros, axis=1)
        parts = [self._part(padded, column, column - 2 * reach or _END) for column in range(block.kernel_size)]
        kernel = array(block.convolution_kernel).reshape(-1, block.hidden_size)
        joined = graph.node("Concat", *parts, axis=2)
        name = f"{stored_name(block)}/convolution"
        convolved = graph.dense(name, joined, kernel, array(block.convolution_bias))
        convolved, is_token = graph.activation(block.convolution_activation, convolved), self._is_token
        if tokens != hidden:  # this block is the last, too
            convolved, is_token = self._select(convolved), self._select(is_token)
        output = layer_norm(graph, block.convolution_layer_norm, graph.node("Add", output, convolved))
        return graph.node("Mul", output, is_token)

    def _attention(self, layer, hidden, tokens, bias):
        # Moving the scores of distances to the keys needs the queries of all columns.
        attended = super()._attention(layer, hidden, hidden, bias)
        return attended if tokens == hidden else self._select(attended)

    def _attend(self, layer, query, key, value, bias):
        graph = self.graph
        query = graph.node("Mul", query, graph.number((1 + len(layer.score_types)) ** -0.5))
        of_queries, of_keys = self._projected_distances(layer)
        if CONTENT_TO_POSITION in layer.score_types:
            rows = self._rows(layer, of_keys, graph.node("Neg", self._distances), layer.head_size**-0.5)
            bias = graph.node("Add", bias, self._shift_to_keys(graph.node("MatMul", query, rows)))
        if POSITION_TO_CONTENT in layer.score_types:
            rows = self._rows(layer, of_queries, self._distances, layer.score_scale)
            keys = graph.node("Transpose", key, perm=[0, 1, 3, 2])
            scores = self._shift_to_keys(graph.node("MatMul", keys, rows))  # [B, N, key, query]
            bias = graph.node("Add", bias, graph.node("Transpose", scores, perm=[0, 1, 3, 2]))
        return super()._attend(layer, query, key, value, bias)

    def _projected_distances(self, layer):
        """Returns the vectors of distances as queries and as keys, `[1, R, H]`; None where scores do not need them."""
        # They do not depend on the inputs: ONNX Runtime computes them when it loads the file.
        vectors = self._distance_vectors
        if layer.shares_projections:
            return self._query_key_value(layer, vectors, vectors)[:2]
        layers = (getattr(layer, name, None) for name in ("distance_query", "distance_key"))
        return [own and dense(self.graph, own, vectors) for own in layers]

    def _rows(self, layer, projected, distances, scale):
        """Returns the scaled vectors of these distances for each head: `[1, R, H]`, int64 `[T]` -> `[N, D, T]`."""
        graph, rows_of = self.graph, self.encoder.distances.rows
        longest = len(rows_of) // 2
        clipped = graph.node("Min", graph.node("Max", distances, graph.integers(-longest)), graph.integers(longest))
        places = graph.node("Add", clipped, graph.integers(longest))
        rows = graph.node("Gather", graph.weight("rows of distances", rows_of.astype(np.int64)), places)
        heads = graph.node("Reshape", projected, graph.integers(-1, layer.num_heads, layer.head_size))
        heads = graph.node("Mul", heads, graph.number(scale))
        return graph.node("Transpose", graph.node("Gather", heads, rows), perm=[1, 2, 0])

    def _shift_to_keys(self, scores):
        """See `relative_attention.shift_to_keys`: `[B, N, S, 2 S]` -> `[B, N, S, S]`."""
        graph = self.graph
        shapes = graph.node("Concat", graph.integers(0, 0, -1), self._length, axis=0)
        rows = graph.node("Reshape", scores, shapes)
        rows = graph.node("Slice", rows, graph.integers(1), graph.integers(_END), graph.integers(2))
        rows = graph.node(
            "Reshape", rows, graph.node("Concat", graph.integers(0, 0), self._length, graph.integers(-1), axis=0)
        )
        return graph.node("Slice", rows, graph.integers(0), self._length, graph.integers(3))
