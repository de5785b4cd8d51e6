"""NeoBERT. Reference: Le Breton et al., 2025, arXiv 2502.19587; chandar-lab/NeoBERT, `model.py` on the hub."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import Reordered
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.encoders.rotary.config import RotaryConfig
from keras_bert.encoders.rotary.entries import rotary_family, rotary_files, without_keys
from keras_bert.encoders.rotary.names import rotary_weights
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import size

_PARTS = {"qkv": "qkv", "attention_output": "wo", "attention_norm": "attention_norm"}
_PARTS |= {"inner": "ffn.w12", "output": "ffn.w3", "output_norm": "ffn_norm"}
# The width of feed-forward parts is 2/3 of the `intermediate_size` in files, rounded up to a multiple of this number.
_MULTIPLE = 8
_CODE = "chandar-lab/NeoBERT--model"


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a NeoBERT. Its masked-LM head is a table with a bias."""
    names = {"tokens": "encoder", "final_norm": "layer_norm"}
    layouts = {"qkv": Reordered(_order_of_heads(config.num_attention_heads, config.head_size))}
    head = ("", "", "decoder.bias", "decoder")
    return rotary_weights(config, "model", names, _PARTS, head, "transformer_encoder", layouts)


def _order_of_heads(num_heads: int, head_size: int) -> np.ndarray:
    """Returns the number there of each query, key and value component here, int `[3 N D]`.

    There, each head has its query, key and value one after the other, and the pairs that are rotated are neighbours.
    Here all queries come first, and the second halves of the pairs stand behind the first ones. Scores are the same.
    """
    pairs = np.arange(head_size).reshape(-1, 2).T.reshape(-1)  # 0, 2, 4, ..., 1, 3, 5, ...
    columns = np.stack([pairs, head_size + pairs, 2 * head_size + np.arange(head_size)])  # [3, D]
    return (columns[:, None] + 3 * head_size * np.arange(num_heads)[:, None]).reshape(-1)


def _of_theirs(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    wide = member(values, "intermediate_size", int, file, 3072)
    inner = -(-int(2 * wide / 3) // _MULTIPLE) * _MULTIPLE
    width, heads = (member(values, name, int, file, default) for name, default in _SIZES.items())
    if values.get("dim_head") not in (None, width // max(heads, 1)):
        raise InputError(f"{file}: dim_head must be {width // max(heads, 1)}, as the other sizes say.")
    return {name: value for name, value in values.items() if name != "dim_head"} | {"intermediate_size": inner}


def _to_theirs(values: Mapping[str, Any], checkpoint: form.BertCheckpoint) -> dict[str, Any]:
    inner = checkpoint.config.intermediate_size
    if inner % _MULTIPLE:
        raise InputError(
            f"{checkpoint.path}: NeoBERTs have intermediate_size a multiple of {_MULTIPLE}. Received: {inner}. Write "
            "it with format='keras_bert'."
        )
    classes = {"AutoConfig": "NeoBERTConfig", "AutoModel": "NeoBERT", "AutoModelForMaskedLM": "NeoBERTLMHead"}
    classes["AutoModelForSequenceClassification"] = "NeoBERTForSequenceClassification"
    return without_keys(values, "use_cache", "classifier_dropout") | {
        "intermediate_size": 3 * inner // 2,
        "auto_map": {name: f"{_CODE}.{class_name}" for name, class_name in classes.items()},
    }


_SIZES = {"hidden_size": 768, "num_attention_heads": 12}

FAMILY = rotary_family(
    __name__,
    defaults={
        "vocab_size": 30522,
        "hidden_act": "silu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 4096,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "norm": "rms_norm",
        "embedding_norm": False,
        "masked_lm_transform": False,
        "global_rope_theta": 10_000.0,
    },
    sizes={"neobert": size(28, 768, 12, 2048)},
    pairs_need_segments=False,
    hugging_face=rotary_files(
        "NeoBERT",
        "model",
        needs_code=True,
        poolers={form.CLASSIFIER: ("dense",)},
        renamed={"ForMaskedLM": "LMHead"},
        keys={"norm_eps": "layer_norm_eps", "max_length": "max_position_embeddings"},
        defaults={
            "hidden_act": "silu",
            "num_hidden_layers": 28,
            "layer_norm_eps": 1e-6,
            "max_position_embeddings": 1024,
        },
        more=KnownKeys(
            used=("dim_head",),
            harmless=(
                *("auto_map", "kwargs", "embedding_init_range", "encoder_init_range", "decoder_init_range"),
                # of the training code: dropout, and what attends how fast
                *("classifier_init_range", "dropout", "flash_attention", "attn_backend", "kernel_backend"),
                "base_scale",
            ),
            fixed={
                "tie_word_embeddings": (False,),
                "hidden_act": ("silu", "swiglu", "SwiGLU"),
                **{"rms_norm": (True,), "rope": (True,), "ngpt": (False,)},
            },
        ),
        meaningless=(
            *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"),
            "type_vocab_size",
        ),
        read=_of_theirs,
        write=_to_theirs,
    ),
)
