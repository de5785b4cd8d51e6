"""The vectors of the tokens of each sequence -> one vector for it, as ONNX operations; see `layers/text_pooling.py`."""

import numpy as np

from keras_bert.records import features
from keras_bert.serving.graph.onnx_heads import is_token

_HIDDEN = -1e9  # replaces the vectors of other tokens before a maximum is taken


class RowSequences:
    """Rows of one sequence each: N = B. Methods take the vectors of the tokens, `[B, S, H]`, and return `[N, H]`."""

    def __init__(self, graph):
        self.graph = graph

    def pooled(self, pooling: str, hidden: str) -> str:
        """Returns the result of one of `config.POOLINGS`."""
        return getattr(self, {"cls": "first", "lasttoken": "last", "max": "maximum"}.get(pooling, pooling))(hidden)

    def mean(self, hidden):
        return self.graph.node("Div", self.total(hidden), self.count())

    def mean_sqrt_len_tokens(self, hidden):
        return self.graph.node("Div", self.total(hidden), self.graph.node("Sqrt", self.count()))

    def weightedmean(self, hidden):
        graph, weights = self.graph, self._weights()
        total = graph.node("Max", self.total(weights), graph.number(1))
        return graph.node("Div", self.total(graph.node("Mul", hidden, weights)), total)

    def first(self, hidden):
        graph = self.graph
        first = graph.node("Slice", hidden, graph.integers(0), graph.integers(1), graph.integers(1))
        return graph.node("Squeeze", first, axes=[1])

    def last(self, hidden):
        last = self.graph.node("Sub", self.graph.to_int64(self.count()), self.graph.integers(1))
        return self.graph.node("GatherND", hidden, last, batch_dims=1)

    def maximum(self, hidden):
        kept = self.graph.node("Where", is_token(self.graph), hidden, self.graph.number(_HIDDEN))
        return self.graph.node("ReduceMax", kept, axes=[1], keepdims=0)

    def total(self, values):
        """Returns the sum of the values of each sequence: `[B, S, H]` -> `[N, H]`."""
        masked = self.graph.node("Mul", values, self._mask())
        return self.graph.node("ReduceSum", masked, axes=[1], keepdims=0)

    def count(self):
        """Returns the number of tokens of each sequence, `[N, 1]`; 1 for one without tokens."""
        total = self.graph.node("ReduceSum", self._mask(), axes=[1], keepdims=0)
        return self.graph.node("Max", total, self.graph.number(1))

    def _weights(self):
        """Returns 1, 2, ... for the tokens of a sequence, `[B, S, 1]`."""
        # Positions count padding on the left too, so they are sums of ones, not of the mask.
        ones = self.graph.node("Exp", self.graph.node("Mul", self._mask(), self.graph.number(0)))
        positions = self.graph.node("CumSum", ones, self.graph.weight("one", np.int64(1)))
        return self.graph.node("Mul", self._mask(), positions)

    def _mask(self):
        return self.graph.to_float(is_token(self.graph))


class PackedSequences(RowSequences):
    """Packed rows, with K sequences each: N = B * K. The columns where they begin are the input `cls_positions`."""

    def __init__(self, graph):
        super().__init__(graph)
        self._columns = graph.to_int64(features.CLS_POSITIONS)
        numbers = graph.node("Unsqueeze", graph.at_columns(features.INPUT_MASK, self._columns), axes=[2])
        self._has_token = graph.node("Equal", numbers, graph.node("Unsqueeze", features.INPUT_MASK, axes=[1]))
        self._members = graph.to_float(self._has_token)  # [B, K, S]

    def first(self, hidden):
        return self._joined(self.graph.at_columns(hidden, self._columns))

    def last(self, hidden):
        graph = self.graph
        counts = graph.to_int64(graph.node("ReduceSum", self._members, axes=[2], keepdims=0))
        last = graph.node("Sub", graph.node("Add", self._columns, counts), graph.integers(1))
        return self._joined(graph.at_columns(hidden, last))

    def maximum(self, hidden):
        graph = self.graph
        has_token = graph.node("Unsqueeze", self._has_token, axes=[3])
        kept = graph.node("Where", has_token, graph.node("Unsqueeze", hidden, axes=[1]), graph.number(_HIDDEN))
        return self._joined(graph.node("ReduceMax", kept, axes=[2], keepdims=0))

    def total(self, values):
        return self._joined(self.graph.node("MatMul", self._members, values))

    def count(self):
        return self._joined(self.graph.node("ReduceSum", self._members, axes=[2], keepdims=1))

    def _weights(self):
        positions = self.graph.to_float(self.graph.node("Unsqueeze", features.POSITION_IDS, axes=[2]))
        return self.graph.node("Add", positions, self.graph.number(1))

    def _joined(self, values):
        """Joins the sequences of all rows: `[B, K, H]` -> `[B * K, H]`."""
        graph = self.graph
        width = graph.node("Slice", graph.node("Shape", values), *(graph.integers(n) for n in (2, 3, 0)))
        return graph.node("Reshape", values, graph.node("Concat", graph.integers(-1), width, axis=0))
