"""Checks the weights of a SavedModel: files that are missing or cut off, tensors stored twice, and large constants."""

import collections
import os
from collections.abc import Iterator

from keras_bert.program.errors import InputError
from keras_bert.program.variables_index import IndexEntry, read_index
from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error, note, warning
from keras_bert.tf_serving.saved_model_check.signatures import type_name

INDEX_FILE = os.path.join("variables", "variables.index")
# A numeric constant larger than this was probably a weight.
LARGE_CONSTANT_BYTES = 1 << 20
_WEIGHT_TYPES = {"FLOAT", "DOUBLE", "HALF", "BFLOAT16", "INT8", "QINT8"}
# The part of a tensor that is compared with its first value to tell random weights from zeros and ones.
_COMPARED_BYTES = 1 << 16


def check_weights(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about the files of the variables and about constants in the graph."""
    yield from _constants(model)
    index = os.path.join(model.folder, INDEX_FILE)
    has_variables = any(node.op in ("VarHandleOp", "VariableV2") for _, node in model.all_nodes())
    if not os.path.isfile(index):
        if has_variables:
            happens = "The graph has variables, but their values are missing: the model does not load."
            yield error("missing-variables", INDEX_FILE, happens, "copy the whole folder again.")
        return
    try:
        num_shards, tensors = read_index(index)
    except InputError as failure:
        yield error("damaged-variables", INDEX_FILE, f"{failure} The model does not load.", "export it again.")
        return
    problems = list(_data_files(model.folder, num_shards, tensors))
    yield from problems
    if not problems:
        yield from _doubled(model.folder, num_shards, tensors)


def _data_files(folder: str, num_shards: int, tensors: list[IndexEntry]) -> Iterator[Finding]:
    needed_of = collections.defaultdict(int)
    for tensor in tensors:
        needed_of[tensor.shard] = max(needed_of[tensor.shard], tensor.offset + tensor.size)
    for shard in range(num_shards):
        name, needed = _data_file(shard, num_shards), needed_of[shard]
        path = os.path.join(folder, name)
        found = os.path.getsize(path) if os.path.isfile(path) else None
        if found is None or found < needed:
            state = "It is missing" if found is None else f"It has {found:,} bytes of {needed:,}"
            happens = f"{state}: the model does not load. A copy may have been interrupted or may still be running."
            yield error("missing-variables", name, happens, "copy the whole folder again, then rename it.")


def _doubled(folder: str, num_shards: int, tensors: list[IndexEntry]) -> Iterator[Finding]:
    """Yields a finding if tensors with equal content are stored several times."""
    same = collections.defaultdict(list)
    for tensor in tensors:
        same[tensor.dtype, tensor.shape, tensor.size, tensor.checksum].append(tensor)
    groups = [
        group
        for group in same.values()
        # New biases are all 0 and new scales all 1. Only tensors with varying values cannot be equal by chance.
        if len({(tensor.shard, tensor.offset) for tensor in group}) > 1 and _varies(folder, num_shards, group[0])
    ]
    if groups:
        wasted = sum(tensor.size for group in groups for tensor in group[1:])
        total = sum(tensor.size for tensor in tensors)
        first = min(groups, key=lambda group: group[0].name)
        yield warning(
            "doubled-variables",
            f"{INDEX_FILE}, {first[0].name} and {first[1].name}",
            f"{len(groups)} variables are stored several times with the same values: {wasted:,} of {total:,} bytes "
            "are copies. Servers hold them in memory too. Keras' model.export does this (keras#23553).",
            "save a tf.Module that has each variable once, as export_for_serving does.",
        )


def _varies(folder: str, num_shards: int, tensor: IndexEntry) -> bool:
    elements = 1
    for length in tensor.shape:
        elements *= length
    if elements < 2:
        return False
    with open(os.path.join(folder, _data_file(tensor.shard, num_shards)), "rb") as file:
        file.seek(tensor.offset)
        data = file.read(min(tensor.size, _COMPARED_BYTES))
    width = max(1, tensor.size // elements)
    data = data[: len(data) // width * width]
    return data != data[:width] * (len(data) // width)


def _data_file(shard: int, num_shards: int) -> str:
    return os.path.join("variables", f"variables.data-{shard:05d}-of-{num_shards:05d}")


def _constants(model: SavedModelFiles) -> Iterator[Finding]:
    large = []
    for function, node in model.all_nodes():
        if node.op == "Const":
            tensor = node.attr["value"].tensor
            size = tensor.ByteSize()
            if size > LARGE_CONSTANT_BYTES and type_name(tensor) in _WEIGHT_TYPES:
                large.append((size, f"{function}/{node.name}" if function else node.name))
    if large:
        large.sort(reverse=True)
        yield warning(
            "weights-in-graph",
            f"saved_model.pb, {large[0][1]}",
            f"{len(large)} numeric constants have {sum(size for size, _ in large):,} bytes. A graph over 2 GB cannot "
            "be read, large graphs load slowly, and every copy of a constant takes memory.",
            "store weights in tf.Variables of the saved object.",
        )
    graph_bytes = model.meta_graph.ByteSize()
    if graph_bytes > 1 << 30:
        happens = f"The graph has {graph_bytes:,} bytes; protobuf reads at most 2 GB."
        yield note("large-graph", "saved_model.pb", happens, "store weights in variables.")
