"""The `config.json` of Hugging Face transformers: settings of a model, names of its labels.

Reference: huggingface/transformers, `models/*/configuration_*.py`.
"""

import dataclasses
import os
import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import modern_bert_keys, xlnet_files
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.family_names import NAMES
from keras_bert.checkpoints.hugging_face_keys import known_keys
from keras_bert.config import SENTENCE_POOLING, BertConfig, config_class
from keras_bert.families import FAMILIES
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, strings

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
    "tanh": "tanh",
    "linear": "linear",
}
_ACTIVATIONS_BACK = {"gelu": "gelu_new", "gelu_erf": "gelu", "relu": "relu", "tanh": "tanh", "linear": "linear"}

# Config keys of a family -> config keys of the other families.
_KEYS = {
    "distilbert": {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    "modernbert": {
        "hidden_activation": "hidden_act",
        "classifier_activation": "pooler_act",
        "norm_eps": "layer_norm_eps",
        "classifier_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    "xlnet": xlnet_files.KEYS,
}
# Defaults of transformers' config classes, which its config files leave out.
_THEIR_DEFAULTS = {
    "bert": {"vocab_size": 30522},
    "roberta": {"vocab_size": 50265, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    "albert": {
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
    },
    "distilbert": {"num_hidden_layers": 6},
    "electra": {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
    "longformer": {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    "big_bird": {"hidden_act": "gelu_new"},
    "mobilebert": {},
    "xlnet": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "modernbert": {"num_hidden_layers": 22, "intermediate_size": 1152, "pooler_act": "gelu"},
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
    model_type = values.get("model_type", "bert")
    if not isinstance(model_type, str) or model_type not in NAMES:
        raise InputError(
            f"{file}: model_type is {reprlib.repr(model_type)}, which is not of BERT's family. Use a checkpoint of: "
            f"{', '.join(NAMES)}"
        )
    family = FAMILIES[model_type]
    ours = _KEYS.get(model_type, {})
    known = known_keys(model_type, tuple(ours))
    known.check(values, file)
    values = {name: value for name, value in values.items() if name in known.used}
    if model_type == "xlnet":
        values = xlnet_files.of_theirs(values, file)
    values = {name: value for name, value in values.items() if name not in ours} | {
        ours[name]: value for name, value in values.items() if name in ours
    }
    if model_type == "modernbert":
        values = modern_bert_keys.of_theirs(values, file)
    if model_type == "electra":
        values = _with_summary(values, file)
    values = {**_THEIR_DEFAULTS[model_type], **values}
    activations = {"hidden_act": member(values, "hidden_act", str, file, "gelu")}
    if "pooler_act" in values:
        activations["pooler_act"] = member(values, "pooler_act", str, file)
    for name, activation in activations.items():
        if activation not in _ACTIVATIONS:
            name = {"pooler_act": "summary_activation", **dict(map(reversed, ours.items()))}.get(name, name)
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


def _with_summary(values: Mapping, file: str) -> dict:
    """Returns the values with the activation of the pooler of an ElectraForMultipleChoice.

    Its settings are named `summary_*`. Other classes of ELECTRA do not read them.
    """
    if not "".join(strings(values, "architectures", file)[:1]).endswith("ForMultipleChoice"):
        return dict(values)
    settings = {name: value for name, value in values.items() if name.startswith("summary_")}
    KnownKeys(("summary_activation",), fixed={"summary_type": ("first",), "summary_use_proj": (True,)}).check(
        settings, file
    )
    return {**values, "pooler_act": settings.get("summary_activation", "gelu")}


def config_values(checkpoint: BertCheckpoint, architecture: str) -> dict:
    """Returns the values of transformers' config for a checkpoint."""
    config = checkpoint.config
    values = {name: value for name, value in config.replace(extra={}).to_dict().items() if name not in _NOT_THEIRS}
    if config.model_type in ("albert", "electra", "mobilebert"):
        values |= {"embedding_size": config.embedding_size}
    if config.model_type == "albert":
        values |= {"num_hidden_groups": config.num_hidden_groups, "inner_group_num": config.inner_group_num}
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
    if config.model_type == "modernbert":
        values = modern_bert_keys.to_theirs(values, _ACTIVATIONS_BACK[config.pooler_act], vocabulary)
    if config.model_type in _KEYS:
        theirs = {ours: theirs for theirs, ours in _KEYS[config.model_type].items()}
        values = {theirs.get(name, name): value for name, value in values.items() if name != "type_vocab_size"}
    if config.model_type == "xlnet" or (config.model_type == "electra" and form.MULTIPLE_CHOICE in checkpoint.heads):
        values |= {"summary_activation": _ACTIVATIONS_BACK[config.pooler_act]}
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
