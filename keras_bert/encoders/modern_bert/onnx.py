"""`ModernBertEncoder` as ONNX operations."""

import numpy as np

from keras_bert.encoders.bert.onnx import OnnxEncoder
from keras_bert.records import features
from keras_bert.serving.graph.onnx_layers import array, dense, kernel, layer_norm, stored_name, table


class OnnxModernBertEncoder(OnnxEncoder):
    """Adds a `ModernBertEncoder` to a graph; see `OnnxEncoder`."""

    def pooled_at(self, columns=None):
        if self.config.classifier_pooling == "cls":
            return super().pooled_at(columns)
        tokens = self.sequence_output()  # the mean needs the vectors of all tokens
        indices = columns and self.graph.node("Unsqueeze", columns, axes=[2])
        return self.pooled(tokens), columns and self.graph.node("GatherND", tokens, indices, batch_dims=1)

    def pooled(self, tokens):
        if self.config.classifier_pooling == "cls":
            return super().pooled(tokens)
        graph = self.graph
        mask = graph.node("Unsqueeze", graph.to_float(self.inputs[features.INPUT_MASK]), axes=[2])
        total = graph.node("ReduceSum", graph.node("Mul", tokens, mask), axes=[1], keepdims=0)
        count = graph.node("Max", graph.node("ReduceSum", mask, axes=[1], keepdims=0), graph.number(1))
        return self._pooler(graph.node("Div", total, count))

    def _pooler(self, vectors):
        head = self.encoder.pooler
        activated = self.graph.activation(head.activation, dense(self.graph, head.dense, vectors))
        return layer_norm(self.graph, head.layer_norm, activated)

    def _run(self, select=None, num_selected=None):
        hidden, positions = self._embeddings(), self._positions()
        blocks, kinds = self.encoder.blocks_in_order(), self.config.layer_kinds
        of_all = {kind: self._attention_inputs(kind, positions, _all) for kind in dict.fromkeys(kinds)}
        for number, (block, kind) in enumerate(zip(blocks, kinds, strict=True), start=1):
            if select and number == len(blocks):
                hidden = self._block(block, hidden, select, *self._attention_inputs(kind, positions, select))
            else:
                hidden = self._block(block, hidden, _all, *of_all[kind])
        return layer_norm(self.graph, self.encoder.final_layer_norm, hidden)

    def _embeddings(self):
        layer = self.encoder.embeddings
        tokens = self.graph.rows(*table(layer.token_embeddings), self.inputs[features.INPUT_IDS])
        return layer_norm(self.graph, layer.layer_norm, tokens)

    def _positions(self):
        """Returns the position of each token, float32 `[B, S, 1]`."""
        graph = self.graph
        positions = graph.node("Expand", self._columns(), graph.node("Shape", self.inputs[features.INPUT_MASK]))
        return graph.node("Unsqueeze", graph.to_float(positions), axes=[2])

    def _attention_inputs(self, kind, positions, select):
        """Returns the bias of a kind of layers, and the angles of the selected tokens, which attend, and of all tokens.

        Args:
            positions: `[B, S, 1]`.
            select: function `[B, S, ...]` -> `[B, F, ...]`.
        """
        bias = self._attention_bias() if kind == "global" else self._local_bias(positions, select)
        keys = self._angles(kind, positions)
        return bias, keys if select is _all else self._angles(kind, select(positions)), keys

    def _local_bias(self, positions, select):
        """Returns `[B, 1, F, S]`; see `numbered_mask.local_attention_bias`."""
        graph = self.graph
        mask = graph.node("Unsqueeze", graph.to_float(self.inputs[features.INPUT_MASK]), axes=[2])  # [B, S, 1]
        distances = graph.node("Sub", select(positions), graph.node("Transpose", positions, perm=[0, 2, 1]))
        is_far = graph.node("Greater", graph.node("Abs", distances), graph.number(self.config.local_attention // 2))
        # 1 where a token, which is no padding, attends to one that is too far away
        is_hidden = graph.node("Mul", graph.to_float(is_far), select(mask))
        is_seen = graph.node("Sub", graph.number(1), is_hidden)
        allowed = graph.node("Mul", is_seen, graph.node("Transpose", mask, perm=[0, 2, 1]))
        return self._bias(graph.node("Unsqueeze", allowed, axes=[1]))

    def _angles(self, kind, positions):
        """Returns the cosines and sines of positions, `[B, 1, S, D / 2]`; see `rotary_angles`."""
        graph = self.graph
        frequencies = graph.weight(f"frequencies of {kind} layers", self.encoder.rotary_frequencies(kind))
        angles = graph.node("Unsqueeze", graph.node("Mul", positions, frequencies), axes=[1])
        return graph.node("Cos", angles), graph.node("Sin", angles)

    def _block(self, block, hidden, select, bias, query_angles, key_angles):
        """Returns the output of a block for the selected tokens, `[B, F, H]`."""
        graph, attention = self.graph, block.attention
        normalized = layer_norm(graph, block.attention_layer_norm, hidden) if block.normalizes_input else hidden
        query, key, value = self._query_key_value(attention, normalized, select(normalized))
        query, key, value = (
            graph.node("Transpose", self._split(attention, part), perm=[0, 2, 1, 3]) for part in (query, key, value)
        )
        key = graph.node("Transpose", self._rotated(key, key_angles), perm=[0, 1, 3, 2])
        attended = self._attend(attention, self._rotated(query, query_angles), key, value, bias)
        vectors = graph.node("Add", select(hidden), dense(graph, attention.output_dense, attended))
        inner = dense(graph, block.intermediate_dense, layer_norm(graph, block.feed_forward_layer_norm, vectors))
        values, gate = graph.node("Split", inner, num_outputs=2, axis=2, split=[block.intermediate_size] * 2)
        gated = graph.node("Mul", graph.activation(block.activation, values), gate)
        return graph.node("Add", vectors, dense(graph, block.output_dense, gated))

    def _query_key_value(self, layer, hidden, tokens):
        graph, size = self.graph, layer.hidden_size
        if tokens == hidden:
            return graph.node("Split", dense(graph, layer.qkv, hidden), num_outputs=3, axis=2, split=[size] * 3)
        kernels = np.split(kernel(layer.qkv), 3, axis=1)
        biases = np.split(array(layer.qkv.bias), 3) if layer.use_bias else [None] * 3
        parts = zip(("query", "key", "value"), (tokens, hidden, hidden), kernels, biases, strict=True)
        return [graph.dense(f"{stored_name(layer)}/{name}", *values_and_weights) for name, *values_and_weights in parts]

    def _rotated(self, vectors, angles):
        """See `formulas.rotate`: `[B, N, S, D]`, and angles `[B, 1, S, D / 2]`."""
        graph, (cosines, sines) = self.graph, angles
        first, second = graph.node("Split", vectors, num_outputs=2, axis=3, split=[self.config.head_size // 2] * 2)

        def turned(one, operation, other):
            return graph.node(operation, graph.node("Mul", one, cosines), graph.node("Mul", other, sines))

        return graph.node("Concat", turned(first, "Sub", second), turned(second, "Add", first), axis=3)


def _all(values):
    return values
