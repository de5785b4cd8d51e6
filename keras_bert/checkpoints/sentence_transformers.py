"""The files of sentence-transformers beside those of transformers: pooling, dense layers, prompts, maximum length.

`modules.json` lists the modules that turn a text into a vector, one after the other. Read and written are folders with
a Transformer and a Pooling, or with a StaticEmbedding; then any number of Dense layers and at most one Normalize. Other
folders can be read for other tasks.

Reference: sentence-transformers 6.2, "Creating Custom Models".
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints.checkpoint import SENTENCE_HEAD, BertCheckpoint, StoredTensor, check_stored_file
from keras_bert.checkpoints.router_files import DOCUMENT, ROUTER, check_number_of_modules, kind_of, read_router
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.sentence_settings import (
    LENGTH_FILE,
    PROMPTS_FILE,
    SETTINGS_KEYS,
    longest_text,
    model_settings,
    named_activation,
    prompts_of,
)
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.config import POOLINGS, BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links, inside
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, read_json, read_json_object, write_json

MODULES_FILE = "modules.json"
STATIC_EMBEDDING, CROSS_ENCODER, SPARSE_ENCODER = "StaticEmbedding", "CrossEncoder", "SparseEncoder"
TRANSFORMER, MLM_TRANSFORMER = "Transformer", "MLMTransformer"  # the second one is that of versions before 5.4
_CONFIG_FILE = "config.json"
_MODULE = "sentence_transformers.models."  # old and new versions read these names
_WEIGHTS_FILE, _TORCH_FILE = "model.safetensors", "pytorch_model.bin"
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
_SENTENCE_ENCODER = "SentenceTransformer"  # the model type of their files, and of those that name none
_OF_TEXTS = "sentence_embedding"  # their name of the vectors of texts
_MODULE_KEYS = KnownKeys(used=("path", "type"), harmless=("idx", "name"), fixed={"kwargs": ([],)})
_POOLING_CONFIG_KEYS = KnownKeys(
    used=("pooling_mode", *_POOLING_KEYS.values(), "include_prompt", "word_embedding_dimension", "embedding_dimension")
)
_DENSE_KEYS = ("in_features", "out_features", "bias", "activation_function", "use_residual")


@dataclasses.dataclass(frozen=True)
class SentenceModules:
    """How a folder turns a text into a vector.

    Attributes:
        pooling: the names of the modules: "mean", "cls", "cls + max", "mean, then Dense". Normalize is not named,
            because it changes no cosine.
        arguments: the arguments of `SentenceEncoder`; None if a module is unknown here.
        tensors: the weights of the dense layers by our names.
        notes: what the user should know.
    """

    pooling: str = "mean"
    arguments: Mapping[str, Any] | None = None
    tensors: Mapping[str, StoredTensor] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


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
    settings = model_settings(path)
    made_as = member(settings, "model_type", str, PROMPTS_FILE, _SENTENCE_ENCODER)
    if not modules or made_as == CROSS_ENCODER:
        return SentenceModules()
    kinds = [kind for kind, _ in modules]
    prompts, default = prompts_of(settings, os.path.join(path, PROMPTS_FILE))
    steps, poolings = [], []
    for kind, folder in modules:
        if kind == "Pooling":
            poolings = _poolings(folder, config, has_prompts=any(prompts.values()))
            steps.append(" + ".join(poolings) or f"a pooling without {os.path.relpath(folder, path)}/{_CONFIG_FILE}")
        elif kind == STATIC_EMBEDDING:
            poolings = ["mean"]
        elif kind not in (TRANSFORMER, MLM_TRANSFORMER, "Normalize", "Dropout"):
            steps.append(kind)
    pooling = ", then ".join(steps) or ("mean" if STATIC_EMBEDDING in kinds else "no pooling")
    is_known = _is_known(kinds) and made_as == _SENTENCE_ENCODER
    if not is_known or not poolings or len(set(poolings)) < len(poolings) or set(poolings) - set(POOLINGS):
        return SentenceModules(pooling if made_as == _SENTENCE_ENCODER else f"{pooling} of a {made_as}")
    arguments = {"pooling": poolings, "normalize": "Normalize" in kinds, "prompts": prompts, "default_prompt": default}
    arguments["max_seq_length"] = None if config.is_static else longest_text(modules[0][1], config)
    arguments["dense"], tensors = read_layers(modules, config.hidden_size * len(poolings), trust_pickle)
    SETTINGS_KEYS.check(settings, os.path.join(path, PROMPTS_FILE))
    similarity = member(settings, "similarity_fn_name", str, PROMPTS_FILE, "cosine")
    is_cosine = similarity == "cosine" or (similarity.startswith("dot") and arguments["normalize"])
    notes = [] if is_cosine else [f"its similarity is {similarity[:100]!r}, and searches here compare by cosines"]
    return SentenceModules(pooling, arguments, tensors, tuple(notes))


def read_layers(
    modules: list[tuple[str, str]], width: int, trust_pickle: bool, changed: str = _OF_TEXTS
) -> tuple[list, dict[str, StoredTensor]]:
    """Returns the settings and weights of the dense layers; checks the files of Normalize and Dropout.

    Args:
        modules: what `modules_of` returns.
        width: the length of the vectors that the first dense layer gets.
        trust_pickle: whether a `pytorch_model.bin` may run code.
        changed: their name of the vectors that the layers change.
    """
    names = {"module_input_name": (changed,), "module_output_name": (changed,)}
    others = {"Normalize": KnownKeys(fixed=names), "Dropout": KnownKeys(harmless=("dropout",))}
    dense, tensors = [], {}
    for kind, folder in modules:
        if kind == "Dense":
            settings, of_layer = _read_dense(folder, width, trust_pickle, KnownKeys(_DENSE_KEYS, fixed=names))
            tensors |= {f"{SENTENCE_HEAD}/dense_{len(dense)}/{name}": tensor for name, tensor in of_layer.items()}
            dense.append(settings)
            width = settings["units"]
        elif kind in others:
            others[kind].check(config_of(folder), os.path.join(folder, _CONFIG_FILE))
    return dense, tensors


def transformer_folder(path: str) -> str:
    """Returns the folder of the Transformer of `modules.json`, such as `0_Transformer`; without one, `path`.

    Of a `SparseEncoder` with a Router, it is the Transformer of documents.
    """
    modules = modules_of(path)
    if modules and modules[0][0] == ROUTER and model_settings(path).get("model_type") == SPARSE_ENCODER:
        modules = read_router(modules[0][1])[0].get(DOCUMENT, [])
    return modules[0][1] if modules and modules[0][0] in (TRANSFORMER, MLM_TRANSFORMER) else path


def modules_of(path: str) -> list[tuple[str, str]]:
    """Returns kind and folder of each module of a folder. A folder without `modules.json` has none.

    Raises:
        InputError: the file is damaged, or a module lies outside the folder.
    """
    file = os.path.join(path, MODULES_FILE)
    if not os.path.isfile(file):
        return []
    modules = checked(read_json(file), list, "the content", file)
    check_number_of_modules(len(modules), file)
    found, names = [], []
    for module in modules:
        checked(module, dict, "each module", file)
        name = checked(module.get("type"), str, "type", file)
        kind = kind_of(name)
        if kind != name:  # else it is of another package, or code of the folder
            _MODULE_KEYS.check(module, f"{file}: {kind}")
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
    write_modules(folder, {path: f"{_MODULE}{kind}" for kind, path in zip(modules, paths, strict=True)})
    if not checkpoint.config.is_static:
        values = {"word_embedding_dimension": width, **_pooling_values(poolings), "include_prompt": True}
        write_json(os.path.join(folder, paths[1], _CONFIG_FILE), values)
    width *= len(poolings)
    for number, settings in enumerate(arguments["dense"]):
        width = write_dense(checkpoint, os.path.join(folder, paths[len(first) + number]), number, settings, width)
    prompts = {"prompts": arguments["prompts"], "default_prompt_name": arguments["default_prompt"]}
    write_json(os.path.join(folder, PROMPTS_FILE), {**prompts, "similarity_fn_name": "cosine"})
    if not checkpoint.config.is_static:  # whose texts are not cut there
        length = arguments["max_seq_length"] or checkpoint.config.max_sequence_length
        write_json(os.path.join(folder, LENGTH_FILE), {"max_seq_length": length, "do_lower_case": False})


def write_modules(folder: str, modules: Mapping[str, str]) -> None:
    """Writes `modules.json` and makes the folders of the modules: the folder of each, "" for the first -> its class."""
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate(modules.items())
    ]
    for path in filter(None, modules):
        os.mkdir(os.path.join(folder, path))
    write_json(os.path.join(folder, MODULES_FILE), entries)


def _is_known(kinds: list[str]) -> bool:
    """Whether the modules are Transformer and Pooling or StaticEmbedding, then Dense ..., Normalize, in this order.

    Dropout is ignored.
    """
    kinds = [kind for kind in kinds if kind != "Dropout"]
    if kinds and kinds[-1] == "Normalize":
        kinds = kinds[:-1]
    num_first = 2 if kinds[:2] == ["Transformer", "Pooling"] else kinds[:1].count(STATIC_EMBEDDING)
    return num_first > 0 and set(kinds[num_first:]) <= {"Dense"}


def config_of(folder: str) -> dict[str, Any]:
    """Returns the `config.json` of a module, or an empty dictionary."""
    file = os.path.join(folder, _CONFIG_FILE)
    return read_json_object(file) if os.path.isfile(file) else {}


def _poolings(folder: str, config: BertConfig, has_prompts: bool) -> list[str]:
    """Returns the names of the poolings in the order in which they are joined; an empty list without a config."""
    file, values = os.path.join(folder, _CONFIG_FILE), config_of(folder)
    if not os.path.isfile(file):
        return []
    _POOLING_CONFIG_KEYS.check(values, file)
    for name in ("word_embedding_dimension", "embedding_dimension"):
        if member(values, name, int, file, config.hidden_size) != config.hidden_size:
            raise InputError(f"{file}: {name} is {values[name]}, but the vectors have {config.hidden_size} numbers.")
    named = values.get("pooling_mode")
    if named is None:
        found = [name for name, key in _POOLING_KEYS.items() if member(values, key, bool, file, False)] or ["mean"]
    else:
        found = [named] if isinstance(named, str) else checked(named, list, "pooling_mode", file)
        found = [checked(name, str, "each pooling_mode", file) for name in found]
    if has_prompts and member(values, "include_prompt", bool, file, True) is False:
        found.append("without the prompt")
    return found


def _pooling_values(poolings: tuple[str, ...]) -> dict[str, Any]:
    """Returns the keys that all versions read; only version 6 joins poolings in another order than that of its keys."""
    if list(poolings) != [name for name in _POOLING_KEYS if name in poolings]:
        return {"pooling_mode": list(poolings)}
    return {key: name in poolings for name, key in _POOLING_KEYS.items()}


def _read_dense(folder: str, width: int, trust_pickle: bool, keys: KnownKeys) -> tuple[dict, dict[str, StoredTensor]]:
    """Returns the settings of a Dense module for `SentenceEncoder`, and its kernel and bias in our layout."""
    file = os.path.join(folder, _CONFIG_FILE)
    if not os.path.isfile(file):
        raise InputError(f"There is no file {file}.")
    values = read_json_object(file)
    keys.check(values, file)
    activation = named_activation(values, "activation_function", _ACTIVATIONS, file) or "tanh"
    units, use_bias = member(values, "out_features", int, file, 0), member(values, "bias", bool, file, True)
    weights, stored = read_module_weights(folder, trust_pickle)
    use_residual = member(values, "use_residual", bool, file, False)
    shapes = {"linear.weight": (units, width)} | ({"linear.bias": (units,)} if use_bias else {})
    if use_residual and units != width:
        shapes["residual.weight"] = (units, width)
    for name, shape in shapes.items():
        if name not in stored or stored[name].shape != shape:
            received = list(stored[name].shape) if name in stored else "nothing"
            raise InputError(f"{weights}: {name} must have the shape {list(shape)}. Received: {received}")
    tensors = {"kernel": stored["linear.weight"].changed((width, units), lambda array: array.T)}
    if use_bias:
        tensors["bias"] = stored["linear.bias"]
    if "residual.weight" in shapes:
        tensors["residual"] = stored["residual.weight"].changed((width, units), lambda array: array.T)
    settings = {"units": units, "activation": activation, "use_bias": use_bias}
    return settings | ({"use_residual": True} if use_residual else {}), tensors


def read_module_weights(folder: str, trust_pickle: bool) -> tuple[str, dict[str, StoredTensor]]:
    """Returns the weights file of a module and its tensors. Prefers safetensors to pickles."""
    file = os.path.join(folder, _WEIGHTS_FILE)
    if os.path.isfile(file):
        return file, read_safetensors(file)
    file = os.path.join(folder, _TORCH_FILE)
    check_stored_file(file)
    return file, read_torch_file(file, trust_pickle)


def write_dense(
    checkpoint: BertCheckpoint, folder: str, number: int, settings: Mapping, width: int, **names: str
) -> int:
    """Writes a Dense module and returns its width; `names` are further keys of its config."""
    activations = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    if settings["activation"] not in activations:
        raise InputError(
            f"sentence-transformers has no activation {settings['activation']!r}. It has: {', '.join(activations)}"
        )
    values = {
        "in_features": width,
        "out_features": settings["units"],
        "bias": settings["use_bias"],
        "activation_function": activations[settings["activation"]],
        **({"use_residual": True} if settings.get("use_residual") else {}),
        **names,
    }
    write_json(os.path.join(folder, _CONFIG_FILE), values)
    theirs = {"kernel": "linear.weight", "bias": "linear.bias", "residual": "residual.weight"}
    prefix, shape = f"{SENTENCE_HEAD}/dense_{number}/", (settings["units"], width)
    own = {theirs[name]: checkpoint.tensors[prefix + name] for name in theirs if prefix + name in checkpoint.tensors}
    tensors = {
        name: tensor if name == "linear.bias" else tensor.changed(shape, lambda array: array.T)
        for name, tensor in own.items()
    }
    with atomic_file(os.path.join(folder, _WEIGHTS_FILE)) as file:
        write_safetensors(file, tensors, {"format": "pt"})
    return settings["units"]
