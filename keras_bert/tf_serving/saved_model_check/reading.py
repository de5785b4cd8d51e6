"""Reads a SavedModel from disk, without running it: the served graph, its signatures and its call graph."""

import functools
import os
from collections.abc import Iterable, Iterator

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.versions import SAVED_MODEL_FILE

# Servers load the graph with this tag only.
_SERVE_TAG = "serve"
# The largest message that protobuf reads.
_MOST_BYTES = 2**31 - 1
# TensorFlow stores these among the signatures for its own use.
_INTERNAL = "__saved_model_"


class SavedModelGraph:
    """The graph of a SavedModel that servers load, made of its MetaGraphDef.

    Attributes:
        signatures: name -> SignatureDef, without TensorFlow's internal signatures.
        functions: name -> FunctionDef.
        nodes: name -> NodeDef of the graph itself, without its functions.
    """

    def __init__(self, meta_graph):
        signatures, graph = meta_graph.signature_def, meta_graph.graph_def
        self.signatures = {name: signatures[name] for name in sorted(signatures) if not name.startswith(_INTERNAL)}
        self.functions = {function.signature.name: function for function in graph.library.function}
        self.nodes = {node.name: node for node in graph.node}

    def served_nodes(self) -> Iterator[tuple[str, object]]:
        """Yields (name of the function or "", NodeDef), without functions that only Python calls."""
        yield from (("", node) for node in self.nodes.values())
        for name in sorted(self._walk(self.nodes)[1]):
            yield from ((name, node) for node in self.functions[name].node_def)

    def users_of(self, function: str, node: str) -> list[str]:
        """Returns the signatures that can run a node of a function, or of the graph itself if `function` is ""."""
        return [
            name
            for name, (nodes, functions) in self._reached.items()
            if (function in functions if function else node in nodes)
        ]

    @functools.cached_property
    def _reached(self) -> dict:
        return {
            name: self._walk(output.name.partition(":")[0] for output in signature.outputs.values())
            for name, signature in self.signatures.items()
        }

    def _walk(self, starts: Iterable[str]) -> tuple[set[str], set[str]]:
        nodes, functions, waiting = set(), set(), list(starts)
        while waiting:
            name = waiting.pop()
            if name in nodes or name not in self.nodes:
                continue
            nodes.add(name)
            waiting += [tensor.lstrip("^").partition(":")[0] for tensor in self.nodes[name].input]
        waiting = [called for name in nodes for called in self._called_by(self.nodes[name])]
        while waiting:
            name = waiting.pop()
            if name not in functions:
                functions.add(name)
                waiting += [called for node in self.functions[name].node_def for called in self._called_by(node)]
        return nodes, functions

    def _called_by(self, node) -> list[str]:
        """Returns the functions that a node names, as its operation or as a branch or body."""
        names = [node.op]
        for value in node.attr.values():
            kind = value.WhichOneof("value")
            names += [value.func.name] if kind == "func" else []
            names += [function.name for function in value.list.func] if kind == "list" else []
        return [name for name in names if name in self.functions]


def read_saved_model(folder: str | os.PathLike) -> SavedModelGraph:
    """Reads `saved_model.pb` of one version. Raises `InputError` if no server could load it."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(folder, SAVED_MODEL_FILE)
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise InputError(f"{path} is larger than 2 GB: no server loads it. Keep weights in variables.")
        with open(path, "rb") as file:
            saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except DecodeError as error:
        raise InputError(f"{path} is damaged or not a SavedModel. Export the model again.") from error
    for graph in saved_model.meta_graphs:
        if list(graph.meta_info_def.tags) == [_SERVE_TAG]:
            return SavedModelGraph(graph)
    raise InputError(f'{path} has no graph with the tag "{_SERVE_TAG}": no server loads it. Use tf.saved_model.save.')


def type_name(tensor) -> str:
    """Returns the type of a TensorInfo as TensorFlow spells it, without DT_: "INT32"."""
    from tensorflow.core.framework import types_pb2

    return types_pb2.DataType.Name(tensor.dtype).removeprefix("DT_")


def shape_of(tensor) -> list[int] | None:
    """Returns the dimensions of a TensorInfo, -1 for variable ones, or None if the rank is unknown."""
    return None if tensor.tensor_shape.unknown_rank else [dim.size for dim in tensor.tensor_shape.dim]
