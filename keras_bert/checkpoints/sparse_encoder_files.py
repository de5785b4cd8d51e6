"""What folders of sentence-transformers say about a `SparseEncoder`: its pooling, and the weights of static queries.

Without static queries, the modules are a Transformer and a SpladePooling. With these, they are in a Router, whose
queries have a SparseStaticEmbedding.

Reference: sentence-transformers 6.2, `SparseEncoder`, `SpladePooling`, `SparseStaticEmbedding` and `Router`.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints.checkpoint import QUERY_WEIGHTS, BertCheckpoint, StoredTensor
from keras_bert.checkpoints.hugging_face_tokenizer import TOKENIZER_CONFIG_FILE, read_tokenizer, write_tokenizer
from keras_bert.checkpoints.router_files import DOCUMENT, QUERY, ROUTER, read_router, write_router
from keras_bert.checkpoints.safetensors_file import write_safetensors
from keras_bert.checkpoints.sentence_settings import (
    LENGTH_FILE,
    LENGTH_KEYS,
    PROMPTS_FILE,
    SETTINGS_KEYS,
    longest_text,
    model_settings,
    prompts_of,
)
from keras_bert.checkpoints.sentence_transformers import (
    MLM_TRANSFORMER,
    SPARSE_ENCODER,
    TRANSFORMER,
    modules_of,
    read_module_weights,
    write_modules,
)
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.columns import is_float32
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object, write_json
from keras_bert.tokenization.tokenizer import TokenTable

_SPLADE_POOLING, _STATIC = "SpladePooling", "SparseStaticEmbedding"
_TYPES = {
    TRANSFORMER: "sentence_transformers.base.modules.transformer.Transformer",
    ROUTER: "sentence_transformers.base.modules.router.Router",
    _SPLADE_POOLING: "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
    _STATIC: "sentence_transformers.sparse_encoder.modules.sparse_static_embedding.SparseStaticEmbedding",
}
_CONFIG_FILE, _WEIGHTS_FILE = "config.json", "model.safetensors"
_WEIGHT = f"{QUERY_WEIGHTS}/weight"
_TASK = "fill-mask"
_LOGITS = {"text": {"method": "forward", "method_output_name": "logits"}}
_LENGTH_KEYS = dataclasses.replace(
    LENGTH_KEYS, fixed={**LENGTH_KEYS.fixed, "transformer_task": (_TASK,), "modality_config": (_LOGITS,)}
)
_SETTINGS_KEYS = dataclasses.replace(
    SETTINGS_KEYS,
    used=("prompts", "default_prompt_name", "model_type", "max_active_dims"),
    fixed={"similarity_fn_name": ("dot",)},
)
_CHOICES = {"pooling_strategy": ("max", "sum"), "activation_function": ("relu", "log1p_relu")}
_SIZES = ("embedding_dimension", "word_embedding_dimension")
_POOLING_KEYS = KnownKeys(used=(*_CHOICES, *_SIZES), harmless=("chunk_size",))
_STATIC_KEYS = KnownKeys(used=("frozen", "path"))


def read_sparse_encoder(
    path: str, config: BertConfig, vocabulary: TokenTable | None, trust_pickle: bool = False
) -> tuple[dict[str, Any] | None, dict[str, StoredTensor]]:
    """Returns the arguments of `SparseEncoder` for a folder, None without a SpladePooling, and the weights of queries.

    Args:
        path: the folder.
        config: the config of its Transformer.
        vocabulary: the tokens of its Transformer.
        trust_pickle: whether a `pytorch_model.bin` may run code.

    Raises:
        InputError: a module or a setting is unknown, or a file is missing or damaged.
    """
    modules, static, default_route = modules_of(path), None, DOCUMENT
    if modules and modules[0][0] == ROUTER:
        routes, default_route = read_router(modules[0][1])
        if _SPLADE_POOLING not in [kind for kind, _ in routes.get(DOCUMENT, [])]:
            return None, {}
        queries = [kind for kind, _ in routes.get(QUERY, [])]
        if queries != [_STATIC] or len(routes) != 2 or len(modules) != 1:
            raise InputError(
                f"{path}: only a {ROUTER} with one {_STATIC} for queries, other modules for documents and no module "
                f"after it is supported. Received: {', '.join(queries)[:100]} for queries, routes "
                f"{', '.join(routes)[:100]}"
            )
        static, modules = routes[QUERY][0][1], routes[DOCUMENT]
    kinds = [kind for kind, _ in modules]
    if _SPLADE_POOLING not in kinds:
        return None, {}
    if len(kinds) != 2 or kinds[0] not in (TRANSFORMER, MLM_TRANSFORMER):
        raise InputError(
            f"{path}: only a {SPARSE_ENCODER} of a {TRANSFORMER} and a {_SPLADE_POOLING} is supported. Received: "
            f"{', '.join(kinds)[:200]}"
        )
    file, settings = os.path.join(path, PROMPTS_FILE), model_settings(path)
    _SETTINGS_KEYS.check(settings, file)
    prompts, default_prompt = prompts_of(settings, file)
    arguments = {
        **_read_pooling(modules[1][1], config),
        "prompts": {QUERY: "", DOCUMENT: "", **prompts},  # every model has these there
        "default_prompt": default_prompt,
        "max_active_dims": member(settings, "max_active_dims", int, file),
        "max_seq_length": longest_text(modules[0][1], config, _LENGTH_KEYS),
    }
    _check_task(*modules[0])
    if static is None:
        return arguments, {}
    of_queries, weights = _read_static(path, static, config, vocabulary, trust_pickle)
    return {**arguments, **of_queries, "default_route": default_route}, {_WEIGHT: weights}


def _check_task(kind: str, folder: str) -> None:
    """Raises `InputError` for a Transformer that returns hidden vectors instead of logits."""
    file = os.path.join(folder, LENGTH_FILE)
    task = member(read_json_object(file), "transformer_task", str, file) if os.path.isfile(file) else None
    if kind == TRANSFORMER and task is None:
        raise InputError(f"{file}: a {SPARSE_ENCODER} needs the transformer_task {_TASK!r}. Received: none")


def _read_pooling(folder: str, config: BertConfig) -> dict[str, str]:
    file = os.path.join(folder, _CONFIG_FILE)
    values = read_json_object(file) if os.path.isfile(file) else {}
    _POOLING_KEYS.check(values, file)
    for name in _SIZES:
        if member(values, name, int, file, config.vocab_size) != config.vocab_size:
            raise InputError(f"{file}: {name} is {values[name]}, but the vocabulary has {config.vocab_size} tokens.")
    chosen = {name: member(values, name, str, file, known[0]) for name, known in _CHOICES.items()}
    for name, value in chosen.items():
        if value not in _CHOICES[name]:
            raise InputError(f"{file}: {name} must be {' or '.join(_CHOICES[name])}. Received: {value!r:.100}")
    return chosen


def _read_static(
    path: str, folder: str, config: BertConfig, vocabulary: TokenTable | None, trust_pickle: bool
) -> tuple[dict[str, Any], StoredTensor]:
    """Returns the arguments and the weights of a SparseStaticEmbedding."""
    file = os.path.join(folder, _CONFIG_FILE)
    values = read_json_object(file) if os.path.isfile(file) else {}
    _STATIC_KEYS.check(values, file)
    own, casing, _ = read_tokenizer(folder, config.vocab_size)
    if vocabulary is None or own is None:
        raise InputError(f"{path}: there is no tokenizer for {'documents' if vocabulary is None else 'queries'}.")
    if own.tokens != vocabulary.tokens or casing.get("do_lower_case", config.do_lower_case) != config.do_lower_case:
        raise InputError(f"{folder}: the tokenizer of queries must be that of documents. Received: another one")
    arguments = {
        "static_queries": True,
        "frozen": member(values, "frozen", bool, file, False),
        "max_query_length": longest_text(folder, config, None),
    }
    table = member(values, "path", str, file)
    if table is not None:
        return arguments, _weights_by_token(path, folder, os.path.basename(table), vocabulary)
    weights, stored = read_module_weights(folder, trust_pickle)
    if list(stored) != ["weight"]:
        raise InputError(f"{weights} must have one tensor, weight. Received: {', '.join(stored)[:200]}")
    return arguments, stored["weight"]


def _weights_by_token(path: str, folder: str, name: str, vocabulary: TokenTable) -> StoredTensor:
    """Returns the weights of a file such as idf.json, token -> weight; tokens that are not there weigh 0."""
    files = [os.path.join(place, name) for place in (folder, path)]
    file = next((file for file in files if os.path.isfile(file)), files[0])
    weights = np.zeros(len(vocabulary), np.float32)
    for token, weight in read_json_object(file).items():
        if not is_float32(weight):
            raise InputError(f"{file}: the weight of {token!r:.100} must be a number. Received: {weight!r:.100}")
        # As there, all unknown tokens count as the one for these.
        weights[vocabulary.ids.get(token, vocabulary.unk_id)] = weight
    return StoredTensor.of(weights)


def transformer_place(checkpoint: BertCheckpoint, folder: str) -> str:
    """Returns the folder for the files of transformers; with static queries, it makes a new one inside `folder`."""
    if not (checkpoint.sparse or {}).get("static_queries"):
        return folder
    place = os.path.join(folder, f"{DOCUMENT}_0_{TRANSFORMER}")
    os.mkdir(place)
    return place


def write_sparse_encoder(checkpoint: BertCheckpoint, folder: str) -> None:
    """Writes the files of sentence-transformers for a `SparseEncoder` into an existing folder."""
    arguments, config = checkpoint.sparse or {}, checkpoint.config
    is_static = arguments["static_queries"]
    pooling = f"{DOCUMENT}_1_{_SPLADE_POOLING}" if is_static else f"1_{_SPLADE_POOLING}"
    if is_static:
        write_modules(folder, {"": _TYPES[ROUTER]})
        os.mkdir(os.path.join(folder, pooling))
    else:
        write_modules(folder, {"": _TYPES[TRANSFORMER], pooling: _TYPES[_SPLADE_POOLING]})
    values = {name: arguments[name] for name in _CHOICES} | {"embedding_dimension": config.vocab_size}
    write_json(os.path.join(folder, pooling, _CONFIG_FILE), values)
    settings = {"model_type": SPARSE_ENCODER, "prompts": _prompts_of_roles(arguments), "similarity_fn_name": "dot"}
    settings |= {"default_prompt_name": arguments["default_prompt"]}
    if arguments["max_active_dims"]:
        settings["max_active_dims"] = arguments["max_active_dims"]
    write_json(os.path.join(folder, PROMPTS_FILE), settings)
    length = arguments["max_seq_length"] or config.max_sequence_length
    transformer = f"{DOCUMENT}_0_{TRANSFORMER}" if is_static else ""
    write_json(os.path.join(folder, transformer, LENGTH_FILE), {"transformer_task": _TASK, "max_seq_length": length})
    if is_static:
        static = f"{QUERY}_0_{_STATIC}"
        types = {static: _TYPES[_STATIC], transformer: _TYPES[TRANSFORMER], pooling: _TYPES[_SPLADE_POOLING]}
        routes = {QUERY: [static], DOCUMENT: [transformer, pooling]}
        write_router(folder, types, routes, arguments["default_route"])
        _write_static(checkpoint, arguments, os.path.join(folder, static), length)


def _prompts_of_roles(arguments: Mapping) -> dict[str, str]:
    """Returns the prompts, with those of queries and documents by these names: there, other names do not count."""
    prompts, default = arguments["prompts"], arguments["default_prompt"]
    names = {QUERY: (QUERY, default), DOCUMENT: (DOCUMENT, "passage", "corpus", default)}
    of_roles = {role: next((prompts[name] for name in known if name in prompts), "") for role, known in names.items()}
    return {**prompts, **of_roles}


def _write_static(checkpoint: BertCheckpoint, arguments: Mapping, folder: str, length: int) -> None:
    os.mkdir(folder)
    write_json(os.path.join(folder, _CONFIG_FILE), {"frozen": arguments["frozen"]})
    weights = checkpoint.tensors.get(_WEIGHT)
    if weights is None:  # not trained, so still the initial values
        weights = StoredTensor.of(np.ones(checkpoint.config.vocab_size, np.float32))
    with atomic_file(os.path.join(folder, _WEIGHTS_FILE)) as file:
        write_safetensors(file, {"weight": weights}, {"format": "pt"})
    if checkpoint.vocabulary is None:
        return
    write_tokenizer(folder, checkpoint.vocabulary, checkpoint.config)
    file = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    if os.path.isfile(file):
        with open(file, encoding="utf-8") as opened:
            values = json.load(opened)
        write_json(file, {**values, "model_max_length": arguments["max_query_length"] or length})
