"""What checkpoints say about a model that turns a text into a vector, and how such a model starts from them.

In folders of sentence-transformers, these are a Transformer and a Pooling, or a StaticEmbedding; then any number of
Dense layers and at most one Normalize. Folders with other modules can be read for other tasks.

Reference: sentence-transformers 6.2, `SentenceTransformer`, `Pooling`, `Dense` and `Normalize`.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints import sentence_transformers as files
from keras_bert.checkpoints.checkpoint import SENTENCE_HEAD, BertCheckpoint
from keras_bert.checkpoints.sentence_transformers import ModelFolder
from keras_bert.config import POOLINGS, SENTENCE_POOLING, BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, write_json

KIND = "SentenceEncoder"
_MODEL_TYPE = "SentenceTransformer"  # in their files, and of those that name none
_PACKAGE = "sentence_transformers.models."  # old and new versions read these names
# The name of a pooling -> its key in older versions.
_POOLING_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_POOLING_CONFIG_KEYS = KnownKeys(
    used=("pooling_mode", *_POOLING_KEYS.values(), "include_prompt", "word_embedding_dimension", "embedding_dimension")
)


def read(checkpoint: BertCheckpoint, folder: ModelFolder) -> BertCheckpoint:
    """Returns the checkpoint of a folder with the pooling in its config, and with the arguments of `SentenceEncoder`.

    The pooling has the names of the modules: "cls", "cls + max", "mean, then Dense". The mean is not named. Normalize
    is not named, because it changes no cosine. There are arguments only if all modules are known here. Raises
    `InputError` if a file is damaged or missing, contradicts another, or lies outside the folder.
    """
    config, modules, settings = checkpoint.config, folder.modules, folder.settings
    made_as = member(settings, "model_type", str, files.PROMPTS_FILE, _MODEL_TYPE)
    if not modules or made_as == files.CROSS_ENCODER:
        return checkpoint
    kinds, prompts = [kind for kind, _ in modules], folder.prompts()
    steps, poolings = [], []
    for kind, place in modules:
        if kind == "Pooling":
            poolings = _poolings(place, config, has_prompts=any(prompts["prompts"].values()))
            missing = f"a pooling without {os.path.relpath(place, folder.path)}/{files.MODULE_CONFIG_FILE}"
            steps.append(" + ".join(poolings) or missing)
        elif kind == files.STATIC_EMBEDDING:
            poolings = ["mean"]
        elif kind not in (files.TRANSFORMER, files.MLM_TRANSFORMER, "Normalize", "Dropout"):
            steps.append(kind)
    pooling = ", then ".join(steps) or ("mean" if files.STATIC_EMBEDDING in kinds else "no pooling")
    if made_as != _MODEL_TYPE:
        pooling = f"{pooling} of a {made_as}"
    if pooling != "mean":
        checkpoint = checkpoint.replace(config=config.replace(extra={SENTENCE_POOLING: pooling}))
    is_known = _is_known(kinds) and made_as == _MODEL_TYPE
    if not is_known or not poolings or len(set(poolings)) < len(poolings) or set(poolings) - set(POOLINGS):
        return checkpoint
    width = config.hidden_size * len(poolings)
    dense, tensors = files.read_layers(modules, width, folder.trust_pickle, "sentence_embedding")
    files.SETTINGS_KEYS.check(settings, folder.settings_file)
    arguments = {
        "pooling": poolings,
        "normalize": "Normalize" in kinds,
        **prompts,
        "max_seq_length": None,
        "dense": dense,
    }
    if not config.is_static:
        arguments["max_seq_length"] = files.longest_text(modules[0][1], config, files.transformer_keys())
    similarity = member(settings, "similarity_fn_name", str, files.PROMPTS_FILE, "cosine")
    is_cosine = similarity == "cosine" or (similarity.startswith("dot") and arguments["normalize"])
    notes = [] if is_cosine else [f"its similarity is {similarity[:100]!r}, and searches here compare by cosines"]
    return checkpoint.telling(KIND, arguments, tensors).replace(remarks=(*checkpoint.remarks, *notes))


def _is_known(kinds: list[str]) -> bool:
    """Whether the modules are Transformer and Pooling or StaticEmbedding, Dense ..., Normalize; Dropout is ignored."""
    kinds = [kind for kind in kinds if kind != "Dropout"]
    if kinds and kinds[-1] == "Normalize":
        kinds = kinds[:-1]
    num_first = 2 if kinds[:2] == ["Transformer", "Pooling"] else kinds[:1].count(files.STATIC_EMBEDDING)
    return num_first > 0 and set(kinds[num_first:]) <= {"Dense"}


def _poolings(folder: str, config: BertConfig, has_prompts: bool) -> list[str]:
    """Returns the names of the poolings in the order in which they are joined; an empty list without a config."""
    file, values = os.path.join(folder, files.MODULE_CONFIG_FILE), files.config_of(folder)
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


def write(checkpoint: BertCheckpoint, folder: str) -> tuple[str, ...]:
    """Writes the files of sentence-transformers for a `SentenceEncoder`, see `registry.Task`."""
    arguments, config = checkpoint.arguments[KIND], checkpoint.config
    first = [files.STATIC_EMBEDDING] if config.is_static else ["Transformer", "Pooling"]
    kinds = [*first, *["Dense"] * len(arguments["dense"]), *["Normalize"] * arguments["normalize"]]
    paths = files.write_modules(folder, [f"{_PACKAGE}{kind}" for kind in kinds])
    width, poolings = config.hidden_size, tuple(arguments["pooling"])
    if not config.is_static:
        values = {"word_embedding_dimension": width, **_pooling_values(poolings), "include_prompt": True}
        write_json(os.path.join(paths[1], files.MODULE_CONFIG_FILE), values)
    width *= len(poolings)
    for number, settings in enumerate(arguments["dense"]):
        width = files.write_dense(checkpoint, paths[len(first) + number], number, settings, width)
    prompts = {"prompts": arguments["prompts"], "default_prompt_name": arguments["default_prompt"]}
    write_json(os.path.join(folder, files.PROMPTS_FILE), {**prompts, "similarity_fn_name": "cosine"})
    if not config.is_static:  # whose texts are not cut there
        length = arguments["max_seq_length"] or config.max_sequence_length
        write_json(os.path.join(folder, files.LENGTH_FILE), {"max_seq_length": length, "do_lower_case": False})
    return (SENTENCE_HEAD,)


def _pooling_values(poolings: tuple[str, ...]) -> dict[str, Any]:
    """Returns the keys that all versions read; only version 6 joins poolings in another order than that of its keys."""
    if list(poolings) != [name for name in _POOLING_KEYS if name in poolings]:
        return {"pooling_mode": list(poolings)}
    return {key: name in poolings for name, key in _POOLING_KEYS.items()}


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `SentenceEncoder` or `SentenceClassifier`, and the checkpoint.

    Raises `InputError` if texts get vectors in another way than by a known pooling.
    """
    if KIND in checkpoint.arguments:
        known = inspect.signature(model_class.__init__).parameters
        told = {name: value for name, value in checkpoint.arguments[KIND].items() if name in known}
        return {**told, **arguments}, checkpoint
    pooling = checkpoint.config.sentence_pooling
    if pooling not in POOLINGS and "pooling" not in arguments:
        raise InputError(
            f"{checkpoint.path} turns texts into vectors by {str(pooling)[:100]!r}. "
            f"{model_class.__name__} computes a Transformer, a Pooling, Dense layers and Normalize, in this order. Use "
            "the model's own class or sentence-transformers, or give another pooling=[...] and train it."
        )
    return {"pooling": [pooling], **arguments}, checkpoint
