"""`DistanceEncoder` as ONNX operations."""

from keras_bert.encoders.bert.onnx import OnnxEncoder
from keras_bert.records import features
from keras_bert.serving.graph.onnx_layers import array, stored_name
from toys.distance.encoder import PENALTY


class OnnxDistanceEncoder(OnnxEncoder):
    """Adds a `DistanceEncoder` to a graph."""

    def _attention(self, layer, hidden, tokens, bias):
        graph = self.graph
        shape = graph.node("Shape", self.inputs[features.INPUT_MASK])
        positions = graph.node("Unsqueeze", graph.to_float(graph.node("Expand", self._columns(), shape)), axes=[2])
        queries = positions if tokens == hidden else self._select(positions)  # [B, F, 1]
        keys = graph.node("Transpose", positions, perm=[0, 2, 1])
        distances = graph.node("Abs", graph.node("Sub", queries, keys))
        distances = graph.node("Min", distances, graph.number(self.config.furthest))
        penalties = graph.node("Mul", graph.node("Unsqueeze", distances, axes=[1]), graph.number(PENALTY))
        return super()._attention(layer, hidden, tokens, graph.node("Sub", bias, penalties))

    def _attend(self, layer, query, key, value, bias):
        sharpness = self.graph.weight(stored_name(layer.sharpness), array(layer.sharpness).reshape(-1, 1, 1))
        return super()._attend(layer, self.graph.node("Mul", query, sharpness), key, value, bias)
