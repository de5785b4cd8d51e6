"""What checkpoints say about a `MultiVectorEncoder`, and how one starts from them.

There are folders of sentence-transformers, and those of Stanford's ColBERT.

Reference: sentence-transformers 6.2, `MultiVectorEncoder`; stanford-futuredata/ColBERT, `artifact.metadata`.
"""

import os
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from keras_bert.checkpoints import sentence_transformers as files
from keras_bert.checkpoints.checkpoint import SENTENCE_HEAD, TOKEN_VECTORS, BertCheckpoint, part_of
from keras_bert.checkpoints.sentence_transformers import ModelFolder
from keras_bert.config import POOLINGS, BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object, strings, write_json
from keras_bert.tasks.embedding.checkpoint import KIND as OF_TEXTS
from keras_bert.tasks.settings import is_row_length
from keras_bert.tasks.text_rows import checked_length
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.vocabulary import Vocabulary

_KIND = "MultiVectorEncoder"
_STANFORD, _STANFORD_WEIGHT = "HF_ColBERT", "linear.weight"  # the class in its config.json; its projection
_MARK = re.compile(r"\[[^\[\]\s]+\]|<[^<>\s]+>")  # what a prompt begins with, such as [Q]
_MASK = "MultiVectorMask"
_TOKENS = "token_embeddings"
_MODULES = "sentence_transformers.base.modules."
_CLASSES = {
    files.TRANSFORMER: f"{_MODULES}transformer.Transformer",
    "Dense": f"{_MODULES}dense.Dense",
    "Normalize": f"{_MODULES}normalize.Normalize",
    _MASK: "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
}
_LENGTHS = ("query_length", "document_length", "query_expansion")
_MASK_KEYS = KnownKeys(used=("skiplist_words", "skiplist_tasks"), fixed={"keep_only_token_ids": ([],)})
_OF_TOKENS = {"module_input_name": _TOKENS, "module_output_name": _TOKENS}


def read(checkpoint: BertCheckpoint, folder: ModelFolder) -> BertCheckpoint:
    """Returns the checkpoint of a folder with the arguments of `MultiVectorEncoder` and its dense layers.

    Raises `InputError`: a setting or a module is unknown, a file is damaged, or it lies outside the folder.
    """
    if (strings(folder.values, "architectures", folder.config_file) or [""])[0] == _STANFORD:
        return _as_stanford_model(checkpoint, folder)
    checkpoint = files.read_token_layer(checkpoint, folder, "colbert_linear", TOKEN_VECTORS)
    modules, settings, file = folder.modules, folder.settings, folder.settings_file
    if not modules or settings.get("model_type") != _KIND:
        return checkpoint
    kinds = [kind for kind, _ in modules if kind != "Dropout"]
    rest = kinds[1:][kinds[1:].count("Dense") :]
    in_order = kinds[:1] == [files.TRANSFORMER] and "Dense" not in rest
    if not in_order or len(set(rest)) < len(rest) or not set(rest) <= {"Normalize", _MASK}:
        raise InputError(
            f"{os.path.join(folder.path, files.MODULES_FILE)}: a {_KIND} is a Transformer, Dense layers, Normalize and "
            f"{_MASK}. Received: {', '.join(kinds)[:200]}. Use sentence-transformers for this model."
        )
    files.SETTINGS_KEYS.check(settings, file)
    dense, tensors = files.read_layers(modules, checkpoint.config.hidden_size, folder.trust_pickle, _TOKENS)
    skiplist_words, skiplist_tasks = [], [files.DOCUMENT]
    for place in (place for kind, place in modules if kind == _MASK):
        values, name = files.config_of(place), os.path.join(place, files.MODULE_CONFIG_FILE)
        _MASK_KEYS.check(values, name)
        skiplist_words = strings(values, "skiplist_words", name) or []
        if values.get("skiplist_tasks") not in (None, files.DOCUMENT):
            skiplist_tasks = strings(values, "skiplist_tasks", name)
    arguments = {
        "dense": dense,
        "normalize": "Normalize" in kinds,
        **folder.prompts(),
        "skiplist_words": skiplist_words,
        "skiplist_tasks": skiplist_tasks,
        **_read_lengths(modules[0][1], checkpoint.config),
        "similarity_fn_name": member(settings, "similarity_fn_name", str, file, "maxsim"),
    }
    return checkpoint.telling(_KIND, arguments, tensors)


def _read_lengths(folder: str, config: BertConfig) -> dict[str, Any]:
    """Returns the query expansion and the lengths of the Transformer in a folder."""
    longest = files.longest_text(folder, config, files.transformer_keys(used=_LENGTHS))
    values, file = files.settings_of_transformer(folder)
    expansion = member(values, "query_expansion", dict, file)
    document, query = (member(values, name, int, file) or longest for name in ("document_length", "query_length"))
    if expansion is not None and expansion.get("strategy") == "fixed":
        query = None  # the expansion says it
    return {"query_expansion": expansion, "query_length": query, "document_length": document}


def write(checkpoint: BertCheckpoint, folder: str) -> tuple[str, ...]:
    """Writes the files of sentence-transformers for a `MultiVectorEncoder`, see `registry.Task`."""
    arguments, width = checkpoint.arguments[_KIND], checkpoint.config.hidden_size
    kinds = [files.TRANSFORMER, *["Dense"] * len(arguments["dense"]), *["Normalize"] * arguments["normalize"], _MASK]
    paths = files.write_modules(folder, [_CLASSES[kind] for kind in kinds])
    for number, settings in enumerate(arguments["dense"]):
        width = files.write_dense(checkpoint, paths[1 + number], number, settings, width, **_OF_TOKENS)
    if arguments["normalize"]:
        write_json(os.path.join(paths[-2], files.MODULE_CONFIG_FILE), _OF_TOKENS)
    mask = {"skiplist_words": list(arguments["skiplist_words"]), "skiplist_tasks": arguments["skiplist_tasks"]}
    write_json(os.path.join(paths[-1], files.MODULE_CONFIG_FILE), {**mask, "keep_only_token_ids": None})
    settings = {"model_type": _KIND, "similarity_fn_name": arguments["similarity_fn_name"]}
    settings |= {"prompts": arguments["prompts"], "default_prompt_name": arguments["default_prompt"]}
    write_json(os.path.join(folder, files.PROMPTS_FILE), settings)
    transformer = {"transformer_task": "feature-extraction", "module_output_name": _TOKENS}
    transformer["modality_config"] = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    write_json(os.path.join(folder, files.LENGTH_FILE), {**transformer, **{name: arguments[name] for name in _LENGTHS}})
    return (SENTENCE_HEAD,)


def _with_marks(checkpoint: BertCheckpoint, prompts: Iterable[str]) -> BertCheckpoint:
    """Returns the checkpoint with a vocabulary that finds the marks of prompts in a text as a whole, if it has them."""
    tokenizer: Any = checkpoint.tokenizer
    is_word_piece, contents = isinstance(checkpoint.vocabulary, Vocabulary), []
    for mark in (found[0] for found in map(_MARK.match, prompts) if found):
        if mark not in tokenizer.ids or (not is_word_piece and tokenizer.encode(mark) != [tokenizer.ids[mark]]):
            raise InputError(
                f"{checkpoint.path}: the mark {mark!r:.50} is no token of the vocabulary, so it would be cut into "
                f"pieces. Use tokens that it has, such as [unused0], or add it: new_tokens=[{mark!r:.50}]"
            )
        contents.append(mark)
    if not is_word_piece:
        return checkpoint
    marks = dict.fromkeys(AddedToken(mark, normalized=False, special=True) for mark in contents)
    others = (token for token in tokenizer.added_tokens if token.content not in contents)
    return checkpoint.replace(tokenizer=tokenizer.replace(added_tokens=(*others, *marks)))


def _as_stanford_model(checkpoint: BertCheckpoint, folder: ModelFolder) -> BertCheckpoint:
    """Returns the checkpoint of a folder of Stanford's ColBERT with its projection and the settings of its metadata."""
    weight, width = folder.stored.get(_STANFORD_WEIGHT), checkpoint.config.hidden_size
    if weight is None or len(weight.shape) != 2 or weight.shape[1] != width:
        received = None if weight is None else list(weight.shape)
        raise InputError(
            f"{checkpoint.path}: a {_STANFORD} needs {_STANFORD_WEIGHT} of the shape [size, {width}]. Received: "
            f"{received}"
        )
    file = os.path.join(folder.path, "artifact.metadata")
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
    ignored = tuple(name for name in checkpoint.ignored if name != _STANFORD_WEIGHT)
    checkpoint = checkpoint.telling(_KIND, arguments, {f"{SENTENCE_HEAD}/dense_0/kernel": kernel})
    return _with_marks(checkpoint.replace(ignored=ignored), arguments["prompts"].values())


def _as_bge_m3(checkpoint: BertCheckpoint) -> tuple[dict[str, Any], BertCheckpoint]:
    """Returns the arguments for the layer of tokens of bge-m3, and the checkpoint with it as the dense layer."""
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if part_of(name) != SENTENCE_HEAD}
    kernel, bias = (tensors.pop(f"{TOKEN_VECTORS}/{name}") for name in ("kernel", "bias"))
    arguments = {
        "dense": [{"units": kernel.shape[1], "activation": "linear", "use_bias": True}],
        "skiplist_words": [] if checkpoint.vocabulary is None else [checkpoint.vocabulary.special_tokens.cls],
        "skiplist_tasks": [files.QUERY, files.DOCUMENT],
        "similarity_fn_name": "meanmaxsim",
    }
    prefix = f"{SENTENCE_HEAD}/dense_0"
    return arguments, checkpoint.replace(tensors={**tensors, f"{prefix}/kernel": kernel, f"{prefix}/bias": bias})


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `MultiVectorEncoder`, and the checkpoint.

    Marks in prompts that the user gives become tokens that are found in a text as a whole. Marks of a folder of
    sentence-transformers stay as they are read there. Raises `InputError` if a mark is no token of the vocabulary, or
    the model has fewer positions than a length.
    """
    told, of_texts = (checkpoint.arguments.get(kind, {}) for kind in (_KIND, OF_TEXTS))
    pooling = checkpoint.config.sentence_pooling
    if not told and not of_texts and pooling not in POOLINGS and "dense" not in arguments:
        raise InputError(
            f"{checkpoint.path} turns texts into vectors by {str(pooling)[:100]!r}. Save it as a "
            f"{model_class.__name__} of sentence-transformers 6, or give dense=[...] and train it."
        )
    stated = dict(told)
    if not told and TOKEN_VECTORS in checkpoint.heads:
        stated, checkpoint = _as_bge_m3(checkpoint)
        of_texts = {}
    if not told and of_texts.get("dense"):
        stated["dense"] = of_texts["dense"]  # as there, the layers of a text become those of each token
    found = {**stated, **arguments}
    expansion = found.get("query_expansion")
    of_expansion = expansion.get("length") if isinstance(expansion, Mapping) else None
    for length in (found.get("query_length"), found.get("document_length"), of_expansion):
        checked_length(checkpoint.config, length if is_row_length(length) else None)
    prompts = found.get("prompts") or {}
    if checkpoint.tokenizer is None:
        return found, checkpoint
    texts = [text for text in prompts.values() if isinstance(text, str)]  # the model refuses the others
    if prompts != told.get("prompts", {}):
        checkpoint = _with_marks(checkpoint, texts)
    remarks = []
    tokenizer: Any = checkpoint.tokenizer
    for mark in filter(None, map(_MARK.match, texts)):
        count = len(tokenizer.encode(mark[0]))
        if count > 1:
            remarks.append(f"its mark {mark[0]!r:.50} is {count} tokens, as in sentence-transformers")
    words = found.get("skiplist_words") or ()
    missing = [word for word in words if isinstance(word, str) and word not in tokenizer.ids]
    if missing:
        remarks.append(f"words of the skip list that are not one token are ignored: {', '.join(missing)[:100]}")
    return found, checkpoint.replace(remarks=(*checkpoint.remarks, *remarks))
