"""Reads a SavedModel from disk, without running it: the served graph, its signatures and its call graph."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.saved_model_check.report import error
from keras_bert.tf_serving.versions import SAVED_MODEL_FILE

# Servers load the graph with this tag only.
SERVE_TAG = "serve"
# The largest message that protobuf reads.
MOST_BYTES = 2**31 - 1
# TensorFlow stores these among the signatures for its own use.
_INTERNAL_SIGNATURES = "__saved_model_"


class NotServable(Exception):
    """The SavedModel cannot be checked further. The only argument is the finding with the reason."""


@dataclasses.dataclass(frozen=True)
class SavedModelFiles:
    """The parsed files of one SavedModel.

    Attributes:
        folder: the folder of one version.
        meta_graph: the MetaGraphDef with the tag "serve".
    """

    folder: str
    meta_graph: object

    @functools.cached_property
    def signatures(self) -> dict:
        """Name -> SignatureDef, without TensorFlow's internal signatures."""
        signatures = self.meta_graph.signature_def
        return {name: signatures[name] for name in sorted(signatures) if not name.startswith(_INTERNAL_SIGNATURES)}

    @functools.cached_property
    def functions(self) -> dict:
        """Name -> FunctionDef."""
        return {function.signature.name: function for function in self.meta_graph.graph_def.library.function}

    @functools.cached_property
    def nodes(self) -> dict:
        """Name -> NodeDef of the graph itself, without its functions."""
        return {node.name: node for node in self.meta_graph.graph_def.node}

    def all_nodes(self) -> Iterator[tuple[str, object]]:
        """Yields (name of the function or "", NodeDef) for every node."""
        for node in self.meta_graph.graph_def.node:
            yield "", node
        for name, function in self.functions.items():
            for node in function.node_def:
                yield name, node

    def served_nodes(self) -> Iterator[tuple[str, object]]:
        """Yields the nodes of `all_nodes` without functions that only Python calls; servers ignore these."""
        _, functions = self._walk(self.nodes)
        return ((function, node) for function, node in self.all_nodes() if not function or function in functions)

    def reached(self, signature: str) -> tuple[set[str], set[str]]:
        """Returns the names of the graph's nodes, and of the functions, that a call of `signature` can run."""
        return self._reached[signature]

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
            waiting += [_node_name(tensor) for tensor in self.nodes[name].input]
        waiting = [called for name in nodes for called in self.called_by(self.nodes[name])]
        while waiting:
            name = waiting.pop()
            if name not in functions:
                functions.add(name)
                waiting += [called for node in self.functions[name].node_def for called in self.called_by(node)]
        return nodes, functions

    def called_by(self, node) -> list[str]:
        """Returns the functions that a node names, as its operation or as a branch or body."""
        names = [node.op]
        for value in node.attr.values():
            kind = value.WhichOneof("value")
            names += [value.func.name] if kind == "func" else []
            names += [function.name for function in value.list.func] if kind == "list" else []
        return [name for name in names if name in self.functions]

    def users_of(self, function: str, node: str) -> list[str]:
        """Returns the signatures that can run a node of a function, or of the graph itself if `function` is ""."""
        return [
            name
            for name, (nodes, functions) in self._reached.items()
            if (function in functions if function else node in nodes)
        ]


def read_saved_model(folder: str) -> SavedModelFiles:
    """Reads `saved_model.pb` of one version.

    Raises:
        NotServable: it is too large for protobuf, or has no graph with the tag "serve".
        InputError: it is damaged or cannot be read.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(folder, SAVED_MODEL_FILE)
    size = os.path.getsize(path)
    if size > MOST_BYTES:
        happens = f"It has {size:,} bytes, but protobuf reads at most {MOST_BYTES:,}: the model does not load."
        raise NotServable(
            error("huge-graph", SAVED_MODEL_FILE, happens, "keep weights in variables, not in constants.")
        )
    try:
        with open(path, "rb") as file:
            saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    except OSError as failure:
        raise InputError(f"Cannot read {path}: {failure.strerror}.") from failure
    except DecodeError as failure:
        raise InputError(f"{path} is damaged or not a SavedModel. Export the model again.") from failure
    graphs = {tuple(graph.meta_info_def.tags): graph for graph in saved_model.meta_graphs}
    if (SERVE_TAG,) not in graphs:
        tags = ", ".join("+".join(tags) or "(none)" for tags in graphs) or "no graph at all"
        happens = (
            f'Servers load only the graph with the tag "{SERVE_TAG}". The file has: {tags}. The model does not load.'
        )
        raise NotServable(error("no-serve-tag", SAVED_MODEL_FILE, happens, "save it with tf.saved_model.save."))
    return SavedModelFiles(folder, graphs[(SERVE_TAG,)])


def _node_name(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]
