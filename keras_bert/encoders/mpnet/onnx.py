"""`MPNetEncoder` as ONNX operations."""

import numpy as np

from keras_bert.encoders.bert.onnx import OnnxEncoder
from keras_bert.encoders.mpnet.encoder import FIRST_DISTANCES, buckets_of
from keras_bert.serving.graph.onnx_layers import array, stored_name


class OnnxMPNetEncoder(OnnxEncoder):
    """Adds an `MPNetEncoder` to a graph; see `OnnxEncoder`."""

    _bias_of_queries = True

    def can_pack(self):
        return True  # within a sequence, columns are as far apart as positions

    def _attention_bias(self):
        """Returns the bias of padding and of distances, `[B, N, S, S]`."""
        graph, columns = self.graph, self._columns()
        distances = graph.node("Sub", *(graph.node("Unsqueeze", columns, axes=[axis]) for axis in (0, 1)))
        # Distances beyond the last bucket's first one are the same as it.
        longest = FIRST_DISTANCES[-1]
        rows = graph.node("Max", graph.node("Min", distances, graph.integers(longest)), graph.integers(-longest))
        rows = graph.node("Add", rows, graph.integers(longest))
        layer = self.encoder.distance_bias
        of_distances = array(layer.table)[np.asarray(buckets_of(np.arange(-longest, longest + 1, dtype="int32")))]
        biases = graph.node("Gather", graph.weight(stored_name(layer.table), of_distances), rows)
        biases = graph.node("Unsqueeze", graph.node("Transpose", biases, perm=[2, 0, 1]), axes=[0])
        return graph.node("Add", super()._attention_bias(), biases)
