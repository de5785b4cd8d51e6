"""GTE, whose files call it "new". Reference: Zhang et al., 2024, arXiv 2407.19669; Alibaba-NLP/new-impl; transformers,
`models/gte/`."""

import dataclasses

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import Reordered
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.encoders.rotary.config import RotaryConfig
from keras_bert.encoders.rotary.entries import ROTARY_KEYS, joined_as_stored, read_bases, rotary_family, rotary_files
from keras_bert.encoders.rotary.names import PARTS, rotary_weights
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import SENTENCE_PIECE, size

_NAMES = {
    "tokens": "embeddings.word_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}
_PARTS = {"qkv": "attention.qkv_proj", "attention_output": "attention.o_proj", "attention_norm": "attn_ln"}
_PARTS |= {"inner": "mlp.up_gate_proj", "output": "mlp.down_proj", "output_norm": "mlp_ln"}


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a GTE, in the form of its files or, not joined, in that of transformers' classes."""
    prefix, is_joined = config.family.hugging_face.prefix, config.joined_attention
    inner = config.intermediate_size
    # The files have the factor before the part with the activation.
    layouts = {"inner": Reordered(np.roll(np.arange(2 * inner), inner))} if is_joined else {}
    layers, parts = ("encoder.layer", _PARTS) if is_joined else ("layers", PARTS)
    norm = "norm" if is_joined else "layer_norm"
    head = ("lm_head.dense", f"lm_head.{norm}", "lm_head.decoder.bias", "lm_head.decoder")
    return rotary_weights(config, prefix, _NAMES, parts, head, layers, layouts)


_ENGLISH = {"vocab_size": 30528, "rope_factor": 2.0, "do_lower_case": True}

FAMILY = rotary_family(
    __name__,
    defaults={
        "vocab_size": 250048,
        "hidden_act": "gelu_erf",
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 8192,
        "type_vocab_size": 0,
        "do_lower_case": False,
        "norm_bias": True,
        "norm_place": "after",
        "final_norm": False,
        "layer_dropout": True,
        "attention_bias": True,
        "mlp_output_bias": True,
        "classifier_bias": True,
        "global_rope_theta": 20_000.0,
    },
    sizes={
        "gte-multilingual-base": size(12, 768, 12, type_vocab_size=1, rope_factor=8.0),
        "gte-base-en-v1.5": size(12, 768, 12, global_rope_theta=500_000.0, **_ENGLISH),
        "gte-large-en-v1.5": size(24, 1024, 16, global_rope_theta=160_000.0, type_vocab_size=2, **_ENGLISH),
    },
    tokenizer=SENTENCE_PIECE,
    pairs_need_segments=False,
    masked_lm_act="gelu_erf",
    hugging_face=rotary_files(
        "Gte",
        "gte",
        poolers={name: ("gte.pooler.dense",) for name in ("", form.CLASSIFIER)},
        defaults={"global_rope_theta": 160_000.0, "type_vocab_size": 1},
        more=KnownKeys(
            used=ROTARY_KEYS,
            harmless=("auto_map", "unpad_inputs", "use_memory_efficient_attention", "pack_qkv"),
            fixed={
                "layer_norm_type": ("layer_norm",),
                "position_embedding_type": ("rope",),
                "logn_attention_scale": (False,),
                "logn_attention_clip1": (False,),
            },
        ),
        read=lambda values, file: read_bases(values, file, scalings=("ntk",)),
        of_weights=joined_as_stored("joined_attention", "joined_mlp"),
    ),
)

# The files of Alibaba-NLP on the hub.
NEW = dataclasses.replace(
    FAMILY,
    sizes={},
    hugging_face=dataclasses.replace(
        FAMILY.hugging_face,
        classes="New",
        prefix="new",
        needs_code=True,
        poolers={name: ("new.pooler.dense",) for name in ("", form.CLASSIFIER)},
    ),
)
