"""Makes exports reproducible: a model always gives the same `saved_model.pb`, whatever the process did before.

TensorFlow ends the name of every traced function with a process-wide counter, and orders functions by a hash of these
names. So a second export of the same model, or an export after training, differs in every function. This module numbers
the functions anew, in the order in which the graph calls them.
"""

import os
import re
from collections.abc import Iterator, Mapping

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.private_interfaces import private

# __inference_<name>_<number> is a traced function, <operation>_<branch>_<number> a branch of a condition. Inside a
# branch, <operation>_<number> is a value from outside.
_NUMBERED_NAME = re.compile(r"^(.+)_\d+$")
# A value that a loop is given but does not use ends in the number of the loop and a number of its own.
_NUMBERS_AT_THE_END = re.compile(r"^(.+?)(?:_\d+)+(?:(___redundant_placeholder)\d+)?$")
_USER_NAME = "_user_specified_name"


def make_canonical(version_folder: str | os.PathLike, method_names: Mapping[str, str] | None = None) -> None:
    """Renames and reorders the functions of a SavedModel in place, and rewrites its fingerprint.

    Args:
        version_folder: folder with the `saved_model.pb` that `tf.saved_model.save` has just written.
        method_names: signature -> method name, where it is not TensorFlow Serving's Predict. Servers can check it
            (`--enable_signature_method_name_check`).
    """
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(version_folder, "saved_model.pb")
    with open(path, "rb") as file:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    for meta_graph in saved_model.meta_graphs:
        _rename_functions(meta_graph, _new_names(meta_graph))
        meta_graph.graph_def.library.function.sort(key=lambda function: function.signature.name)
        for signature, method_name in (method_names or {}).items():
            if signature in meta_graph.signature_def:
                meta_graph.signature_def[signature].method_name = method_name
    with atomic_file(path) as file:
        file.write(saved_model.SerializeToString(deterministic=True))
    # The fingerprint of TensorFlow has the hash of the original graph. There is no public function to write it.
    private("tensorflow.python.saved_model.fingerprinting_utils.write_fingerprint")(os.fspath(version_folder))


def _new_names(meta_graph) -> dict[str, str]:
    """Returns old name -> new name. Functions are numbered in the order of a walk from the top of the graph."""
    functions = {function.signature.name: function for function in meta_graph.graph_def.library.function}
    met: dict[str, None] = {}

    def visit(names: Iterator[str]) -> None:
        for name in names:
            if name in functions and name not in met:
                met[name] = None
                visit(_names_in_nodes(functions[name].node_def))

    visit(_names_in_nodes(meta_graph.graph_def.node))
    for node in meta_graph.object_graph_def.nodes:
        visit(iter(node.function.concrete_functions))
        visit(iter([node.bare_concrete_function.concrete_function_name]))
    visit(iter(sorted(functions)))

    renamed = {}
    for number, name in enumerate(met):
        match = _NUMBERED_NAME.match(name)
        renamed[name] = f"{match[1]}_{number}" if match else name
    return renamed


def _names_in_nodes(nodes) -> Iterator[str]:
    for node in nodes:
        yield node.op
        for key in sorted(node.attr):
            for function in _functions_in_attribute(node.attr[key]):
                yield function.name


def _functions_in_attribute(value) -> list:
    kind = value.WhichOneof("value")
    if kind == "func":
        return [value.func]
    return list(value.list.func) if kind == "list" else []


def _rename_functions(meta_graph, new_names: dict[str, str]) -> None:
    def rename_in_nodes(nodes) -> None:
        for node in nodes:
            if node.op in new_names:
                node.op = new_names[node.op]
            for value in node.attr.values():
                for function in _functions_in_attribute(value):
                    function.name = new_names.get(function.name, function.name)

    def rename_keys(mapping) -> None:
        entries = [(key, mapping[key]) for key in mapping if key in new_names]
        copies = [(new_names[key], type(value).FromString(value.SerializeToString())) for key, value in entries]
        for key, _ in entries:
            del mapping[key]
        for key, value in copies:
            mapping[key].CopyFrom(value)

    rename_in_nodes(meta_graph.graph_def.node)
    for function in meta_graph.graph_def.library.function:
        function.signature.name = new_names[function.signature.name]
        rename_in_nodes(function.node_def)
        _rename_arguments(function)
        for argument in function.arg_attr.values():
            # A tensor without a name, such as a captured constant, is named after a process-wide number.
            if _USER_NAME in argument.attr and argument.attr[_USER_NAME].s.isdigit():
                del argument.attr[_USER_NAME]
    for gradient in meta_graph.graph_def.library.gradient:
        gradient.function_name = new_names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = new_names.get(gradient.gradient_func, gradient.gradient_func)

    objects = meta_graph.object_graph_def
    rename_keys(objects.concrete_functions)
    for node in objects.nodes:
        kind = node.WhichOneof("kind")
        if kind == "function":
            names = [new_names.get(name, name) for name in node.function.concrete_functions]
            node.function.concrete_functions[:] = names
        elif kind == "bare_concrete_function":
            name = node.bare_concrete_function.concrete_function_name
            node.bare_concrete_function.concrete_function_name = new_names.get(name, name)
        elif kind == "captured_tensor":
            name = node.captured_tensor.concrete_function
            node.captured_tensor.concrete_function = new_names.get(name, name)
    aliases = meta_graph.meta_info_def.function_aliases
    for old, new in new_names.items():
        if old != new and old in aliases:
            aliases[new] = aliases.pop(old)


def _rename_arguments(function) -> None:
    """Numbers the arguments and results of a function by their positions."""
    new_names = {}
    for place, argument in enumerate(function.signature.input_arg):
        new_names[argument.name] = argument.name = _numbered(argument.name, place)
    for node in function.node_def:
        node.input[:] = [new_names.get(name, name) for name in node.input]
    results = {output: new_names.get(name, name) for output, name in function.ret.items()}
    function.ret.clear()
    # A loop returns values that it does not change under the name of the argument.
    for place, result in enumerate(function.signature.output_arg):
        name = _numbered(result.name, place)
        function.ret[name] = results[result.name]
        result.name = name


def _numbered(name: str, place: int) -> str:
    """Replaces the numbers at the end of a name, if there are any, by a position: while_5619_0, 27 -> while_27."""
    match = _NUMBERS_AT_THE_END.match(name)
    return f"{match[1]}{match[2] or ''}_{place}" if match else name
