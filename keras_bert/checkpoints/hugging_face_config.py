"""The `config.json` of Hugging Face transformers: settings of a model, names of its labels.

Reference: huggingface/transformers, `models/*/configuration_*.py`.
"""

import dataclasses
import os
import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.hugging_face_keys import known_keys
from keras_bert.checkpoints.what_instead import near_families
from keras_bert.config import SENTENCE_POOLING, BertConfig, config_class
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member
from keras_bert.registry import families

CONFIG_FILE = "config.json"

# Activations: their name -> ours. Their "gelu" is the exact GELU, ours the tanh approximation (see `BertConfig`).
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "linear",
}
# The activations that some families have besides `hidden_act`.
_OTHER_ACTIVATIONS = ("pooler_act", "conv_act")
_ACTIVATIONS_BACK = {"gelu": "gelu_new", "gelu_erf": "gelu"} | {
    name: name for name in ("relu", "silu", "tanh", "linear")
}

_PROBLEM_TYPES = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}
# Our keys that transformers derives from the family.
_NOT_THEIRS = ("do_lower_case", "embedding_projection", "position_offset", "pooler_act")


def config_from(path: str, values: Mapping) -> BertConfig:
    """Returns the config of a model in a folder. Raises `InputError` if one of its settings is not supported."""
    file = os.path.join(path, CONFIG_FILE)
    known_families = families(has=lambda entry: entry.hugging_face)
    model_type = values.get("model_type", "bert")
    if not isinstance(model_type, str) or model_type not in known_families:
        raise InputError(
            f"{file}: model_type is {reprlib.repr(model_type)}, which keras_bert does not have"
            f"{near_families(model_type, known_families)}. Use a checkpoint of: {', '.join(known_families)}"
        )
    family = known_families[model_type]
    theirs = family.hugging_face
    known = known_keys(family)
    known.check(values, file)
    values = theirs.read({name: value for name, value in values.items() if name in known.used}, file)
    values = {name: value for name, value in values.items() if name not in theirs.keys} | {
        theirs.keys[name]: value for name, value in values.items() if name in theirs.keys
    }
    values = {**theirs.defaults, **values}
    activations = {"hidden_act": member(values, "hidden_act", str, file, "gelu")}
    activations |= {name: member(values, name, str, file) for name in _OTHER_ACTIVATIONS if name in values}
    for name, activation in activations.items():
        if activation not in _ACTIVATIONS:
            name = {"pooler_act": "summary_activation", **dict(map(reversed, theirs.keys.items()))}.get(name, name)
            raise InputError(f"{file}: {name} is {reprlib.repr(activation)}. Supported: {', '.join(_ACTIVATIONS)}")
    activations = {name: _ACTIVATIONS[activation] for name, activation in activations.items()}
    defaults = {**family.defaults, "tie_word_embeddings": True}
    fields = dataclasses.fields(config_class(model_type))
    names = [field.name for field in fields if field.name != "extra"] + [SENTENCE_POOLING]
    kept = {name: values[name] for name in names if values.get(name) is not None}
    if family.defaults.get("position_offset"):
        kept["position_offset"] = member(values, "pad_token_id", int, file, 1) + 1
    try:
        return BertConfig.from_dict({**defaults, **kept, **activations})
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def config_values(checkpoint: BertCheckpoint, architecture: str) -> dict:
    """Returns the values of transformers' config for a checkpoint."""
    config = checkpoint.config
    theirs = config.family.hugging_face
    values = {name: value for name, value in config.replace(extra={}).to_dict().items() if name not in _NOT_THEIRS}
    values |= {name: getattr(config, name) for name in theirs.sizes}
    vocabulary = checkpoint.vocabulary
    values |= {
        "architectures": [architecture],
        "model_type": config.model_type,
        "hidden_act": _ACTIVATIONS_BACK[config.hidden_act],
        "pad_token_id": vocabulary.pad_id if vocabulary else max(config.position_offset - 1, 0),
        "position_embedding_type": "absolute",
        "classifier_dropout": None,
        "use_cache": True,
    }
    if config.sentence_pooling != "mean":
        values[SENTENCE_POOLING] = config.sentence_pooling
    if checkpoint.labels:
        values["id2label"] = {str(number): label for number, label in enumerate(checkpoint.labels)}
        values["label2id"] = {label: number for number, label in enumerate(checkpoint.labels)}
    if theirs.has_pooler_act(checkpoint.heads):
        values["pooler_act"] = config.pooler_act
    values |= {name: _ACTIVATIONS_BACK[values[name]] for name in _OTHER_ACTIVATIONS if name in values}
    values = theirs.write(values, checkpoint)
    names = {ours: their_name for their_name, ours in theirs.keys.items()}
    values = {
        names.get(name, name): value for name, value in values.items() if name in names or name not in theirs.absent
    }
    if form.CLASSIFIER in checkpoint.heads:
        values["problem_type"] = next(
            theirs for theirs, ours in _PROBLEM_TYPES.items() if ours == checkpoint.problem_type
        )
    return values


def labels_of(path: str, values: Mapping, count: int | None) -> tuple[str, ...] | None:
    if count is None:
        return None
    names = member(values, "id2label", dict, os.path.join(path, CONFIG_FILE), {})
    labels = tuple(str(names.get(str(number), f"LABEL_{number}")) for number in range(count))
    if len(names) not in (0, count) and "num_labels" not in values:
        raise InputError(
            f"{os.path.join(path, CONFIG_FILE)} names {len(names)} labels (id2label), and the classifier has {count} "
            "outputs. The config belongs to another checkpoint."
        )
    return labels


def problem_type_of(values: Mapping, labels: tuple[str, ...] | None) -> str:
    """Returns the `problem_type`. By default a classifier with one output is a regression, as in transformers."""
    theirs = member(values, "problem_type", str, CONFIG_FILE)
    if theirs in _PROBLEM_TYPES:
        return _PROBLEM_TYPES[theirs]
    return "regression" if labels and len(labels) == 1 else "classification"
