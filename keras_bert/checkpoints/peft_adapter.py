"""Folders with an adapter of PEFT, `adapter_config.json` and `adapter_model.safetensors`: merged into its base model.

A linear layer W becomes W + scale * B A, with the matrices A `[r, inputs]` and B `[outputs, r]` of the adapter and the
scale alpha / r, or alpha / sqrt(r) with `use_rslora`. Tensors without such a pair replace those of the base model:
heads (`modules_to_save`) and biases.

Reference: PEFT 0.21, `LoraConfig` and `LoraLayer`; Hu et al., 2021, arXiv 2106.09685; Kalajdzievski, 2023, arXiv
2312.03732 (rslora).
"""

import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.hub import HUB_PREFIX
from keras_bert.checkpoints.hugging_face import has_weights, named_as_ours
from keras_bert.checkpoints.hugging_face_config import CONFIG_FILE, labels_of, problem_type_of
from keras_bert.checkpoints.hugging_face_tokenizer import read_tokenizer
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.checkpoints.sentence_transformers import ModelFolder, modules_of, read_tasks, transformer_folder
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.config import SENTENCE_POOLING
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, read_json_object
from keras_bert.program.user_inputs import is_float32
from keras_bert.registry import heads

ADAPTER_FILE = "adapter_config.json"
ADAPTER_WEIGHTS, _PICKLE = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."  # of the names of its tensors
# `task_type` -> the end of the class of the adapted model. Encoders and models that PEFT has no name for have others.
TASK_TYPES = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
    "FEATURE_EXTRACTION": "Model",
}
_MERGE = "Merge it into its base model with PEFT's merge_and_unload(), and save that with save_pretrained."
_KEYS = KnownKeys(
    used=("base_model_name_or_path", "revision", "auto_mapping")
    + ("r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora"),
    # The tensors say which layers are adapted. PEFT ignores fan_in_fan_out for linear layers.
    harmless=("inference_mode", "lora_dropout", "peft_version", "fan_in_fan_out", "target_modules", "exclude_modules")
    + ("modules_to_save", "layers_to_transform", "layers_pattern", "megatron_core", "loftq_config", "eva_config")
    + ("corda_config", "lora_ga_config", "qalora_group_size"),
    fixed={
        "peft_type": ("LORA",),
        "task_type": tuple(TASK_TYPES),
        "bias": ("none", "all", "lora_only"),
        # The other ways change the base model.
        "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal"),
    },
    refused={
        "use_dora": f"keras_bert does not merge DoRA. {_MERGE}",
        "lora_bias": f"keras_bert does not merge biases of LoRA. {_MERGE}",
        "layer_replication": f"the adapted model has other layers than its base model. {_MERGE}",
    }
    | dict.fromkeys(
        ("trainable_token_indices", "target_parameters", "alora_invocation_tokens", "use_qalora", "use_bdlora")
        + ("arrow_config", "kasa_config", "velora_config", "monteclora_config", "megatron_config")
        + ("ensure_weight_tying",),
        f"keras_bert does not know this kind of LoRA. {_MERGE}",
    ),
)
_MATRIX = re.compile(r"(.+)\.(lora_(?:embedding_)?)([AB])(?:\.weight)?")
# Repeated groups, or many repetitions, in a pattern of a stranger could take years to match.
_SLOW_PATTERN = re.compile(r".{201}|.*\)[*+?{]|(.*[*+{]){4}", re.DOTALL)
_MOST_PATTERNS = 1000


def is_adapter(path: str) -> bool:
    """Returns whether a folder has an adapter of PEFT, and no model of its own."""
    folder = transformer_folder(path)
    return os.path.isfile(os.path.join(folder, ADAPTER_FILE)) and not has_weights(folder)


def base_of(path: str, folder: str, base: str | os.PathLike | None) -> str:
    """Returns the path of the base model of an adapter: `base` if it is given, else the one that the adapter names.

    An adapter of the hub has its base model there. A folder may name another folder only: reading files from disk does
    not download others unless the user says so.

    Args:
        path: the adapter, as the user gave it.
        folder: its folder.

    Raises:
        InputError: no base model is named, or a folder names one that is not on this machine.
    """
    if base is not None:
        return os.fspath(base)
    file = os.path.join(transformer_folder(folder), ADAPTER_FILE)
    values = read_json_object(file)
    named, revision = (member(values, key, str, file) for key in ("base_model_name_or_path", "revision"))
    if not named:
        raise InputError(f"{file} names no base model (base_model_name_or_path). Give base=, its folder or hf:// name.")
    on_hub = HUB_PREFIX + named + (f"@{revision}" if revision else "")
    if path.startswith(HUB_PREFIX) and not os.path.isabs(named):
        return on_hub
    if path.startswith(HUB_PREFIX) or not os.path.isdir(named):
        raise InputError(
            f"{file}: the base model {named!r:.200} is not a folder on this machine. Give base=, its folder or its "
            f"name on the hub, such as base={on_hub!r:.200}."
        )
    return named


def with_adapter(base: BertCheckpoint, path: str, trust_pickle: bool = False) -> BertCheckpoint:
    """Returns the checkpoint of a base model with the adapter in the folder `path` merged into it.

    Merged tensors are computed in float64 when they are read, and have at least float32. Raises `InputError` if the
    adapter has an unknown setting or another type, is damaged, or belongs to another base model.
    """
    folder = transformer_folder(path)
    file = os.path.join(folder, ADAPTER_FILE)
    values = read_json_object(file)
    _KEYS.check(values, file)
    weights = os.path.join(folder, ADAPTER_WEIGHTS)
    if os.path.isfile(weights):
        stored = read_safetensors(weights)
    else:
        weights = os.path.join(folder, _PICKLE)
        stored = read_torch_file(weights, trust_pickle)
    names = base.config.family.hugging_face
    if names is None:
        raise InputError(f"{path}: the base model is of the family {base.config.model_type}, which PEFT does not have.")
    head, is_told = _head_of(values, base, file)
    if is_told:  # the adapted class has no other head than this one
        kept = (form.ENCODER, form.POOLER, form.SENTENCE_HEAD, head)
        tensors = (base.with_pooler_of_masked_lm() if head else base).tensors
        base = base.replace(tensors={name: tensors[name] for name in tensors if form.part_of(name) in kept})
    products, others = _products_and_others(values, stored, file, weights)
    table = names.names(base.config, head)
    products, unknown = named_as_ours(products, base.config, table)
    others, more_unknown = named_as_ours(others, base.config, table)
    if unused := [*unknown, *more_unknown]:
        raise InputError(
            f"{weights} has tensors for parts that the base model {base.path} ({base.kind}) does not have: "
            f"{', '.join(unused[:3])}. Give the base model that the adapter was trained on."
        )
    tensors = {**base.tensors, **{name: _summed(name, base, product, weights) for name, product in products.items()}}
    if form.TOKEN_EMBEDDINGS in products and form.MASKED_LM in base.heads and base.config.tie_word_embeddings:
        raise InputError(
            f"{weights} adapts the table of tokens, which the masked-LM head shares: PEFT computes this head with the "
            f"table of the base model. {_MERGE}"
        )
    return _as_its_folder_says(base.replace(tensors={**tensors, **others}), head, path, trust_pickle)


def _head_of(values: Mapping[str, Any], base: BertCheckpoint, file: str) -> tuple[str | None, bool]:
    """Returns the head of the adapted model, None for an encoder, and whether it has no other head."""
    mapping = member(values, "auto_mapping", dict, file, {})
    named = TASK_TYPES.get(values.get("task_type")) or member(mapping, "base_model_class", str, file)
    known = {name: head.hugging_face for name, head in heads().items() if head.hugging_face}
    if named is None:
        return next((name for name in base.heads if name in known), None), False
    head = next((name for name, endings in known.items() if named.endswith(endings)), None)
    return head, head is not None or named in TASK_TYPES.values()


def _products_and_others(
    values: Mapping[str, Any], stored: Mapping[str, StoredTensor], file: str, weights: str
) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    """Returns the product scale * B A of each pair, and the other tensors, by their names in the base model."""
    pairs: dict[str, dict[str, StoredTensor]] = {}
    others: dict[str, StoredTensor] = {}
    for key, tensor in stored.items():
        name = key.removeprefix(PREFIX)
        if match := _MATRIX.fullmatch(name):
            pairs.setdefault(match[1], {})[match[2] + match[3]] = tensor
        # With bias="all" there are copies: of a head under both names, and of the base model's own.
        elif ".original_module." not in name and ".modules_to_save." not in name:
            others[name.replace(".base_layer.", ".")] = tensor
    settings = _Scales(values, file)
    return {f"{name}.weight": _product(name, pair, settings, weights) for name, pair in pairs.items()}, others


class _Scales:
    """The rank and the scale of each layer, as `adapter_config.json` says them."""

    def __init__(self, values: Mapping[str, Any], file: str):
        self.rank, self.ranks = member(values, "r", int, file, 8), member(values, "rank_pattern", dict, file, {})
        self.alpha, self.alphas = values.get("lora_alpha", 8), member(values, "alpha_pattern", dict, file, {})
        self.is_root = member(values, "use_rslora", bool, file, False)
        for rank in (self.rank, *self.ranks.values()):
            if checked(rank, int, "each rank", file) < 1:
                raise InputError(f"{file}: each rank must be a whole number from 1. Received: {rank}")
        for alpha in (self.alpha, *self.alphas.values()):
            if not is_float32(alpha):
                raise InputError(f"{file}: each alpha must be a number. Received: {alpha!r:.100}")
        patterns = [*self.ranks, *self.alphas]
        for pattern in patterns:
            try:
                is_wrong = len(patterns) > _MOST_PATTERNS or _SLOW_PATTERN.match(pattern)
                re.compile(f"(.*\\.)?({pattern})$")
            except (re.error, RecursionError, OverflowError):
                is_wrong = True
            if is_wrong:
                raise InputError(
                    f"{file}: the pattern {pattern!r:.100} of rank_pattern or alpha_pattern cannot be used. Expected "
                    f"at most {_MOST_PATTERNS} names of layers, or short regular expressions for them."
                )

    def of(self, layer: str) -> tuple[int, float]:
        """Returns the rank and the scale of a layer. The first pattern that matches the end of its name counts."""
        rank, alpha = _of_layer(self.ranks, layer, self.rank), _of_layer(self.alphas, layer, self.alpha)
        return rank, alpha / (math.sqrt(rank) if self.is_root else rank)


def _of_layer(values: Mapping[str, Any], layer: str, default: Any) -> Any:
    found = (value for pattern, value in values.items() if re.match(rf"(.*\.)?({pattern})$", layer))
    return next(found, default)


def _product(layer: str, pair: Mapping[str, StoredTensor], settings: _Scales, weights: str) -> StoredTensor:
    """Returns scale * B A of a linear layer, `[outputs, inputs]`; of a table, `[rows, columns]`, its transpose."""
    is_table = any("embedding" in name for name in pair)
    names = [f"lora_{'embedding_' * is_table}{letter}" for letter in "AB"]
    if set(pair) != set(names):
        raise InputError(f"{weights}: {layer} needs both {' and '.join(names)}. Received: {', '.join(pair)}")
    (a, b), (rank, scale) = (pair[name] for name in names), settings.of(layer)
    if (len(a.shape), len(b.shape), a.shape[:1], b.shape[1:]) != (2, 2, (rank,), (rank,)):
        raise InputError(
            f"{weights}: the matrices of {layer} must have the shapes [{rank}, inputs] and [outputs, {rank}], since "
            f"{ADAPTER_FILE} says the rank {rank}. Received: {list(a.shape)} and {list(b.shape)}"
        )

    def read() -> np.ndarray:
        product = scale * (b.read().astype(np.float64) @ a.read().astype(np.float64))
        return product.T if is_table else product

    shape = (b.shape[0], a.shape[1])
    return StoredTensor(shape[::-1] if is_table else shape, "float64", read)


def _summed(name: str, base: BertCheckpoint, product: StoredTensor, weights: str) -> StoredTensor:
    """Returns a tensor of the base model plus a product of the same shape."""
    tensor = base.tensors.get(name)
    if tensor is None or tensor.shape != product.shape:
        received = "no such tensor" if tensor is None else list(tensor.shape)
        raise InputError(
            f"{weights} changes {name} of the shape {list(product.shape)}, but the base model {base.path} "
            f"({base.kind}) has {received}. Give the base model that the adapter was trained on."
        )
    dtype = "float64" if tensor.dtype == "float64" else "float32"
    read = lambda: (tensor.read().astype(np.float64) + product.read()).astype(dtype)  # noqa: E731
    return StoredTensor(tensor.shape, dtype, read)


def _as_its_folder_says(checkpoint: BertCheckpoint, head: str | None, path: str, trust_pickle: bool) -> BertCheckpoint:
    """Returns the merged checkpoint with what the other files of the adapter's folder say: labels, modules, tokenizer.

    Files that are missing there are those of the base model.
    """
    place, config = transformer_folder(path), checkpoint.config
    tokenizer = checkpoint.tokenizer or read_tokenizer(place, config.vocab_size)[0]
    file = os.path.join(place, CONFIG_FILE)
    values = read_json_object(file) if os.path.isfile(file) else {}
    labels, problem_type = checkpoint.labels, checkpoint.problem_type
    count = form.num_outputs(path, checkpoint.tensors, head) if head and heads()[head].has_labels else None
    if values or count is None or count != len(labels or ()):
        labels = labels_of(place, values, count)
        problem_type = problem_type_of(values, labels) if head == form.CLASSIFIER else "classification"
    merged = checkpoint.replace(
        kind=f"an adapter of PEFT for {checkpoint.path}, {checkpoint.kind}",
        tokenizer=tokenizer,
        labels=labels,
        problem_type=problem_type,
        model_class=None,
    )
    if modules_of(path):  # which replace those of the base model
        extra = {key: value for key, value in config.extra.items() if key != SENTENCE_POOLING}
        merged = merged.without_parts({form.SENTENCE_HEAD}).replace(arguments={}, config=config.replace(extra=extra))
    elif merged.arguments:
        return merged
    return read_tasks(merged, ModelFolder(path, file, values, trust_pickle=trust_pickle))
