"""What folders say about a `MultiVectorEncoder`: those of sentence-transformers, and those of Stanford's ColBERT.

Reference: sentence-transformers 6.2, `MultiVectorEncoder`; stanford-futuredata/ColBERT, `artifact.metadata`.
"""

import dataclasses
import os
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from keras_bert.checkpoints.checkpoint import SENTENCE_HEAD, BertCheckpoint, StoredTensor
from keras_bert.checkpoints.sentence_settings import (
    LENGTH_FILE,
    LENGTH_KEYS,
    PROMPTS_FILE,
    SETTINGS_KEYS,
    longest_text,
    model_settings,
    prompts_of,
    settings_of_transformer,
)
from keras_bert.checkpoints.sentence_transformers import (
    MODULES_FILE,
    config_of,
    modules_of,
    read_layers,
    write_dense,
    write_modules,
)
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object, strings, write_json
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.kinds import python_tokenizer
from keras_bert.tokenization.vocabulary import Vocabulary

MULTI_VECTOR = "MultiVectorEncoder"
STANFORD = "HF_ColBERT"  # the class in config.json
MARK = re.compile(r"\[[^\[\]\s]+\]|<[^<>\s]+>")  # what a prompt begins with, such as [Q]
_MASK = "MultiVectorMask"
_TOKENS = "token_embeddings"
_MODULES = "sentence_transformers.base.modules."
_PATHS = {
    "Transformer": f"{_MODULES}transformer.Transformer",
    "Dense": f"{_MODULES}dense.Dense",
    "Normalize": f"{_MODULES}normalize.Normalize",
    _MASK: "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
}
_LENGTHS = ("query_length", "document_length", "query_expansion")
_LENGTH_KEYS = dataclasses.replace(LENGTH_KEYS, used=(*LENGTH_KEYS.used, *_LENGTHS))
_MASK_KEYS = KnownKeys(
    used=("skiplist_words",), fixed={"skiplist_tasks": (["document"], "document"), "keep_only_token_ids": ([],)}
)
_OF_TOKENS = {"module_input_name": _TOKENS, "module_output_name": _TOKENS}
_METADATA_FILE = "artifact.metadata"
_STANFORD_WEIGHT = "linear.weight"


def read_multi_vector(
    path: str, config: BertConfig, trust_pickle: bool = False
) -> tuple[dict[str, Any] | None, dict[str, StoredTensor]]:
    """Returns the arguments of `MultiVectorEncoder` in a folder of sentence-transformers, and its dense layers.

    None, and no layers, for a folder of another model.

    Raises:
        InputError: a setting or a module is unknown, a file is damaged, or it lies outside the folder.
    """
    settings, file = model_settings(path), os.path.join(path, PROMPTS_FILE)
    modules = modules_of(path)
    if not modules or settings.get("model_type") != MULTI_VECTOR:
        return None, {}
    kinds = [kind for kind, _ in modules if kind != "Dropout"]
    rest = kinds[1:][kinds[1:].count("Dense") :]
    in_order = kinds[:1] == ["Transformer"] and "Dense" not in rest
    if not in_order or len(set(rest)) < len(rest) or not set(rest) <= {"Normalize", _MASK}:
        raise InputError(
            f"{os.path.join(path, MODULES_FILE)}: a {MULTI_VECTOR} is a Transformer, Dense layers, Normalize and "
            f"{_MASK}. Received: {', '.join(kinds)[:200]}. Use sentence-transformers for this model."
        )
    SETTINGS_KEYS.check(settings, file)
    dense, tensors = read_layers(modules, config.hidden_size, trust_pickle, _TOKENS)
    prompts, default = prompts_of(settings, file)
    skiplist_words: list[str] = []
    for folder in (folder for kind, folder in modules if kind == _MASK):
        values, name = config_of(folder), os.path.join(folder, "config.json")
        _MASK_KEYS.check(values, name)
        skiplist_words = strings(values, "skiplist_words", name) or []
    arguments = {"dense": dense, "normalize": "Normalize" in kinds, "prompts": prompts, "default_prompt": default}
    arguments |= {"skiplist_words": skiplist_words, **_read_lengths(modules[0][1], config)}
    arguments["similarity_fn_name"] = member(settings, "similarity_fn_name", str, file, "maxsim")
    return arguments, tensors


def _read_lengths(folder: str, config: BertConfig) -> dict[str, Any]:
    """Returns the query expansion and the lengths of the Transformer in a folder."""
    longest, (values, file) = longest_text(folder, config, _LENGTH_KEYS), settings_of_transformer(folder)
    expansion = member(values, "query_expansion", dict, file)
    document, query = (member(values, name, int, file) or longest for name in ("document_length", "query_length"))
    if expansion is not None and expansion.get("strategy") == "fixed":
        query = None  # the expansion says it
    return {"query_expansion": expansion, "query_length": query, "document_length": document}


def write_multi_vector(checkpoint: BertCheckpoint, folder: str) -> None:
    """Writes the files of sentence-transformers for a `MultiVectorEncoder` into an existing folder."""
    arguments, width = checkpoint.multi_vector or {}, checkpoint.config.hidden_size
    kinds = ["Transformer", *["Dense"] * len(arguments["dense"]), *["Normalize"] * arguments["normalize"], _MASK]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], start=1))]
    write_modules(folder, {path: _PATHS[kind] for kind, path in zip(kinds, paths, strict=True)})
    for number, settings in enumerate(arguments["dense"]):
        width = write_dense(checkpoint, os.path.join(folder, paths[1 + number]), number, settings, width, **_OF_TOKENS)
    if arguments["normalize"]:
        write_json(os.path.join(folder, paths[-2], "config.json"), _OF_TOKENS)
    mask = {"skiplist_words": list(arguments["skiplist_words"]), "skiplist_tasks": ["document"]}
    write_json(os.path.join(folder, paths[-1], "config.json"), {**mask, "keep_only_token_ids": None})
    settings = {"model_type": MULTI_VECTOR, "similarity_fn_name": arguments["similarity_fn_name"]}
    settings |= {"prompts": arguments["prompts"], "default_prompt_name": arguments["default_prompt"]}
    write_json(os.path.join(folder, PROMPTS_FILE), settings)
    transformer = {"transformer_task": "feature-extraction", "module_output_name": _TOKENS}
    transformer["modality_config"] = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    write_json(os.path.join(folder, LENGTH_FILE), {**transformer, **{name: arguments[name] for name in _LENGTHS}})


def with_marks(checkpoint: BertCheckpoint, prompts: Iterable[str]) -> BertCheckpoint:
    """Returns the checkpoint with a vocabulary that finds the marks of prompts in a text as a whole.

    Raises:
        InputError: a mark is no token of the vocabulary.
    """
    vocabulary = checkpoint.vocabulary
    encode = python_tokenizer(vocabulary, checkpoint.config.do_lower_case).encode
    is_word_piece, contents = isinstance(vocabulary, Vocabulary), []
    for mark in (found[0] for found in map(MARK.match, prompts) if found):
        if mark not in vocabulary.ids or (not is_word_piece and encode(mark) != [vocabulary.ids[mark]]):
            raise InputError(
                f"{checkpoint.path}: the mark {mark!r:.50} is no token of the vocabulary, so it would be cut into "
                f"pieces. Use tokens that it has, such as [unused0], or add it: new_tokens=[{mark!r:.50}]"
            )
        contents.append(mark)
    if not is_word_piece:
        return checkpoint
    marks = dict.fromkeys(AddedToken(mark, normalized=False, special=True) for mark in contents)
    others = (token for token in vocabulary.added_tokens if token.content not in contents)
    return checkpoint.replace(vocabulary=vocabulary.replace(added_tokens=(*others, *marks)))


def as_stanford_model(checkpoint: BertCheckpoint, stored: Mapping[str, StoredTensor]) -> BertCheckpoint:
    """Returns the checkpoint of a folder of Stanford's ColBERT with its projection and the settings of its metadata.

    Raises:
        InputError: the projection is missing, or a setting is not valid.
    """
    weight, width = stored.get(_STANFORD_WEIGHT), checkpoint.config.hidden_size
    if weight is None or len(weight.shape) != 2 or weight.shape[1] != width:
        received = None if weight is None else list(weight.shape)
        raise InputError(
            f"{checkpoint.path}: a {STANFORD} needs {_STANFORD_WEIGHT} of the shape [size, {width}]. Received: "
            f"{received}"
        )
    file = os.path.join(checkpoint.path, _METADATA_FILE)
    values = read_json_object(file) if os.path.isfile(file) else {}
    if member(values, "similarity", str, file, "cosine") != "cosine":
        raise InputError(f"{file}: the similarity must be cosine. Received: {values['similarity']!r:.100}")
    marks = [member(values, f"{role}_token_id", str, file, f"[unused{n}]") for n, role in enumerate(("query", "doc"))]
    units, longest = weight.shape[0], checkpoint.config.max_sequence_length
    attend = member(values, "attend_to_mask_tokens", bool, file, False)
    expansion = {"strategy": "fixed", "attend": attend, "length": member(values, "query_maxlen", int, file, 32)}
    arguments = {
        "dense": [{"units": units, "activation": "linear", "use_bias": False}],
        "normalize": True,
        "default_prompt": None,
        "similarity_fn_name": "maxsim",
        "query_length": None,
        "prompts": {"query": f"{marks[0]} ", "document": f"{marks[1]} "},
        "query_expansion": expansion,
        "document_length": min(member(values, "doc_maxlen", int, file, longest), longest),
        "skiplist_words": list(string.punctuation) if member(values, "mask_punctuation", bool, file, True) else [],
    }
    kernel = weight.changed((width, units), lambda array: array.T)
    checkpoint = checkpoint.replace(
        tensors={**checkpoint.tensors, f"{SENTENCE_HEAD}/dense_0/kernel": kernel},
        multi_vector=arguments,
        ignored=tuple(name for name in checkpoint.ignored if name != _STANFORD_WEIGHT),
    )
    return with_marks(checkpoint, arguments["prompts"].values())
