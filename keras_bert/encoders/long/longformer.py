"""Longformer. Reference: Beltagy et al., 2020, arXiv 2004.05150; transformers, `models/longformer/`."""

from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.weight_list import (
    LAYER,
    Weight,
    blocks,
    dense,
    embeddings,
    in_layers,
    masked_lm,
    pooler,
    projection,
)
from keras_bert.config import BertConfig
from keras_bert.encoders.roberta import DEFAULTS, LM_HEAD, heads_of
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import BYTE_PAIR, Family, size


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a Longformer: those of a RoBERTa, and the projections of global tokens."""
    layer, width = "longformer.encoder.layer.*", config.hidden_size
    rows = blocks(config, layer)
    for name in ("query_global", "key_global", "value_global"):
        of_global = dense(f"{LAYER}/attention/{name}", width, width, f"{layer}.attention.self.{name}")
        rows += in_layers(of_global, config.num_blocks)
    return [
        *embeddings(config, "longformer"),
        *projection(config),
        *rows,
        *pooler(config),
        *masked_lm(config, LM_HEAD),
    ]


FAMILY = Family(
    defaults={**DEFAULTS, "max_position_embeddings": 4098},
    sizes={"longformer-base": size(12, 768, 12), "longformer-large": size(24, 1024, 16)},
    tokenizer=BYTE_PAIR,
    pairs_need_segments=False,
    masked_lm_act="gelu_erf",
    extends="roberta",
    config="keras_bert.encoders.long.config.LongConfig",
    encoder="keras_bert.encoders.long.encoder.LongEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="Longformer",
        prefix="longformer",
        **heads_of("longformer"),
        defaults={"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
        more=KnownKeys(
            harmless=("onnx_export",),
            fixed={"attention_mode": ("longformer",), "ignore_attention_mask": (False,), "autoregressive": (False,)},
        ),
    ),
)
