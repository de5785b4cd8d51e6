"""`RotaryEncoder` as ONNX operations."""

import numpy as np

from keras_bert.encoders.bert.onnx import OnnxEncoder
from keras_bert.encoders.rotary.config import AFTER, AROUND, CLS, GLOBAL, LATE
from keras_bert.layers.layer_norm import RMSNorm
from keras_bert.records import features
from keras_bert.serving.graph.onnx_layers import array, dense, kernel, layer_norm, stored_name, table
from keras_bert.serving.graph.onnx_sequences import PackedSequences


class OnnxRotaryEncoder(OnnxEncoder):
    """Adds a `RotaryEncoder` to a graph; see `OnnxEncoder`."""

    def can_pack(self):
        return True

    def pooled_at(self, columns=None):
        if self.config.classifier_pooling == CLS:
            return super().pooled_at(columns)
        tokens = self.sequence_output()  # the mean needs the vectors of all tokens
        indices = columns and self.graph.node("Unsqueeze", columns, axes=[2])
        return self.pooled(tokens), columns and self.graph.node("GatherND", tokens, indices, batch_dims=1)

    def pooled(self, tokens):
        if self.config.classifier_pooling == CLS:
            return super().pooled(tokens)
        if self.config.classifier_pooling == LATE:
            return self._means(self._pooler(tokens))
        return self._pooler(self._means(tokens))

    def _means(self, vectors):
        """Returns the mean of each row: `[B, S, H]` -> `[B, H]`."""
        graph = self.graph
        if self.is_packed:
            return PackedSequences(graph).mean(vectors)
        mask = graph.node("Unsqueeze", graph.to_float(self.inputs[features.INPUT_MASK]), axes=[2])
        total = graph.node("ReduceSum", graph.node("Mul", vectors, mask), axes=[1], keepdims=0)
        count = graph.node("Max", graph.node("ReduceSum", mask, axes=[1], keepdims=0), graph.number(1))
        return graph.node("Div", total, count)

    def _pooler(self, vectors):
        if not self.config.head_pooler:
            return super()._pooler(vectors)
        head = self.encoder.pooler
        activated = self.graph.activation(head.activation, dense(self.graph, head.dense, vectors))
        return layer_norm(self.graph, head.layer_norm, activated)

    def _norm(self, layer, vectors):
        """Returns the output of a `LayerNorm` or an `RMSNorm`."""
        if not isinstance(layer, RMSNorm):
            return layer_norm(self.graph, layer, vectors)
        graph = self.graph
        squares = graph.node("ReduceMean", graph.node("Mul", vectors, vectors), axes=[-1], keepdims=1)
        root = graph.node("Sqrt", graph.node("Add", squares, graph.number(layer.epsilon)))
        scale = graph.weight(stored_name(layer.gamma), array(layer.gamma) + (1 if layer.plus_1 else 0))
        return graph.node("Mul", graph.node("Div", vectors, root), scale)

    def _run(self, select=None, num_selected=None):
        hidden, positions = self._embeddings(), self._positions()
        blocks, kinds = self.encoder.blocks_in_order(), self.config.layer_kinds
        of_all = {kind: self._attention_inputs(kind, positions, _all) for kind in dict.fromkeys(kinds)}
        for number, (block, kind) in enumerate(zip(blocks, kinds, strict=True), start=1):
            if select and number == len(blocks):
                hidden = self._block(block, hidden, select, *self._attention_inputs(kind, positions, select))
            else:
                hidden = self._block(block, hidden, _all, *of_all[kind])
        return self._norm(self.encoder.final_layer_norm, hidden) if self.config.final_norm else hidden

    def _embeddings(self):
        graph, layer = self.graph, self.encoder.embeddings
        vectors = graph.rows(*table(layer.token_embeddings), self.inputs[features.INPUT_IDS])
        if layer.scale != 1:
            vectors = graph.node("Mul", vectors, graph.number(layer.scale))
        if layer.num_segments:
            segments = self.inputs.get(features.SEGMENT_IDS)
            segments = graph.integers(0) if segments is None else segments  # the model has one segment
            vectors = graph.node("Add", vectors, graph.rows(*table(layer.segment_embeddings), segments))
        return vectors if layer.layer_norm_epsilon is None else layer_norm(graph, layer.layer_norm, vectors)

    def _positions(self):
        """Returns the position of each token, float32 `[B, S, 1]`."""
        graph = self.graph
        positions = self.inputs.get(features.POSITION_IDS)
        if positions is None:
            positions = graph.node("Expand", self._columns(), graph.node("Shape", self.inputs[features.INPUT_MASK]))
        return graph.node("Unsqueeze", graph.to_float(positions), axes=[2])

    def _attention_inputs(self, kind, positions, select):
        """Returns the bias of a kind of layers, and the angles of the selected tokens, which attend, and of all tokens.

        Positions are `[B, S, 1]`; `select` is a function `[B, S, ...]` -> `[B, F, ...]`.
        """
        bias = self._attention_bias() if kind == GLOBAL else self._local_bias(positions, select)
        if self.is_packed and kind == GLOBAL and select is not _all:
            bias = self._bias_at(bias, select)
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
        is_token = select(self._same_sequence()) if self.is_packed else graph.node("Transpose", mask, perm=[0, 2, 1])
        allowed = graph.node("Mul", is_seen, is_token)
        return self._bias(graph.node("Unsqueeze", allowed, axes=[1]))

    def _angles(self, kind, positions):
        """Returns the cosines and sines of positions, `[B, 1, S, D / 2]`; see `rotary_angles`."""
        graph = self.graph
        frequencies = graph.weight(f"frequencies of {kind} layers", self.encoder.rotary_frequencies(kind))
        angles = graph.node("Unsqueeze", graph.node("Mul", positions, frequencies), axes=[1])
        return graph.node("Cos", angles), graph.node("Sin", angles)

    def _block(self, block, hidden, select, bias, query_angles, key_angles):
        """Returns the output of a block for the selected tokens, `[B, F, H]`."""
        graph, attention, place = self.graph, block.attention, block.norm_place
        has_norm = block.normalizes_input and place != AFTER
        normalized = self._norm(block.attention_layer_norm, hidden) if has_norm else hidden
        query, key, value = self._heads(attention, normalized, select(normalized))
        key = graph.node("Transpose", self._rotated(key, key_angles), perm=[0, 1, 3, 2])
        attended = self._attend(attention, self._rotated(query, query_angles), key, value, bias, attention.scale)
        attended = dense(graph, attention.output_dense, attended)
        if place == AROUND:
            attended = self._norm(block.attention_output_norm, attended)
        vectors = graph.node("Add", select(hidden), attended)
        if place == AFTER:
            vectors = self._norm(block.attention_layer_norm, vectors)
        normal = vectors if place == AFTER else self._norm(block.feed_forward_layer_norm, vectors)
        output = dense(graph, block.output_dense, self._inner(block, normal))
        if place == AROUND:
            output = self._norm(block.feed_forward_output_norm, output)
        total = graph.node("Add", vectors, output)
        return self._norm(block.feed_forward_layer_norm, total) if place == AFTER else total

    def _inner(self, block, vectors):
        """Returns the inputs of the block's last dense layer."""
        graph, inner = self.graph, dense(self.graph, block.intermediate_dense, vectors)
        if not block.gated:
            return graph.activation(block.activation, inner)
        if block.joined:
            inner, factor = graph.node("Split", inner, num_outputs=2, axis=2, split=[block.intermediate_size] * 2)
        else:
            factor = dense(graph, block.factor_dense, vectors)
        return graph.node("Mul", graph.activation(block.activation, inner), factor)

    def _heads(self, layer, hidden, tokens):
        """Returns queries before they are rotated, `[B, N, F, D]`, keys and values, `[B, K, S, D]`."""
        graph = self.graph
        numbers, found = (layer.num_heads, layer.key_value_heads, layer.key_value_heads), []
        for values, number in zip(self._query_key_value(layer, hidden, tokens), numbers, strict=True):
            shape = graph.integers(0, 0, number, layer.head_size)
            heads = graph.node("Transpose", graph.node("Reshape", values, shape), perm=[0, 2, 1, 3])
            found.append(heads)
        if layer.norm_epsilon is not None:
            found[0], found[1] = self._norm(layer.query_norm, found[0]), self._norm(layer.key_norm, found[1])
        return found

    def _attend(self, layer, query, key, value, bias, scale=None):
        shared = layer.num_heads // layer.key_value_heads
        if shared == 1:
            return super()._attend(layer, query, key, value, bias, scale)
        # The heads that share keys have an axis of their own: [B, K, N / K, F, D].
        graph = self.graph
        query = graph.node("Reshape", query, graph.integers(0, layer.key_value_heads, shared, -1, layer.head_size))
        key, value, bias = (graph.node("Unsqueeze", part, axes=[2]) for part in (key, value, bias))
        scores = graph.node("Mul", graph.node("MatMul", query, key), graph.number(scale))
        probabilities = graph.node("Softmax", graph.node("Add", scores, bias), axis=4)
        gathered = graph.node("MatMul", probabilities, value)
        gathered = graph.node("Reshape", gathered, graph.integers(0, layer.num_heads, -1, layer.head_size))
        gathered = graph.node("Transpose", gathered, perm=[0, 2, 1, 3])
        return graph.node("Reshape", gathered, graph.integers(0, 0, layer.num_heads * layer.head_size))

    def _query_key_value(self, layer, hidden, tokens):
        graph = self.graph
        if not layer.joined:
            return [
                dense(graph, part, of) for part, of in zip(layer.projections(), (tokens, hidden, hidden), strict=True)
            ]
        sizes = [number * layer.head_size for number in (layer.num_heads, *[layer.key_value_heads] * 2)]
        if tokens == hidden:
            return graph.node("Split", dense(graph, layer.qkv, hidden), num_outputs=3, axis=2, split=sizes)
        ends = np.cumsum(sizes)[:-1]
        kernels = np.split(kernel(layer.qkv), ends, axis=1)
        biases = np.split(array(layer.qkv.bias), ends) if layer.use_bias else [None] * 3
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
