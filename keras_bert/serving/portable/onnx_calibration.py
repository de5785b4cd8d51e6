"""Finds, with example texts, the ranges in which ONNX files round the inputs of dense layers to 8 bits.

The float32 network runs on the texts in ONNX Runtime. Texts that come later may have larger inputs, which then become
the largest ones, so the texts should be like those that the model will get.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.serving.graph.eight_bit_products import SMALLEST_RANGE, balanced_divisors
from keras_bert.serving.graph.onnx_graph import InputRange, OnnxGraph
from keras_bert.serving.graph.onnx_heads import inputs_and_outputs

# Of 0.6, 0.7, 0.75, 0.8, 0.85 and 0.95, the exponent of `balanced_divisors` with the most exact vectors.
_EXPONENT = 0.75


def input_ranges(model, batches: Sequence[Mapping[str, np.ndarray]]) -> dict[str, InputRange]:
    """Returns the ranges of a model's dense layers, by their names in `OnnxGraph`.

    Args:
        model: a model that `write_onnx` takes.
        batches: its features, see `calibration_texts.py`.

    Raises:
        InputError: the inputs of a layer are not finite for one of the batches.
        ImportError: onnx or onnxruntime is missing.
    """
    import onnxruntime

    graph = _WatchedGraph()
    inputs, _ = inputs_and_outputs(graph, model)
    groups = graph.groups()
    widths = {value: len(graph.kernels[names[0]]) for names, values in groups for value in values}
    outputs = {
        f"watched {value}": (graph.node("Reshape", value, graph.integers(-1, width)), [f"rows of {value}", width])
        for value, width in widths.items()
    }
    file = graph.model(inputs, outputs, "the inputs of dense layers")
    if file.ByteSize() >> 31:
        raise InputError("The float32 network has more than 2 GiB, so it cannot be calibrated. Leave calibration out.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"])
    smallest, largest = dict.fromkeys(widths, np.inf), dict.fromkeys(widths, -np.inf)
    for batch in batches:
        for value, rows in zip(widths, session.run(list(outputs), dict(batch)), strict=True):
            smallest[value] = np.minimum(smallest[value], rows.min(axis=0))
            largest[value] = np.maximum(largest[value], rows.max(axis=0))
    ranges = {}
    for names, values in groups:
        low = np.min([smallest[value] for value in values], axis=0)
        high = np.max([largest[value] for value in values], axis=0)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise InputError(
                f"The inputs of {names[0]} are not finite for a text of calibration. Leave calibration out."
            )
        divisors = np.ones(len(low), np.float32)
        if not graph.tables & set(names):
            kernel = np.hstack([graph.kernels[name] for name in names])
            divisors = balanced_divisors(np.maximum(np.abs(low), np.abs(high)), kernel, _EXPONENT)
        start, end = min((low / divisors).min(), 0.0), max((high / divisors).max(), SMALLEST_RANGE)
        ranges.update(dict.fromkeys(names, InputRange(names[0], divisors, float(start), float(end))))
    return ranges


class _WatchedGraph(OnnxGraph):
    """The float32 network, with the dense layers that a graph of 8 bits has. It notes what they read.

    Attributes:
        kernels: name of a dense layer -> its kernel, float32 `[inputs, outputs]`.
        tables: the names of those whose columns are rows of a table, which are read too, so they must not be scaled.
    """

    def __init__(self):
        super().__init__("int8")
        self.joins_products = False
        self.kernels: dict[str, np.ndarray] = {}
        self.tables: set[str] = set()
        self._inputs: dict[str, list[str]] = {}

    def groups(self) -> list[tuple[list[str], list[str]]]:
        """Returns the layers that must share a range, since they read the same values; and these values."""
        found: list[tuple[list[str], list[str]]] = []
        for name, values in self._inputs.items():
            names, shared = [name], list(values)
            for group in [group for group in found if set(group[1]) & set(values)]:
                found.remove(group)
                names, shared = group[0] + names, group[1] + shared
            found.append((names, list(dict.fromkeys(shared))))
        return found

    def rows(self, name, table, indices):
        return self.node("Gather", self.weight(name, table), indices)

    def dense(self, name, values, kernel, bias, exact=False):
        if not exact:
            self._watch(name, values, kernel)
        return super().dense(name, values, kernel, bias, exact=True)

    def product_with_rows(self, name, values, table, bias_name, bias):
        self._watch(name, values, table.T)
        self.tables.add(name)
        product = self.node("MatMul", values, self.weight(f"{name}/columns", table.T))
        return self.node("Add", product, self.weight(bias_name, bias))

    def _watch(self, name: str, values: str, kernel: np.ndarray) -> None:
        self.kernels[name] = kernel
        self._inputs.setdefault(name, []).append(values)
