"""Folders of sentence-transformers: their modules, and what the tasks read and write in them.

`modules.json` lists the modules that turn a text into the output, one after the other. A Router has other modules for
queries than for documents. Each task reads its own settings, see `registry.Task`.

Reference: sentence-transformers 6.2, "Creating Custom Models" and `Router`.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert import registry
from keras_bert.checkpoints.checkpoint import SENTENCE_HEAD, BertCheckpoint, StoredTensor
from keras_bert.checkpoints.name_table import TRANSPOSED, to_ours, to_theirs
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links, inside
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, read_json, read_json_object, write_json

MODULES_FILE, MODULE_CONFIG_FILE, MODULE_WEIGHTS_FILE = "modules.json", "config.json", "model.safetensors"
PROMPTS_FILE = "config_sentence_transformers.json"
LENGTH_FILE = "sentence_bert_config.json"  # all versions read it; some have written another one
_ROUTER_FILE = "router_config.json"
STATIC_EMBEDDING = "StaticEmbedding"
CROSS_ENCODER, SPARSE_ENCODER = "CrossEncoder", "SparseEncoder"  # types of models in their files
TRANSFORMER, MLM_TRANSFORMER = "Transformer", "MLMTransformer"  # the second one is that of versions before 5.4
ROUTER, QUERY, DOCUMENT = "Router", "query", "document"
Modules = list[tuple[str, str]]  # kind and folder of each


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """A folder of transformers or sentence-transformers while it is read.

    Attributes:
        config_file: the path of the `config.json` of its Transformer.
        values: the content of this file.
        stored: the tensors of its Transformer, by their names there.
        trust_pickle: whether a `pytorch_model.bin` may run code.
    """

    path: str
    config_file: str = ""
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stored: Mapping[str, StoredTensor] = dataclasses.field(default_factory=dict)
    trust_pickle: bool = False

    @functools.cached_property
    def modules(self) -> Modules:
        """Kind and folder of each module, see `modules_of`."""
        return modules_of(self.path)

    @property
    def settings_file(self) -> str:
        """The path of `config_sentence_transformers.json`."""
        return os.path.join(self.path, PROMPTS_FILE)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The content of this file, or an empty dictionary."""
        return read_json_object(self.settings_file) if os.path.isfile(self.settings_file) else {}

    def prompts(self) -> dict[str, Any]:
        """Returns the arguments `prompts` and `default_prompt` of models. An empty text is a prompt too."""
        file = self.settings_file
        prompts = dict(member(self.settings, "prompts", dict, file, {}))
        for name, text in prompts.items():
            checked(text, str, f"the prompt {name!r:.100}", file)
        default = member(self.settings, "default_prompt_name", str, file)
        if default in (QUERY, DOCUMENT):  # which every model has there
            prompts.setdefault(default, "")
        if default is not None and default not in prompts:
            raise InputError(f"{file}: default_prompt_name is {default[:100]!r}, which is none of its prompts.")
        return {"prompts": prompts, "default_prompt": default}


def read_tasks(checkpoint: BertCheckpoint, folder: ModelFolder) -> BertCheckpoint:
    """Returns the checkpoint of a folder with what its files say of each task: arguments, weights and remarks.

    Raises `InputError` if a file is damaged, missing or out of the folder, or has an unknown setting.
    """
    for task in map(registry.task, registry.TASKS):
        if task.read is not None:
            checkpoint = registry.imported(task.read)(checkpoint, folder)
    return checkpoint


def write_tasks(checkpoint: BertCheckpoint, folder: str) -> set[str]:
    """Writes the files of sentence-transformers into a folder; returns the parts whose weights are in them."""
    parts: set[str] = set()
    for kind in filter(checkpoint.tells, registry.TASKS):
        if (write := registry.task(kind).write) is not None:
            parts.update(registry.imported(write)(checkpoint, folder))
    return parts


def transformer_folder(path: str) -> str:
    """Returns the folder of the Transformer of `modules.json`, or `path`. Of a sparse Router, that of documents."""
    modules = modules_of(path)
    if modules and modules[0][0] == ROUTER and ModelFolder(path).settings.get("model_type") == SPARSE_ENCODER:
        modules = read_router(modules[0][1])[0].get(DOCUMENT, [])
    return modules[0][1] if modules and modules[0][0] in (TRANSFORMER, MLM_TRANSFORMER) else path


def modules_of(path: str) -> Modules:
    """Returns kind and folder of each module of a folder. A folder without `modules.json` has none.

    Raises `InputError` if the file is damaged, or a module lies outside the folder.
    """
    file = os.path.join(path, MODULES_FILE)
    if not os.path.isfile(file):
        return []
    modules = checked(read_json(file), list, "the content", file)
    _check_number_of_modules(len(modules), file)
    found, names = [], []
    for module in modules:
        checked(module, dict, "each module", file)
        name = checked(module.get("type"), str, "type", file)
        kind = _kind_of(name)
        if kind != name:  # else it is of another package, or code of the folder
            known = KnownKeys(used=("path", "type"), harmless=("idx", "name"), fixed={"kwargs": ([],)})
            known.check(module, f"{file}: {kind}")
        names.append(member(module, "path", str, file, ""))
        found.append((kind, inside(path, names[-1], file)))
    check_links(path, *names)
    return found


def read_router(folder: str) -> tuple[dict[str, Modules], str]:
    """Returns route -> kind and folder of each module, and the default route. A folder without its file has no routes.

    Raises `InputError` if the file is damaged, or has unknown settings, too many modules, or one outside the folder.
    """
    file = os.path.join(folder, _ROUTER_FILE)
    if not os.path.isfile(file):
        return {}, DOCUMENT
    values, names = read_json_object(file), ("types", "structure", "parameters")
    KnownKeys(used=names).check(values, file)
    types, structure, parameters = (member(values, name, dict, file, {}) for name in names)
    known = KnownKeys(used=("default_route",), harmless=("allow_empty_key",), fixed={"route_mappings": ({},)})
    known.check(parameters, f"{file}: parameters")
    routes: dict[str, Modules] = {}
    lists = {route: checked(names, list, f"route {route!r:.100}", file) for route, names in structure.items()}
    _check_number_of_modules(sum(max(1, len(names)) for names in lists.values()), file)
    for route, names in lists.items():
        for name in names:
            checked(name, str, "each module", file)
        check_links(folder, *names)
        kinds = [_kind_of(checked(types.get(name), str, f"the type of {name!r:.100}", file)) for name in names]
        routes[route] = [(kind, inside(folder, name, file)) for kind, name in zip(kinds, names, strict=True)]
    default = member(parameters, "default_route", str, file, next(iter(routes), DOCUMENT))
    if routes and default not in routes:
        raise InputError(f"{file}: default_route is {default[:100]!r}, which is none of its routes.")
    return routes, default


def _kind_of(name: str) -> str:
    """Returns the kind of a module from the name of its class; classes of other packages keep the whole name."""
    return name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name


def _check_number_of_modules(number: int, file: str) -> None:
    """Raises `InputError` if a file has too many modules: each is a folder whose files are looked at."""
    if number > 100:
        raise InputError(f"{file}: at most 100 modules are expected. Received: {number:,}")


def write_modules(folder: str, classes: Sequence[str]) -> list[str]:
    """Writes `modules.json` and makes a folder for each module but the first, whose files are in `folder` itself.

    `classes` are the import paths of their classes. Returns the path of the folder of each module.
    """
    names = ["", *(f"{number}_{_kind_of(path)}" for number, path in enumerate(classes[1:], start=1))]
    entries = [
        {"idx": number, "name": str(number), "path": name, "type": path}
        for number, (name, path) in enumerate(zip(names, classes, strict=True))
    ]
    paths = [os.path.join(folder, name) for name in names]
    for path in paths[1:]:
        os.mkdir(path)
    write_json(os.path.join(folder, MODULES_FILE), entries)
    return paths


def write_router(folder: str, routes: Mapping[str, Sequence[str]], default: str) -> dict[str, list[str]]:
    """Writes the file of a Router and makes a folder for each of its modules.

    `routes` has the import paths of the classes of each route. Returns route -> the paths of its folders.
    """
    types, structure = {}, {}
    for route, classes in routes.items():
        structure[route] = [f"{route}_{number}_{_kind_of(path)}" for number, path in enumerate(classes)]
        types |= dict(zip(structure[route], classes, strict=True))
    parameters = {"default_route": default, "allow_empty_key": True, "route_mappings": {}}
    write_json(os.path.join(folder, _ROUTER_FILE), {"types": types, "structure": structure, "parameters": parameters})
    for name in types:
        os.mkdir(os.path.join(folder, name))
    return {route: [os.path.join(folder, name) for name in names] for route, names in structure.items()}


def config_of(folder: str) -> dict[str, Any]:
    """Returns the `config.json` of a module, or an empty dictionary."""
    file = os.path.join(folder, MODULE_CONFIG_FILE)
    return read_json_object(file) if os.path.isfile(file) else {}


_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu_erf",
    "torch.nn.modules.linear.Identity": "linear",
}
_DENSE = {"kernel": "linear.weight", "bias": "linear.bias", "residual": "residual.weight"}  # our names -> theirs


def read_layers(modules: Modules, width: int, trust_pickle: bool, changed: str) -> tuple[list, dict[str, StoredTensor]]:
    """Returns the settings and weights of the dense layers; checks the files of Normalize and Dropout.

    The first layer gets vectors of length `width`; `changed` is their name of the vectors that the layers change.
    """
    names = {"module_input_name": (changed,), "module_output_name": (changed,)}
    of_dense = ("in_features", "out_features", "bias", "activation_function", "use_residual")
    others = {"Normalize": KnownKeys(fixed=names), "Dropout": KnownKeys(harmless=("dropout",))}
    dense, tensors = [], {}
    for kind, folder in modules:
        if kind == "Dense":
            settings, of_layer = _read_dense(folder, width, trust_pickle, KnownKeys(of_dense, fixed=names))
            tensors |= {f"{SENTENCE_HEAD}/dense_{len(dense)}/{name}": tensor for name, tensor in of_layer.items()}
            dense.append(settings)
            width = settings["units"]
        elif kind in others:
            others[kind].check(config_of(folder), os.path.join(folder, MODULE_CONFIG_FILE))
    return dense, tensors


def _read_dense(folder: str, width: int, trust_pickle: bool, keys: KnownKeys) -> tuple[dict, dict[str, StoredTensor]]:
    """Returns the settings of a Dense module for `SentenceEncoder`, and its kernel and bias in our layout."""
    file = os.path.join(folder, MODULE_CONFIG_FILE)
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
    tensors = {ours: to_ours(stored[theirs], TRANSPOSED) for ours, theirs in _DENSE.items() if theirs in shapes}
    settings = {"units": units, "activation": activation, "use_bias": use_bias}
    return settings | ({"use_residual": True} if use_residual else {}), tensors


def read_module_weights(folder: str, trust_pickle: bool) -> tuple[str, dict[str, StoredTensor]]:
    """Returns the weights file of a module and its tensors. Prefers safetensors to pickles."""
    file = os.path.join(folder, MODULE_WEIGHTS_FILE)
    if os.path.isfile(file):
        return file, read_safetensors(file)
    file = os.path.join(folder, "pytorch_model.bin")
    return file, read_torch_file(file, trust_pickle)


def read_token_layer(
    checkpoint: BertCheckpoint, folder: ModelFolder, name: str, part: str, units: int | None = None
) -> BertCheckpoint:
    """Returns the checkpoint with the dense layer of tokens in `<name>.pt` of bge-m3; unchanged without this file.

    `part` is the prefix of our names of the kernel and the bias. The layer has `units` outputs; None for any number.
    """
    file = os.path.join(folder.path, f"{name}.pt")
    if not os.path.isfile(file):
        return checkpoint
    stored, width = read_torch_file(file, folder.trust_pickle), checkpoint.config.hidden_size
    shapes = {key: list(tensor.shape) for key, tensor in stored.items()}
    units = units or next(iter(shapes.get("bias", ())), 0)
    if shapes != {"weight": [units, width], "bias": [units]}:
        raise InputError(f"{file} needs a weight [{units or 'outputs'}, {width}] and its bias. Received: {shapes}")
    layer = {f"{part}/kernel": to_ours(stored["weight"], TRANSPOSED), f"{part}/bias": stored["bias"]}
    return checkpoint.replace(tensors={**checkpoint.tensors, **layer})


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
    write_json(os.path.join(folder, MODULE_CONFIG_FILE), values)
    own = {theirs: checkpoint.tensors.get(f"{SENTENCE_HEAD}/dense_{number}/{ours}") for ours, theirs in _DENSE.items()}
    tensors = {name: to_theirs(tensor, TRANSPOSED) for name, tensor in own.items() if tensor is not None}
    with atomic_file(os.path.join(folder, MODULE_WEIGHTS_FILE)) as file:
        write_safetensors(file, tensors, {"format": "pt"})
    return settings["units"]


# What a Transformer is loaded with there -> the keys that change nothing here.
_LOADING = ("model_args", "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs")
_LOADING_KEYS = ("torch_dtype", "dtype", "attn_implementation", "low_cpu_mem_usage", "add_pooling_layer", "device_map")


def transformer_keys(
    task: str = "feature-extraction",
    output: str = "last_hidden_state",
    output_name: str = "token_embeddings",
    used: tuple[str, ...] = (),
) -> KnownKeys:
    """Returns the keys of the settings of a Transformer, and `used` besides.

    Its `task` has an output of this name in transformers, and `output_name` in sentence-transformers.
    """
    return KnownKeys(
        used=("max_seq_length", "do_lower_case", *_LOADING, *used),
        harmless=("unpad_inputs", "tokenizer_name_or_path"),
        fixed={
            "transformer_task": (task,),
            "modality_config": ({"text": {"method": "forward", "method_output_name": output}},),
            "module_output_name": (output_name,),
            "processing_kwargs": ({},),
        },
    )


SETTINGS_KEYS = KnownKeys(
    used=("prompts", "default_prompt_name", "model_type", "similarity_fn_name", "activation_fn"),
    harmless=("__version__", "requirements", "keep_in_fp32_modules"),
    refused={
        "truncate_dim": "vectors are cut there. Remove it from a copy of the file, and give dimensions=n to encode."
    },
)


def named_activation(values: Mapping, name: str, known: Mapping[str, str], file: str) -> str | None:
    """Returns our name of the activation `values[name]`, by its class of torch in `known`; None if it is missing."""
    activation = member(values, name, str, file)
    if activation is None:
        return None
    of_class = {path.rpartition(".")[2]: ours for path, ours in known.items()}
    package, _, kind = activation.rpartition(".")
    if not package.startswith("torch.nn") or kind not in of_class:
        raise InputError(f"{file}: the activation {activation[:100]!r} is unknown. Known are: {', '.join(known)}")
    return of_class[kind]


def longest_text(folder: str, config: BertConfig, keys: KnownKeys | None) -> int | None:
    """Returns the maximum length of the Transformer in a folder.

    `keys` are those of its settings, which are not read for None. Raises `InputError` if these say that it computes
    something else, or lower-cases texts that the tokenizer does not.
    """
    longest = None if keys is None else _checked_length(folder, config, keys)
    file = os.path.join(folder, "tokenizer_config.json")  # where newer versions write it
    if not longest and os.path.isfile(file):
        longest = member(read_json_object(file), "model_max_length", int, file)
    # Some files name more tokens than the model has positions.
    return longest and min(longest, config.max_sequence_length)


def settings_of_transformer(folder: str) -> tuple[dict[str, Any], str]:
    """Returns the content of the file about the Transformer in a folder, and its path. A missing file is empty."""
    names = (LENGTH_FILE, *(f"sentence_{kind}_config.json" for kind in ("roberta", "distilbert", "albert", "xlnet")))
    files = [os.path.join(folder, name) for name in names]
    file = next((file for file in files if os.path.isfile(file)), files[0])
    return read_json_object(file) if os.path.isfile(file) else {}, file


def _checked_length(folder: str, config: BertConfig, keys: KnownKeys) -> int | None:
    values, file = settings_of_transformer(folder)
    keys.check(values, file)
    for name in _LOADING:
        KnownKeys(harmless=_LOADING_KEYS).check(member(values, name, dict, file, {}), f"{file}: {name}")
    if member(values, "do_lower_case", bool, file, False) and not config.do_lower_case:
        raise InputError(
            f"{file}: do_lower_case is not supported, because it lower-cases texts before the tokenizer. Set it to "
            "false if the tokenizer lower-cases texts itself."
        )
    return member(values, "max_seq_length", int, file)
