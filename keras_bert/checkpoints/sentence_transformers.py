"""The files of sentence-transformers beside those of transformers: pooling, dense layers, prompts, maximum length.

`modules.json` lists the modules that turn a text into a vector, one after the other. Read and written are folders with
a Transformer and a Pooling, or with a StaticEmbedding; then any number of Dense layers and at most one Normalize. Other
folders can be read for other tasks.

Reference: sentence-transformers 6.2, "Creating Custom Models".
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints.checkpoint import SENTENCE_HEAD, BertCheckpoint, StoredTensor, check_stored_file
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.config import POOLINGS, BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links, inside
from keras_bert.program.json_files import checked, member, read_json, read_json_object

MODULES_FILE = "modules.json"
STATIC_EMBEDDING = "StaticEmbedding"
_CONFIG_FILE = "config.json"
_PROMPTS_FILE = "config_sentence_transformers.json"
# Old and new versions of sentence-transformers read these module names and this file.
_LENGTH_FILE = "sentence_bert_config.json"
_TOKENIZER_FILE = "tokenizer_config.json"
_MODULE = "sentence_transformers.models."
_WEIGHTS_FILE, _TORCH_FILE = "model.safetensors", "pytorch_model.bin"
_MOST_MODULES = 100
# Key of older versions -> the name of the pooling.
_POOLING_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu_erf",
    "torch.nn.modules.linear.Identity": "linear",
}


@dataclasses.dataclass(frozen=True)
class SentenceModules:
    """How a folder turns a text into a vector.

    Attributes:
        pooling: the names of the modules: "mean", "cls", "cls + max", "mean, then Dense". Normalize is not named,
            because it changes no cosine.
        arguments: the arguments of `SentenceEncoder`; None if a module is unknown here.
        tensors: the weights of the dense layers by our names.
    """

    pooling: str = "mean"
    arguments: Mapping[str, Any] | None = None
    tensors: Mapping[str, StoredTensor] = dataclasses.field(default_factory=dict)


def read_sentence_modules(path: str, config: BertConfig, trust_pickle: bool = False) -> SentenceModules:
    """Reads the files of sentence-transformers in a folder. A folder without `modules.json` has none.

    Args:
        path: the folder.
        config: the config of the encoder.
        trust_pickle: whether a `pytorch_model.bin` may run code.

    Raises:
        InputError: a file is damaged or missing, contradicts another, or lies outside the folder.
    """
    modules = modules_of(path)
    if not modules:
        return SentenceModules()
    kinds = [kind for kind, _ in modules]
    steps, poolings, dense, tensors = [], [], [], {}
    for kind, folder in modules:
        if kind == "Pooling":
            poolings = _poolings(folder)
            steps.append(
                " + ".join(poolings)
                if poolings
                else f"a pooling without {os.path.relpath(folder, path)}/{_CONFIG_FILE}"
            )
        elif kind == STATIC_EMBEDDING:
            poolings = ["mean"]
        elif kind not in ("Transformer", "Normalize", "Dropout"):
            steps.append(kind)
        if kind == "Dense":
            width = dense[-1]["units"] if dense else config.hidden_size * len(poolings)
            settings, of_layer = _read_dense(folder, width, trust_pickle)
            tensors |= {f"{SENTENCE_HEAD}/dense_{len(dense)}/{name}": tensor for name, tensor in of_layer.items()}
            dense.append(settings)
    pooling = ", then ".join(steps) or ("mean" if STATIC_EMBEDDING in kinds else "no pooling")
    if not _is_known(kinds) or not poolings or set(poolings) - set(POOLINGS):
        return SentenceModules(pooling)
    arguments = {"pooling": poolings, "dense": dense, "normalize": "Normalize" in kinds, **_settings(path, config)}
    return SentenceModules(pooling, arguments, tensors)


def modules_of(path: str) -> list[tuple[str, str]]:
    """Returns kind and folder of each module of a folder. A folder without `modules.json` has none.

    Raises:
        InputError: the file is damaged, or a module lies outside the folder.
    """
    file = os.path.join(path, MODULES_FILE)
    if not os.path.isfile(file):
        return []
    modules = checked(read_json(file), list, "the content", file)
    if len(modules) > _MOST_MODULES:
        raise InputError(f"{file}: at most {_MOST_MODULES} modules are expected. Received: {len(modules)}")
    found, names = [], []
    for module in modules:
        checked(module, dict, "each module", file)
        kind = checked(module.get("type"), str, "type", file).rpartition(".")[2]
        names.append(member(module, "path", str, file, ""))
        found.append((kind, inside(path, names[-1], file)))
    check_links(path, *names)
    return found


def write_sentence_modules(checkpoint: BertCheckpoint, folder: str) -> None:
    """Writes the files of sentence-transformers for a `SentenceEncoder` into an existing folder."""
    arguments = checkpoint.sentence
    poolings, width = tuple(arguments["pooling"]), checkpoint.config.hidden_size
    first = [STATIC_EMBEDDING] if checkpoint.config.is_static else ["Transformer", "Pooling"]
    modules = [*first, *["Dense"] * len(arguments["dense"]), *["Normalize"] * arguments["normalize"]]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(modules[1:], start=1))]
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_MODULE}{kind}"}
        for number, (kind, path) in enumerate(zip(modules, paths, strict=True))
    ]
    for path in paths[1:]:
        os.mkdir(os.path.join(folder, path))
    _write_json(os.path.join(folder, MODULES_FILE), entries)
    if not checkpoint.config.is_static:
        flags = {key: name in poolings for name, key in _POOLING_KEYS.items()}
        values = {"word_embedding_dimension": width, **flags, "include_prompt": True}
        _write_json(os.path.join(folder, paths[1], _CONFIG_FILE), values)
    width *= len(poolings)
    for number, settings in enumerate(arguments["dense"]):
        width = _write_dense(checkpoint, os.path.join(folder, paths[len(first) + number]), number, settings, width)
    prompts = {"prompts": arguments["prompts"], "default_prompt_name": arguments["default_prompt"]}
    _write_json(os.path.join(folder, _PROMPTS_FILE), {**prompts, "similarity_fn_name": "cosine"})
    if not checkpoint.config.is_static:  # whose texts are not cut there
        length = arguments["max_seq_length"] or checkpoint.config.max_sequence_length
        _write_json(os.path.join(folder, _LENGTH_FILE), {"max_seq_length": length, "do_lower_case": False})


def _is_known(kinds: list[str]) -> bool:
    """Whether the modules are Transformer and Pooling or StaticEmbedding, then Dense ..., Normalize, in this order.

    Dropout is ignored.
    """
    kinds = [kind for kind in kinds if kind != "Dropout"]
    if kinds and kinds[-1] == "Normalize":
        kinds = kinds[:-1]
    num_first = 2 if kinds[:2] == ["Transformer", "Pooling"] else kinds[:1].count(STATIC_EMBEDDING)
    return num_first > 0 and set(kinds[num_first:]) <= {"Dense"}


def _poolings(folder: str) -> list[str]:
    """Returns the names of the poolings; an empty list without a config."""
    file = os.path.join(folder, _CONFIG_FILE)
    if not os.path.isfile(file):
        return []
    values = read_json_object(file)
    named = values.get("pooling_mode")
    if named is None:
        # Versions before 2.0 wrote no key for the mean.
        found = [name for name, key in _POOLING_KEYS.items() if member(values, key, bool, file, name == "mean")]
    else:
        found = [named] if isinstance(named, str) else checked(named, list, "pooling_mode", file)
        found = [checked(name, str, "each pooling_mode", file) for name in found]
    if member(values, "include_prompt", bool, file, True) is False:
        found.append("without the prompt")
    return found


def _read_dense(folder: str, width: int, trust_pickle: bool) -> tuple[dict, dict[str, StoredTensor]]:
    """Returns the settings of a Dense module for `SentenceEncoder`, and its kernel and bias in our layout."""
    file = os.path.join(folder, _CONFIG_FILE)
    if not os.path.isfile(file):
        raise InputError(f"There is no file {file}.")
    values = read_json_object(file)
    activation = member(values, "activation_function", str, file, "torch.nn.modules.activation.Tanh")
    if activation not in _ACTIVATIONS:
        raise InputError(
            f"{file}: the activation {activation[:100]!r} is unknown. Known are: {', '.join(_ACTIVATIONS)}"
        )
    units, use_bias = member(values, "out_features", int, file, 0), member(values, "bias", bool, file, True)
    weights = os.path.join(folder, _WEIGHTS_FILE)
    if os.path.isfile(weights):
        stored = read_safetensors(weights)
    else:
        weights = os.path.join(folder, _TORCH_FILE)
        check_stored_file(weights)
        stored = read_torch_file(weights, trust_pickle)
    shapes = {"linear.weight": (units, width)} | ({"linear.bias": (units,)} if use_bias else {})
    for name, shape in shapes.items():
        if name not in stored or stored[name].shape != shape:
            received = list(stored[name].shape) if name in stored else "nothing"
            raise InputError(f"{weights}: {name} must have the shape {list(shape)}. Received: {received}")
    tensors = {"kernel": stored["linear.weight"].changed((width, units), lambda array: array.T)}
    if use_bias:
        tensors["bias"] = stored["linear.bias"]
    return {"units": units, "activation": _ACTIVATIONS[activation], "use_bias": use_bias}, tensors


def _write_dense(checkpoint: BertCheckpoint, folder: str, number: int, settings: Mapping, width: int) -> int:
    """Writes a Dense module and returns its width."""
    names = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    if settings["activation"] not in names:
        raise InputError(
            f"sentence-transformers has no activation {settings['activation']!r}. It has: {', '.join(names)}"
        )
    values = {
        "in_features": width,
        "out_features": settings["units"],
        "bias": settings["use_bias"],
        "activation_function": names[settings["activation"]],
    }
    _write_json(os.path.join(folder, _CONFIG_FILE), values)
    kernel = checkpoint.tensors[f"{SENTENCE_HEAD}/dense_{number}/kernel"]
    tensors = {"linear.weight": kernel.changed((settings["units"], width), lambda array: array.T)}
    if settings["use_bias"]:
        tensors["linear.bias"] = checkpoint.tensors[f"{SENTENCE_HEAD}/dense_{number}/bias"]
    with atomic_file(os.path.join(folder, _WEIGHTS_FILE)) as file:
        write_safetensors(file, tensors, {"format": "pt"})
    return settings["units"]


def _settings(path: str, config: BertConfig) -> dict[str, Any]:
    """Returns the prompts and the maximum length."""
    file = os.path.join(path, _PROMPTS_FILE)
    values = read_json_object(file) if os.path.isfile(file) else {}
    prompts = member(values, "prompts", dict, file, {})
    for name, text in prompts.items():
        checked(text, str, f"the prompt {name!r:.100}", file)
    # Newer versions write empty prompts for "query" and "document".
    prompts = {name: text for name, text in prompts.items() if text}
    default = member(values, "default_prompt_name", str, file)
    file = os.path.join(path, _LENGTH_FILE)
    values = read_json_object(file) if os.path.isfile(file) else {}
    if member(values, "do_lower_case", bool, file, False):
        raise InputError(
            f"{file}: do_lower_case is not supported, because it lower-cases texts before the tokenizer. Set it to "
            "false if the tokenizer lower-cases texts itself."
        )
    longest = member(values, "max_seq_length", int, file) or _tokenizer_length(path)
    return {
        "prompts": prompts,
        "default_prompt": default if default in prompts else None,
        # Some files name more tokens than the model has positions.
        "max_seq_length": longest and min(longest, config.max_sequence_length),
    }


def _tokenizer_length(path: str) -> int | None:
    """Returns the maximum length that newer versions write into the tokenizer's file instead of their own."""
    file = os.path.join(path, _TOKENIZER_FILE)
    return member(read_json_object(file), "model_max_length", int, file) if os.path.isfile(file) else None


def _write_json(path: str, values) -> None:
    with atomic_file(path) as file:
        file.write((json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))
