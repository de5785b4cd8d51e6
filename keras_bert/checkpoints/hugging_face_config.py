"""The `config.json` of Hugging Face transformers: its keys, the settings of a model, the names of its labels.

Reference: huggingface/transformers, `configuration_utils.py` of the versions 2 to 5, `models/*/configuration_*.py`,
and the `config.json` of published models.
"""

import dataclasses
import os
import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.family_formats import OWN_SIZES
from keras_bert.checkpoints.google import UNUSED_KEYS
from keras_bert.checkpoints.what_instead import near_families
from keras_bert.config import SENTENCE_POOLING, BertConfig, config_class
from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import Family, families, imported
from keras_bert.tokenization.tokenizer_json import (
    BYTE_FALLBACK_CLASSES,
    BYTE_PAIR_CLASSES,
    GENERIC_CLASSES,
    SENTENCE_PIECE_CLASSES,
    WORD_PIECE_CLASSES,
)

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
# Settings for writing texts. An encoder writes none.
GENERATION = (
    *("max_length", "min_length", "max_new_tokens", "min_new_tokens", "max_time", "do_sample", "early_stopping"),
    *("num_beams", "num_beam_groups", "num_return_sequences", "diversity_penalty", "temperature", "top_k", "top_p"),
    *("min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "penalty_alpha", "repetition_penalty", "length_penalty"),
    *("encoder_repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids"),
    *("force_words_ids", "sequence_bias", "suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids"),
    *("forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "renormalize_logits"),
    *("exponential_decay_length_penalty", "guidance_scale", "output_scores", "output_logits", "stop_strings"),
    "return_dict_in_generate",
)
# What a file says about its origin and about programs that read it, and settings that change no outputs.
HARMLESS = (
    *GENERATION,
    *("_name_or_path", "name_or_path", "pretrained_model_name_or_path", "trust_remote_code", "_commit_hash"),
    *("_from_model_config", "transformers_version", "matryoshka_dimensions"),
    *("_num_labels", "num_labels", "label2id"),
    *("torch_dtype", "dtype", "torchscript", "use_bfloat16", "xla_device", "tf_legacy_loss", "is_training"),
    *("output_attentions", "output_hidden_states", "output_past", "return_dict", "use_return_dict", "use_cache"),
    *("_attn_implementation", "attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal"),
    *("_experts_implementation", "experts_implementation", "_flash_attn_2_enabled", "use_memory_efficient_attention"),
    *("gradient_checkpointing", "chunk_size_feed_forward", "classifier_dropout", "classifier_dropout_prob"),
    *("finetuning_task", "task_specific_params", "prefix", "keys_to_ignore_at_inference", "custom_pipelines"),
    # the files of the tokenizer name its tokens
    *(f"{role}_token{end}" for role in ("bos", "eos", "sep", "cls", "mask", "unk") for end in ("", "_id")),
    "pad_token",
    *("decoder_start_token_id", "cross_attention_hidden_size", "tie_encoder_decoder"),
    *("model_max_length", "max_seq_length", "do_lower_case"),
    # AutoTrain, FARM, unsloth, transformers.js, optimum
    *("padding", "truncation", "language", "name", "model_name", "label_smoothing", "unsloth_fixed", "unsloth_version"),
    *("transformers.js_config", "export_model_type"),
    # Google's models, TinyBERT
    *(*UNUSED_KEYS, "emb_size"),
    # fields of other families
    *("embedding_size", "num_hidden_groups", "inner_group_num", "type_vocab_size"),
)
_FIXED = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "position_embedding_type": ("absolute",),
    "pruned_heads": ({},),
    "layers_to_keep": ([],),
    "problem_type": tuple(_PROBLEM_TYPES),
    "adapters": ({}, {"adapters": {}, "config_map": {}, "fusion_config_map": {}, "fusions": {}}),
    # TinyBERT
    **{"cell": ({},), "structure": ([],), "pre_trained": ("",), "training": ("",)},
}
REFUSED = {
    **dict.fromkeys(
        ("quantization_config", "quantization"),
        "its weights are quantised. Save it dequantised, with the library that quantised it.",
    ),
    "auto_map": "the model is computed by code in its folder. Only the models of transformers itself are supported.",
    "peft_type": "the folder has an adapter only. Merge it into its base model (merge_and_unload), and save that.",
}
_USED = ("architectures", "model_type", "id2label", "pad_token_id", "sentence_transformers", SENTENCE_POOLING)
_USED = (*_USED, "sbert_ce_default_activation_function")


def config_from(path: str, values: Mapping) -> BertConfig:
    """Returns our config for the `config.json` in the folder `path`. Raises `InputError` for an unsupported setting."""
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
    with named(file):
        return BertConfig.from_dict({**defaults, **kept, **activations})


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


def fixed_values() -> dict[str, tuple]:
    """Returns the keys of a `config.json` of any family that have only certain values."""
    # Each class is read by the files of its tokenizer. Others cut texts by rules that no file says.
    named = (*WORD_PIECE_CLASSES, *BYTE_PAIR_CLASSES, *BYTE_FALLBACK_CLASSES, *SENTENCE_PIECE_CLASSES)
    named = (*named, "TransfoXL", "PreTrained")
    formats = [entry.hugging_face for entry in families(has=lambda entry: entry.hugging_face).values()]
    classes = [f"{name}Tokenizer" for name in dict.fromkeys([*named, *(theirs.classes for theirs in formats)])]
    classes += [f"{name}Fast" for name in classes]
    return {**_FIXED, "tokenizer_class": tuple(dict.fromkeys([*classes, *GENERIC_CLASSES]))}


def known_keys(family: Family) -> KnownKeys:
    """Returns the keys of the `config.json` of a family."""
    theirs = family.hugging_face
    absent = {"extra", *_NOT_THEIRS, *OWN_SIZES, *theirs.absent} - set(theirs.sizes)
    fields = dataclasses.fields(imported(family.config))
    return KnownKeys(
        used=(*(field.name for field in fields if field.name not in absent), *theirs.keys, *_USED, *theirs.more.used),
        harmless=(*HARMLESS, *theirs.more.harmless),
        fixed=fixed_values() | dict(theirs.more.fixed),
        refused={name: reason for name, reason in REFUSED.items() if name not in theirs.more.harmless}
        | dict(theirs.more.refused),
    )
