"""Checks the operations of a graph: whether servers have them and run them."""

import collections
import re
from collections.abc import Iterator, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.private_interfaces import private
from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import ERROR, WARNING, Finding, error, warning
from keras_bert.tf_serving.saved_model_check.served_operations import (
    FOREST_PREFIX,
    NEWER_THAN_2_12,
    NEWER_THAN_2_20,
    PYTHON_OPERATIONS,
    TEXT_SINCE,
    VERSIONS,
)
from keras_bert.tf_serving.saved_model_check.signatures import DEFAULT_SIGNATURE

_MUST_COMPILE = "_XlaMustCompile"
# A path with at least two parts, of Unix or Windows, or the address of a file store.
_ABSOLUTE_PATH = re.compile(r"(/[\w.@+~ -]+){2,}|[A-Za-z]:\\.+|(gs|s3|hdfs|file)://[\w.-]+/[\w./@+~-]+")


def serving_minors(versions: Sequence[str]) -> list[int]:
    """Returns the minor numbers of TensorFlow Serving versions (19 for 2.19), ascending.

    Raises:
        InputError: there is no version, or an unknown one.
    """
    for version in versions:
        if version not in VERSIONS:
            raise InputError(
                f"TensorFlow Serving {version!r} is unknown. Give versions such as 2.19, from {VERSIONS[0]} to "
                f"{VERSIONS[-1]}."
            )
    if not versions:
        raise InputError(f"No version of TensorFlow Serving was given. Give some of {VERSIONS[0]} to {VERSIONS[-1]}.")
    return sorted({int(version.removeprefix("2.")) for version in versions})


def check_operations(model: SavedModelFiles, versions: Sequence[str]) -> Iterator[Finding]:
    """Yields operations that some of the `versions` of TensorFlow Serving lack or cannot run."""
    minors = serving_minors(versions)
    nodes = collections.defaultdict(list)
    for function, node in model.served_nodes():
        if node.op not in model.functions:
            nodes[node.op].append((function, node.name))
    for operation in sorted(nodes):
        where = f"operation {operation}, {_users(model, nodes[operation])}"
        if operation in PYTHON_OPERATIONS:
            yield error(
                "python-operation",
                where,
                "It calls a function of the Python process that made the graph (tf.py_function, tf.numpy_function). "
                "No server has that function: requests that need it fail.",
                "write it in TensorFlow operations.",
            )
        else:
            yield from _linked(operation, where, minors)


def text_operations(model: SavedModelFiles) -> tuple[str, ...]:
    """Returns the names of the operations of TensorFlow Text that servers need for the model."""
    return tuple(sorted({node.op for _, node in model.served_nodes()} & TEXT_SINCE.keys()))


def _linked(operation: str, where: str, minors: list[int]) -> Iterator[Finding]:
    find_operation = private("tensorflow.python.framework.op_def_registry.get")
    fails = f"The model does not load (Op type not registered '{operation}' in binary running on ...)."
    if operation in TEXT_SINCE:
        lacking = [minor for minor in minors if minor < TEXT_SINCE[operation]]
        remedy = "use core operations of TensorFlow instead"
    elif operation in NEWER_THAN_2_12 or operation in NEWER_THAN_2_20:
        newest_without = 20 if operation in NEWER_THAN_2_20 else 12
        lacking = [minor for minor in minors if minor <= newest_without]
        unsure = [minor for minor in minors if newest_without < minor < 20]
        remedy = "use older operations"
        if unsure:
            happens = f"It was added after TensorFlow 2.12: TensorFlow Serving {_span(unsure)} may lack it. {fails}"
            yield warning("newer-operation", where, happens, "use older operations, or try it in your server.")
    elif operation.startswith(FOREST_PREFIX) or find_operation(operation) is not None:
        return
    else:
        happens = f"Neither TensorFlow nor TensorFlow Text has it, so stock TensorFlow Serving does not either. {fails}"
        yield error("custom-operation", where, happens, "use TensorFlow's operations, or build a server that has it.")
        return
    if lacking:
        happens = f"TensorFlow Serving {_span(lacking)} does not include it. {fails}"
        newest = max(minors)
        alternative = f", or serve with TensorFlow Serving {newest}" if newest > max(lacking) else ""
        alternative = alternative.replace(f" {newest}", f" 2.{newest}")
        yield error("missing-operation", where, happens, f"{remedy}{alternative}.")


def check_compiled(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about signatures that XLA must compile: stock servers have it switched off."""
    for name in model.signatures:
        nodes, functions = model.reached(name)
        compiled = [key for key in functions if _is_compiled(model.functions[key])]
        compiled += [key for key in nodes if _is_compiled(model.nodes[key])]
        compiled += [
            node.name for function in functions for node in model.functions[function].node_def if _is_compiled(node)
        ]
        if compiled:
            yield Finding(
                ERROR if name == DEFAULT_SIGNATURE else WARNING,
                "must-compile",
                f"signature {name}, {sorted(compiled)[0]}",
                "It was made with jit_compile=True. A stock server loads it, but then every request fails with XLA "
                "compilation disabled.",
                "export without jit_compile, or start the server with --xla_cpu_compilation_enabled.",
            )


def check_paths(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about operations that read a file by its path on the machine that made the graph."""
    for function, node in model.served_nodes():
        if node.op != "Const" or len(node.attr["value"].tensor.string_val) != 1:
            continue
        text = node.attr["value"].tensor.string_val[0].decode("utf-8", "replace")
        readers = _readers(model, function, node.name) if _ABSOLUTE_PATH.fullmatch(text) else []
        if readers:
            yield error(
                "absolute-path",
                f"operation {readers[0]}, {_users(model, [(function, node.name)])}",
                f"It reads {text}, a file of the machine that made the graph. The file is missing on a server: loading "
                "or requests fail.",
                "make the file a tf.saved_model.Asset, or read it before saving.",
            )


_FILE_READERS = re.compile(
    r"ReadFile|WholeFileReader|InitializeTableFromTextFile\w*|MatchingFiles|\w*(TextLine|TFRecord|FixedLength)\w*|"
    r"RestoreV2|LoadTensorRTEngine|SimpleMLLoadModelFromPath\w*"
)


def _readers(model: SavedModelFiles, function: str, name: str) -> list[str]:
    nodes = model.functions[function].node_def if function else model.meta_graph.graph_def.node
    return [
        node.op
        for node in nodes
        if _FILE_READERS.fullmatch(node.op) and any(source.lstrip("^").split(":")[0] == name for source in node.input)
    ]


def _is_compiled(owner) -> bool:
    return _MUST_COMPILE in owner.attr and owner.attr[_MUST_COMPILE].b


def _users(model: SavedModelFiles, nodes: list[tuple[str, str]]) -> str:
    """Returns in words which signatures use the given nodes, (function, node)."""
    signatures = sorted({name for function, node in nodes for name in model.users_of(function, node)})
    return f"in signature {', '.join(signatures)}" if signatures else "in a part that no signature uses"


def _span(minors: list[int]) -> str:
    return f"2.{minors[0]}" if len(minors) == 1 else f"2.{minors[0]} to 2.{minors[-1]}"
