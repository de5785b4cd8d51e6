"""EuroBERT. Reference: Boizard et al., 2025, arXiv 2503.05500; transformers, `models/eurobert/`."""

from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.encoders.rotary.config import CLS, RotaryConfig
from keras_bert.encoders.rotary.entries import (
    ROTARY_KEYS,
    bases_of_config,
    read_bases,
    rotary_family,
    rotary_files,
    without_keys,
)
from keras_bert.encoders.rotary.names import PARTS, rotary_weights
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import BYTE_PAIR, size

_PARTS = PARTS | {"attention_norm": "input_layernorm", "output_norm": "post_attention_layernorm"}
# The pooling of a classifier that reads the first token, in their words.
_FIRST = "bos"


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a EuroBERT. Its masked-LM head is a table only."""
    names = {"tokens": "embed_tokens", "final_norm": "norm"}
    return rotary_weights(config, "model", names, _PARTS, ("", "", "lm_head.bias", "lm_head"))


def _of_theirs(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    values = read_bases(values, file)
    pooling = values.pop("clf_pooling", None) or values.get("classifier_pooling") or "late"
    pooling = CLS if pooling == _FIRST else pooling
    return {**values, "classifier_pooling": pooling, "masked_lm_bias": bool(values.get("mlp_bias", False))}


def _to_theirs(values: Mapping[str, Any], checkpoint: form.BertCheckpoint) -> dict[str, Any]:
    config = checkpoint.config
    pooling = _FIRST if config.classifier_pooling == CLS else config.classifier_pooling
    return without_keys(values) | {"classifier_pooling": pooling} | bases_of_config(config)


FAMILY = rotary_family(
    __name__,
    defaults={
        "vocab_size": 128256,
        "hidden_act": "silu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 8192,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "do_lower_case": False,
        "pooler_act": "gelu_erf",
        "tie_word_embeddings": False,
        "classifier_pooling": "late",
        "norm": "rms_norm",
        "embedding_norm": False,
        "joined_attention": False,
        "joined_mlp": False,
        "masked_lm_transform": False,
        "masked_lm_bias": False,
        "global_rope_theta": 250_000.0,
    },
    sizes={
        "eurobert-210m": size(12, 768, 12),
        "eurobert-610m": size(26, 1152, 18, 4096, num_key_value_heads=6),
        "eurobert-2.1b": size(32, 2304, 18, 6144, num_key_value_heads=6),
    },
    tokenizer=BYTE_PAIR,
    pairs_need_segments=False,
    hugging_face=rotary_files(
        "EuroBert",
        "model",
        poolers={form.CLASSIFIER: ("dense",)},
        keys={"rms_norm_eps": "layer_norm_eps", "attention_dropout": "attention_probs_dropout_prob"},
        more=KnownKeys(
            used=(*ROTARY_KEYS, "clf_pooling"),
            harmless=("auto_map", "hidden_dropout"),
            fixed={"pretraining_tp": (1,), "is_causal": (False,)},
        ),
        fields=("attention_bias", "mlp_bias", "num_key_value_heads", "head_dim", "classifier_pooling"),
        meaningless=("type_vocab_size", "hidden_dropout_prob"),
        read=_of_theirs,
        write=_to_theirs,
    ),
)
