"""Checks the operations of a graph: whether servers have them."""

import collections
from collections.abc import Iterator, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.private_interfaces import private
from keras_bert.tf_serving.saved_model_check.reading import SavedModelGraph
from keras_bert.tf_serving.saved_model_check.report import Finding, error, warning
from keras_bert.tf_serving.saved_model_check.served_operations import (
    FOREST_PREFIX,
    LAST_WITHOUT,
    PYTHON_OPERATIONS,
    TEXT_SINCE,
    VERSIONS,
)


def check_operations(graph: SavedModelGraph, versions: Sequence[str]) -> Iterator[Finding]:
    """Yields operations that some of the `versions` of TensorFlow Serving lack or cannot run.

    Raises:
        InputError: there is no version, or an unknown one.
    """
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown or not versions:
        raise InputError(
            f"Give versions of TensorFlow Serving from {VERSIONS[0]} to {VERSIONS[-1]}. Received: "
            f"{', '.join(map(repr, unknown)) or 'none'}"
        )
    minors = sorted({int(version.removeprefix("2.")) for version in versions})
    users = collections.defaultdict(set)
    for function, node in graph.served_nodes():
        if node.op not in graph.functions:
            users[node.op].update(graph.users_of(function, node.name))
    for operation in sorted(users):
        signatures = ", ".join(sorted(users[operation]))
        place = f"in signature {signatures}" if signatures else "in a part that no signature uses"
        yield from _findings(operation, f"operation {operation}, {place}", minors)


def text_operations(graph: SavedModelGraph) -> tuple[str, ...]:
    """Returns the names of the operations of TensorFlow Text that servers need for the model."""
    return tuple(sorted({node.op for _, node in graph.served_nodes()} & TEXT_SINCE.keys()))


def _findings(operation: str, where: str, minors: list[int]) -> Iterator[Finding]:
    fails = f"The model does not load (Op type not registered '{operation}' in binary running on ...)."
    if operation in LAST_WITHOUT:
        certain, possible = LAST_WITHOUT[operation]
        lacking = [minor for minor in minors if minor <= certain]
        unsure = [minor for minor in minors if certain < minor <= possible]
        if lacking:
            newer = f", or serve with TensorFlow Serving 2.{minors[-1]}" if minors[-1] > possible else ""
            happens = f"TensorFlow Serving {_span(lacking)} does not include it. {fails}"
            yield error("missing-operation", where, happens, f"use older operations{newer}.")
        if unsure:
            happens = f"It was added after TensorFlow 2.12: TensorFlow Serving {_span(unsure)} may lack it. {fails}"
            yield warning("newer-operation", where, happens, "use older operations, or try it in your server.")
    elif operation in PYTHON_OPERATIONS:
        happens = (
            "It calls a function of the Python process that made the graph (tf.py_function, tf.numpy_function). No "
            "server has that function: requests that need it fail."
        )
        yield error("python-operation", where, happens, "write it in TensorFlow operations.")
    elif not operation.startswith(FOREST_PREFIX) and not _is_registered(operation):
        happens = f"Neither TensorFlow nor TensorFlow Text has it, so stock TensorFlow Serving does not either. {fails}"
        yield error("custom-operation", where, happens, "use TensorFlow's operations, or build a server that has it.")


def _is_registered(operation: str) -> bool:
    return private("tensorflow.python.framework.op_def_registry.get")(operation) is not None


def _span(minors: list[int]) -> str:
    return f"2.{minors[0]}" if len(minors) == 1 else f"2.{minors[0]} to 2.{minors[-1]}"
