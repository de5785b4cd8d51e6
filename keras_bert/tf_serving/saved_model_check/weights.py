"""Checks the variables of a SavedModel: files that are missing, damaged or cut off."""

import collections
import os
from collections.abc import Iterator

from keras_bert.program.errors import InputError
from keras_bert.program.variables_index import IndexEntry, read_index
from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error

INDEX_FILE = os.path.join("variables", "variables.index")


def check_weights(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about the files of the variables."""
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
    yield from _data_files(model.folder, num_shards, tensors)


def _data_files(folder: str, num_shards: int, tensors: list[IndexEntry]) -> Iterator[Finding]:
    needed_of = collections.defaultdict(int)
    for tensor in tensors:
        needed_of[tensor.shard] = max(needed_of[tensor.shard], tensor.offset + tensor.size)
    for shard in range(num_shards):
        name = os.path.join("variables", f"variables.data-{shard:05d}-of-{num_shards:05d}")
        needed = needed_of[shard]
        path = os.path.join(folder, name)
        found = os.path.getsize(path) if os.path.isfile(path) else None
        if found is None or found < needed:
            state = "It is missing" if found is None else f"It has {found:,} bytes of {needed:,}"
            happens = f"{state}: the model does not load. A copy may have been interrupted or may still be running."
            yield error("missing-variables", name, happens, "copy the whole folder again, then rename it.")
