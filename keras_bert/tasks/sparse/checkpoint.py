"""What checkpoints say about a `SparseEncoder`, and how one starts from them.

Folders of sentence-transformers have one of two forms. In the second one, each token of a query has a fixed weight
("static queries"):

    Transformer, SpladePooling
    Router: query -> SparseStaticEmbedding; document -> Transformer, SpladePooling

Reference: sentence-transformers 6.2, `SparseEncoder`, `SpladePooling`, `SparseStaticEmbedding` and `Router`.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints import sentence_transformers as files
from keras_bert.checkpoints.checkpoint import MASKED_LM, QUERY_WEIGHTS, TOKEN_SCORES, BertCheckpoint, StoredTensor
from keras_bert.checkpoints.hugging_face_tokenizer import TOKENIZER_CONFIG_FILE, read_tokenizer, write_tokenizer
from keras_bert.checkpoints.safetensors_file import write_safetensors
from keras_bert.checkpoints.sentence_transformers import ModelFolder, Modules
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object, write_json
from keras_bert.program.user_inputs import is_float32
from keras_bert.tokenization.tokenizer import TokenTable

_KIND = "SparseEncoder"
_SPLADE_POOLING, _STATIC_EMBEDDING = "SpladePooling", "SparseStaticEmbedding"
_MASKED_LM_TASK = "fill-mask"  # what the Transformer computes
_QUERY_WEIGHT = f"{QUERY_WEIGHTS}/weight"
# The settings of a SpladePooling -> their values; the first one is the default.
_POOLING_CHOICES = {"pooling_strategy": ("max", "sum"), "activation_function": ("relu", "log1p_relu")}


def read(checkpoint: BertCheckpoint, folder: ModelFolder) -> BertCheckpoint:
    """Returns the checkpoint of a folder with a SpladePooling with the arguments of `SparseEncoder` and their weights.

    Raises `InputError`: a module or a setting is unknown, or a file is missing or damaged.
    """
    checkpoint = files.read_token_layer(checkpoint, folder, "sparse_linear", TOKEN_SCORES, units=1)
    documents, queries, default_route = _documents_and_queries(folder)
    if not _has_pooling(documents):
        return checkpoint
    (transformer_kind, transformer), (_, pooling) = documents
    config, settings, file = checkpoint.config, folder.settings, folder.settings_file
    known_keys = dataclasses.replace(
        files.SETTINGS_KEYS,
        used=("prompts", "default_prompt_name", "model_type", "max_active_dims"),
        fixed={"similarity_fn_name": ("dot",)},
    )
    known_keys.check(settings, file)
    prompts = folder.prompts()
    arguments = {
        **_read_pooling(pooling, config),
        "prompts": {files.QUERY: "", files.DOCUMENT: "", **prompts["prompts"]},  # every model has these there
        "default_prompt": prompts["default_prompt"],
        "max_active_dims": member(settings, "max_active_dims", int, file),
        "max_seq_length": files.longest_text(transformer, config, files.transformer_keys(_MASKED_LM_TASK, "logits")),
    }
    _check_task(transformer_kind, transformer)
    if queries is None:
        return checkpoint.telling(_KIND, arguments)
    of_queries, weights = _read_static_queries(checkpoint, folder, queries)
    arguments |= {**of_queries, "default_route": default_route}
    return checkpoint.telling(_KIND, arguments, {_QUERY_WEIGHT: weights})


def _documents_and_queries(folder: ModelFolder) -> tuple[Modules, str | None, str]:
    """Returns the modules for documents, the folder of static queries or None, and the default route."""
    path, modules = folder.path, folder.modules
    documents, queries, default_route = modules, None, files.DOCUMENT
    if modules and modules[0][0] == files.ROUTER:
        routes, default_route = files.read_router(modules[0][1])
        documents, of_queries = routes.get(files.DOCUMENT, []), routes.get(files.QUERY, [])
        is_supported = [kind for kind, _ in of_queries] == [_STATIC_EMBEDDING] and len(routes) == 2
        if _has_pooling(documents) and not (is_supported and len(modules) == 1):
            raise InputError(
                f"{path}: only a Router with one {_STATIC_EMBEDDING} for queries, other modules for documents and no "
                f"module after it is supported. Received: {', '.join(kind for kind, _ in of_queries)[:100]} for "
                f"queries, routes {', '.join(routes)[:100]}"
            )
        queries = of_queries[0][1] if is_supported else None
    kinds = [kind for kind, _ in documents]
    if _has_pooling(documents) and (len(kinds) != 2 or kinds[0] not in (files.TRANSFORMER, files.MLM_TRANSFORMER)):
        raise InputError(
            f"{path}: only a {_KIND} of a Transformer and a {_SPLADE_POOLING} is supported. Received: "
            f"{', '.join(kinds)[:200]}"
        )
    return documents, queries, default_route


def _has_pooling(modules: Modules) -> bool:
    return _SPLADE_POOLING in [kind for kind, _ in modules]


def _check_task(kind: str, folder: str) -> None:
    """Raises `InputError` for a Transformer that returns hidden vectors instead of logits."""
    file = os.path.join(folder, files.LENGTH_FILE)
    task = member(read_json_object(file), "transformer_task", str, file) if os.path.isfile(file) else None
    if kind == files.TRANSFORMER and task is None:
        raise InputError(f"{file}: a {_KIND} needs the transformer_task {_MASKED_LM_TASK!r}. Received: none")


def _read_pooling(folder: str, config: BertConfig) -> dict[str, str]:
    """Returns the settings of a SpladePooling."""
    file, values = os.path.join(folder, files.MODULE_CONFIG_FILE), files.config_of(folder)
    sizes = ("embedding_dimension", "word_embedding_dimension")
    KnownKeys(used=(*_POOLING_CHOICES, *sizes), harmless=("chunk_size",)).check(values, file)
    for name in sizes:
        if member(values, name, int, file, config.vocab_size) != config.vocab_size:
            raise InputError(f"{file}: {name} is {values[name]}, but the vocabulary has {config.vocab_size} tokens.")
    chosen = {name: member(values, name, str, file, known[0]) for name, known in _POOLING_CHOICES.items()}
    for name, value in chosen.items():
        if value not in _POOLING_CHOICES[name]:
            raise InputError(f"{file}: {name} must be {' or '.join(_POOLING_CHOICES[name])}. Received: {value!r:.100}")
    return chosen


def _read_static_queries(
    checkpoint: BertCheckpoint, folder: ModelFolder, static: str
) -> tuple[dict[str, Any], StoredTensor]:
    """Returns the arguments and the weights of the SparseStaticEmbedding in the folder `static`."""
    path, config, tokenizer = folder.path, checkpoint.config, checkpoint.tokenizer
    file, values = os.path.join(static, files.MODULE_CONFIG_FILE), files.config_of(static)
    KnownKeys(used=("frozen", "path")).check(values, file)
    own, _ = read_tokenizer(static, config.vocab_size)
    if tokenizer is None or own is None:
        raise InputError(f"{path}: there is no tokenizer for {'documents' if tokenizer is None else 'queries'}.")
    if own.tokens != tokenizer.tokens or own.do_lower_case not in (None, config.do_lower_case):
        raise InputError(f"{static}: the tokenizer of queries must be that of documents. Received: another one")
    arguments = {
        "static_queries": True,
        "frozen": member(values, "frozen", bool, file, False),
        "max_query_length": files.longest_text(static, config, None),
    }
    table = member(values, "path", str, file)
    if table is not None:
        return arguments, _weights_by_token((static, path), os.path.basename(table), tokenizer)
    weights, stored = files.read_module_weights(static, folder.trust_pickle)
    if list(stored) != ["weight"]:
        raise InputError(f"{weights} must have one tensor, weight. Received: {', '.join(stored)[:200]}")
    return arguments, stored["weight"]


def _weights_by_token(folders: tuple[str, str], name: str, vocabulary: TokenTable) -> StoredTensor:
    """Returns the weights, token -> weight, of a file in the first folder that has it; 0 for tokens that it lacks."""
    paths = [os.path.join(folder, name) for folder in folders]
    file = next(filter(os.path.isfile, paths), paths[0])
    weights = np.zeros(len(vocabulary), np.float32)
    for token, weight in read_json_object(file).items():
        if not is_float32(weight):
            raise InputError(f"{file}: the weight of {token!r:.100} must be a number. Received: {weight!r:.100}")
        # As there, all unknown tokens count as the one for these.
        weights[vocabulary.ids.get(token, vocabulary.unk_id)] = weight
    return StoredTensor.of(weights)


def write(checkpoint: BertCheckpoint, folder: str) -> tuple[str, ...]:
    """Writes the files of sentence-transformers for a `SparseEncoder`, see `registry.Task`.

    With static queries, the files of transformers are moved into the folder of the module for documents.
    """
    arguments, config = checkpoint.arguments[_KIND], checkpoint.config
    if arguments["unscored_ids"] is not None:
        raise InputError(f"sentence-transformers has no {_KIND} with scores of tokens. Write it as 'keras_bert'.")
    length = arguments["max_seq_length"] or config.max_sequence_length
    of_documents = [
        "sentence_transformers.base.modules.transformer.Transformer",
        "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
    ]
    if arguments["static_queries"]:
        files_of_transformer = os.listdir(folder)
        files.write_modules(folder, ["sentence_transformers.base.modules.router.Router"])
        module = "sentence_transformers.sparse_encoder.modules.sparse_static_embedding.SparseStaticEmbedding"
        routes = {files.QUERY: [module], files.DOCUMENT: of_documents}
        paths = files.write_router(folder, routes, arguments["default_route"])
        transformer, pooling = paths[files.DOCUMENT]
        for name in files_of_transformer:
            os.rename(os.path.join(folder, name), os.path.join(transformer, name))
        _write_static_queries(checkpoint, arguments, paths[files.QUERY][0], length)
    else:
        transformer, pooling = files.write_modules(folder, of_documents)
    choices = {name: arguments[name] for name in _POOLING_CHOICES}
    write_json(os.path.join(pooling, files.MODULE_CONFIG_FILE), {**choices, "embedding_dimension": config.vocab_size})
    settings = {
        "model_type": files.SPARSE_ENCODER,
        "prompts": _prompts_of_roles(arguments),
        "similarity_fn_name": "dot",
        "default_prompt_name": arguments["default_prompt"],
    }
    if arguments["max_active_dims"]:
        settings["max_active_dims"] = arguments["max_active_dims"]
    write_json(os.path.join(folder, files.PROMPTS_FILE), settings)
    of_transformer = {"transformer_task": _MASKED_LM_TASK, "max_seq_length": length}
    write_json(os.path.join(transformer, files.LENGTH_FILE), of_transformer)
    return (QUERY_WEIGHTS,)


def _prompts_of_roles(arguments: Mapping) -> dict[str, str]:
    """Returns the prompts, with those of queries and documents by these names: there, other names do not count."""
    prompts, default = arguments["prompts"], arguments["default_prompt"]
    names = {files.QUERY: (files.QUERY, default), files.DOCUMENT: (files.DOCUMENT, "passage", "corpus", default)}
    of_roles = {role: next((prompts[name] for name in known if name in prompts), "") for role, known in names.items()}
    return {**prompts, **of_roles}


def _write_static_queries(checkpoint: BertCheckpoint, arguments: Mapping, folder: str, length: int) -> None:
    """Writes the files of a SparseStaticEmbedding: settings, weights and the tokenizer."""
    write_json(os.path.join(folder, files.MODULE_CONFIG_FILE), {"frozen": arguments["frozen"]})
    weights = checkpoint.tensors.get(_QUERY_WEIGHT)
    if weights is None:  # not trained, so still the initial values
        weights = StoredTensor.of(np.ones(checkpoint.config.vocab_size, np.float32))
    with atomic_file(os.path.join(folder, files.MODULE_WEIGHTS_FILE)) as file:
        write_safetensors(file, {"weight": weights}, {"format": "pt"})
    if checkpoint.tokenizer is None:
        return
    write_tokenizer(folder, checkpoint.tokenizer, checkpoint.config)
    file = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    if os.path.isfile(file):
        with open(file, encoding="utf-8") as opened:
            values = json.load(opened)
        write_json(file, {**values, "model_max_length": arguments["max_query_length"] or length})


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `SparseEncoder` and the checkpoint. Raises `InputError` without a head."""
    if TOKEN_SCORES in checkpoint.heads:
        told = {"unscored_ids": unscored_ids(checkpoint.tokenizer), **checkpoint.arguments.get(_KIND, {})}
        return {**told, **arguments}, checkpoint
    if MASKED_LM not in checkpoint.heads:
        pooling = checkpoint.config.sentence_pooling
        stated = "" if pooling == "mean" else f" Its modules.json turns texts into vectors by {pooling[:100]!r}."
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has no masked-LM head, from which a {model_class.__name__} takes "
            f"the weights of tokens.{stated} Give a checkpoint with one, or train one: "
            "MaskedLM.from_pretrained(path).fit(texts)."
        )
    return {**checkpoint.arguments.get(_KIND, {}), **arguments}, checkpoint


def unscored_ids(tokenizer: TokenTable | None) -> list[int]:
    """Returns the ids of the tokens without a score in bge-m3: [CLS], [SEP], padding and unknown tokens."""
    if tokenizer is None:
        return []
    return sorted({tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.unk_id})
