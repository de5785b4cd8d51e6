"""Reads the pooling of a sentence-transformers folder: `modules.json` and the configs that it names.

Such a folder is a transformers folder with modules that turn the encoder's outputs into sentence vectors, one after the
other. The module Normalize is ignored: it does not change cosines, and callers choose whether to normalise.

Reference: sentence-transformers, `models/Pooling.py` and "Creating Custom Models".
"""

import os

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, member, read_json, read_json_object

MODULES_FILE = "modules.json"
_CONFIG_FILE = "config.json"
_WITHOUT_EFFECT = ("Transformer", "Normalize", "Dropout")
# Config key -> name of the pooling, and its default.
_POOLINGS = {
    "pooling_mode_cls_token": ("cls", False),
    "pooling_mode_max_tokens": ("max", False),
    "pooling_mode_mean_tokens": ("mean", True),
    "pooling_mode_mean_sqrt_len_tokens": ("mean_sqrt_len_tokens", False),
    "pooling_mode_weightedmean_tokens": ("weightedmean", False),
    "pooling_mode_lasttoken": ("lasttoken", False),
}


def read_sentence_pooling(path: str) -> str:
    """Returns a description of a folder's modules: "mean", "cls", "cls + max", "mean, then Dense".

    Without a `modules.json` it is "mean", the default of sentence-transformers.

    Raises:
        InputError: a file is damaged, or a module is outside the folder.
    """
    file = os.path.join(path, MODULES_FILE)
    if not os.path.isfile(file):
        return "mean"
    steps = []
    for module in checked(read_json(file), list, "the content", file):
        checked(module, dict, "each module", file)
        kind = checked(module.get("type"), str, "type", file).rpartition(".")[2]
        if kind == "Pooling":
            steps.append(_pooling(path, member(module, "path", str, file, "")))
        elif kind not in _WITHOUT_EFFECT:
            steps.append(kind)
    return ", then ".join(steps) or "no pooling"


def _pooling(path: str, folder: str) -> str:
    folder = os.path.normpath(folder)
    if os.path.isabs(folder) or folder.split(os.sep)[0] == os.pardir:
        raise InputError(f"{os.path.join(path, MODULES_FILE)}: {folder!r} is not inside the folder of the model.")
    file = os.path.join(path, folder, _CONFIG_FILE)
    if not os.path.isfile(file):
        return f"a pooling without {os.path.join(folder, _CONFIG_FILE)}"
    values = read_json_object(file)
    named = member(values, "pooling_mode", str, file)
    if named is not None:
        return named
    return " + ".join(name for key, (name, default) in _POOLINGS.items() if member(values, key, bool, file, default))
