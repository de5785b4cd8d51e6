"""ModernBERT and mmBERT. Reference: Warner et al., 2024, arXiv 2412.13663; transformers, `models/modernbert/`."""

from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import EVERY_HEAD, HuggingFace
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.encoders.rotary.config import COLUMNS, GLOBAL, LOCAL, ModernBertConfig
from keras_bert.encoders.rotary.entries import global_period, read_bases, without_keys
from keras_bert.encoders.rotary.names import rotary_weights
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import BYTE_PAIR, Family, size

_RENAMED = ("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps")
_NAMES = {"tokens": "embeddings.tok_embeddings", "embedding_norm": "embeddings.norm", "final_norm": "final_norm"}
_PARTS = {"attention_norm": "attn_norm", "qkv": "attn.Wqkv", "attention_output": "attn.Wo"}
_PARTS |= {"output_norm": "mlp_norm", "inner": "mlp.Wi", "output": "mlp.Wo"}


def weights(config: ModernBertConfig) -> list[Weight]:
    """Returns the weights of a ModernBERT. Its first layer has no LayerNorm before the attention."""
    return rotary_weights(config, "model", _NAMES, _PARTS, ("head.dense", "head.norm", "decoder.bias", "decoder"))


def _of_theirs(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    values = read_bases(values, file, (GLOBAL, LOCAL))
    kinds = member(values, "layer_types", list, file)
    if kinds is not None:
        values["global_attn_every_n_layers"] = global_period(kinds, values.get("num_hidden_layers"), file, first=True)
    if "local_rope_theta" in values and values["local_rope_theta"] is None:  # as in version 4
        values["local_rope_theta"] = values.get("global_rope_theta")
    return values


def _to_theirs(values: Mapping[str, Any], checkpoint: form.BertCheckpoint) -> dict[str, Any]:
    kept = without_keys(values, "use_cache", "classifier_dropout")
    kept["decoder_bias"] = True
    vocabulary = checkpoint.vocabulary
    if vocabulary is not None:
        first, last = vocabulary.cls_id, vocabulary.sep_id
        kept |= {"cls_token_id": first, "bos_token_id": first, "sep_token_id": last, "eos_token_id": last}
    return kept


_MULTILINGUAL = {"vocab_size": 256000, "local_rope_theta": 160_000.0}

FAMILY = Family(
    defaults={
        "vocab_size": 50368,
        "hidden_act": "gelu_erf",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 8192,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "do_lower_case": False,
        "pooler_act": "gelu_erf",
    },
    sizes={
        "modernbert-base": size(22, 768, 12, 1152),
        "modernbert-large": size(28, 1024, 16, 2624),
        "mmbert-small": size(22, 384, 6, 1152, **_MULTILINGUAL),
        "mmbert-base": size(22, 768, 12, 1152, **_MULTILINGUAL),
    },
    tokenizer=BYTE_PAIR,
    pairs_need_segments=False,
    pooler_is_masked_lm_head=True,
    config="keras_bert.encoders.rotary.config.ModernBertConfig",
    encoder="keras_bert.encoders.rotary.encoder.ModernBertEncoder",
    onnx="keras_bert.encoders.rotary.onnx.OnnxRotaryEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="ModernBert",
        prefix="model",
        poolers={EVERY_HEAD: ("head.dense", "head.norm")},
        outputs={EVERY_HEAD: "classifier"},
        pooler_act_heads=None,
        keys={
            "hidden_activation": "hidden_act",
            "classifier_activation": "pooler_act",
            "norm_eps": "layer_norm_eps",
            "classifier_dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
        },
        defaults={"num_hidden_layers": 22, "intermediate_size": 1152, "pooler_act": "gelu"},
        more=KnownKeys(
            used=("layer_types", "rope_parameters", "rope_scaling"),
            harmless=(
                *("initializer_cutoff_factor", "deterministic_flash_attn", "reference_compile"),
                *("repad_logits_with_grad", "sparse_prediction", "sparse_pred_ignore_index", *_RENAMED),
            ),
            # What its training code writes; all of its models have rotary positions.
            fixed={"decoder_bias": (True,), "position_embedding_type": ("absolute", "sans_pos", "rope")},
        ),
        absent=(*_RENAMED, "type_vocab_size", *COLUMNS),
        read=_of_theirs,
        write=_to_theirs,
    ),
)
