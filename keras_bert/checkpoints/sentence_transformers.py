"""How a folder of sentence-transformers makes the vector of a text: `modules.json` and the configs that it names.

Such a folder is one of transformers, whose encoder can be used for anything. Its sentence vectors are what its modules
make of the encoder's, one after the other. Normalize does not count: it changes no cosine, and callers say themselves
whether vectors have length 1.

Reference: sentence-transformers, `models/Pooling.py` and "Creating Custom Models".
"""

import os

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, member, read_json, read_json_object

MODULES_FILE = "modules.json"
_CONFIG_FILE = "config.json"
_WITHOUT_EFFECT = ("Transformer", "Normalize", "Dropout")
# Key -> the name of the pooling, and whether it is on where the key is missing.
_POOLINGS = {
    "pooling_mode_cls_token": ("cls", False),
    "pooling_mode_max_tokens": ("max", False),
    "pooling_mode_mean_tokens": ("mean", True),
    "pooling_mode_mean_sqrt_len_tokens": ("mean_sqrt_len_tokens", False),
    "pooling_mode_weightedmean_tokens": ("weightedmean", False),
    "pooling_mode_lasttoken": ("lasttoken", False),
}


def read_sentence_pooling(path: str) -> str:
    """Returns the pooling of a folder by the names of its modules: "mean", "cls", "cls + max", "mean, then Dense".

    Without a `modules.json` it is "mean", as sentence-transformers has it.

    Raises:
        InputError: a file is not what it should be, or is named outside the folder.
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
