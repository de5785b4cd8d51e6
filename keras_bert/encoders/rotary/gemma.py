"""Gemma 3 with attention in both directions, such as EmbeddingGemma. Reference: Vera et al., 2025, arXiv 2509.20354;
google-deepmind/gemma; transformers, `models/gemma3/`."""

from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.encoders.rotary.config import GLOBAL, LOCAL, RotaryConfig
from keras_bert.encoders.rotary.entries import (
    KINDS,
    ROTARY_KEYS,
    global_period,
    read_bases,
    rotary_family,
    rotary_files,
    without_keys,
)
from keras_bert.encoders.rotary.names import PARTS, rotary_weights
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import SENTENCE_PIECE, size

_PARTS = PARTS | {
    "attention_norm": "input_layernorm",
    "attention_output_norm": "post_attention_layernorm",
    "output_norm": "pre_feedforward_layernorm",
    "output_output_norm": "post_feedforward_layernorm",
    "query_norm": "self_attn.q_norm",
    "key_norm": "self_attn.k_norm",
}
_PERIOD = 6


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a Gemma."""
    names = {"tokens": "embed_tokens", "final_norm": "norm"}
    return rotary_weights(config, "model", names, _PARTS, ("", "", "", ""))


def _of_theirs(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    values = read_bases(values, file, (GLOBAL, LOCAL))
    if not values.pop("use_bidirectional_attention", False):
        raise InputError(
            f"{file} has no use_bidirectional_attention, so tokens attend to earlier ones only. Use a Gemma that "
            "attends in both directions, such as EmbeddingGemma."
        )
    # Files of version 4 have one base of all layers, or this one for local layers.
    local = values.pop("rope_local_base_freq", None)
    values["local_rope_theta"] = local if local is not None else values.get("local_rope_theta", 10_000.0)
    kinds = member(values, "layer_types", list, file)
    patterns = (values.pop(name, None) for name in ("sliding_window_pattern", "_sliding_window_pattern"))
    given = next((pattern for pattern in patterns if pattern is not None), _PERIOD)
    period = given if kinds is None else global_period(kinds, values.get("num_hidden_layers"), file, first=False)
    window = values.pop("sliding_window", 4096)
    return {**values, "global_attn_every_n_layers": period, "local_attention": window}


def _to_theirs(values: Mapping[str, Any], checkpoint: form.BertCheckpoint) -> dict[str, Any]:
    config = checkpoint.config
    bases = {GLOBAL: config.global_rope_theta, LOCAL: config.local_rope_theta}
    activation = {"gelu_new": "gelu_pytorch_tanh"}.get(values["hidden_act"], values["hidden_act"])
    return without_keys(values) | {
        "hidden_act": activation,
        "num_key_value_heads": config.key_value_heads,
        "head_dim": config.head_size,
        "query_pre_attn_scalar": config.query_pre_attn_scalar or config.head_size,
        "sliding_window": config.local_attention,
        "layer_types": [KINDS[kind] for kind in config.layer_kinds],
        "rope_parameters": {KINDS[kind]: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        "use_bidirectional_attention": True,
    }


_NO_HEADS = "Gemma 3 has no such head"

FAMILY = rotary_family(
    __name__,
    defaults={
        "vocab_size": 262144,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 2048,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-6,
        "do_lower_case": False,
        "norm": "rms_norm_plus_1",
        "norm_place": "around",
        "embedding_norm": False,
        "scaled_embeddings": True,
        "query_key_norm": True,
        "joined_attention": False,
        "joined_mlp": False,
        "classifier_bias": True,
        "global_attn_every_n_layers": _PERIOD,
        "global_layer": "last",
        "global_rope_theta": 1_000_000.0,
        "local_rope_theta": 10_000.0,
        "local_attention": 512,
    },
    sizes={
        "embeddinggemma-300m": size(24, 768, 3, 1152, num_key_value_heads=1, head_dim=256, query_pre_attn_scalar=256),
    },
    tokenizer=SENTENCE_PIECE,
    pairs_need_segments=False,
    masked_lm_act="gelu",
    hugging_face=rotary_files(
        "Gemma3Text",
        "model",
        refused_heads=dict.fromkeys((form.MASKED_LM, form.CLASSIFIER), _NO_HEADS),
        keys={
            "hidden_activation": "hidden_act",
            "rms_norm_eps": "layer_norm_eps",
            "attention_dropout": "attention_probs_dropout_prob",
        },
        defaults={
            **{"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26},
            **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256},
            **{"max_position_embeddings": 131072, "hidden_act": "gelu_pytorch_tanh"},
        },
        more=KnownKeys(
            used=(
                *(*ROTARY_KEYS, "rope_local_base_freq", "use_bidirectional_attention", "layer_types"),
                *("sliding_window", "sliding_window_pattern", "_sliding_window_pattern"),
            ),
            harmless=("cache_implementation",),
            fixed={"attn_logit_softcapping": (), "final_logit_softcapping": ()},
        ),
        fields=("attention_bias", "num_key_value_heads", "head_dim", "query_pre_attn_scalar"),
        meaningless=("type_vocab_size", "hidden_dropout_prob"),
        read=_of_theirs,
        write=_to_theirs,
    ),
)
