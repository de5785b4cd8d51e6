"""ALBERT. Reference: Lan et al., 2019, arXiv 1909.11942; google-research/albert."""

from keras_bert.checkpoints.family_formats import HUB_EPSILON, OWN_SIZES, Google, HuggingFace, KerasHub
from keras_bert.checkpoints.weight_list import (
    GOOGLE_PREDICTIONS,
    Weight,
    block,
    embeddings,
    masked_lm,
    next_sentence,
    pooler,
    projection,
)
from keras_bert.config import BertConfig
from keras_bert.registry import SENTENCE_PIECE, Family, size

_PARTS = (
    "attention.query attention.key attention.value attention.dense attention.LayerNorm "
    "ffn ffn_output full_layer_layer_norm"
)
_GOOGLE_PARTS = (
    "attention_1/self/query attention_1/self/key attention_1/self/value attention_1/output/dense LayerNorm "
    "ffn_1/intermediate/dense ffn_1/intermediate/output/dense LayerNorm_1"
)
_PREDICTIONS = ("predictions.dense", "predictions.LayerNorm", "predictions.bias", "predictions.decoder")


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of an ALBERT. Other projects number groups of blocks, and blocks in each group."""
    projections = "encoder.embedding_hidden_mapping_in", "encoder/embedding_hidden_mapping_in"
    rows = [
        *embeddings(config, "albert", "bert"),
        *projection(config, f"albert.{projections[0]}", f"bert/{projections[1]}"),
    ]
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        rows += block(
            config,
            f"encoder/layer_{number}",
            f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}",
            _PARTS,
            f"bert/encoder/transformer/group_{group}/inner_group_{inner}",
            _GOOGLE_PARTS,
        )
    return [
        *rows,
        *pooler(config, "albert.pooler", "bert/pooler/dense"),
        *masked_lm(config, _PREDICTIONS, GOOGLE_PREDICTIONS),
        *next_sentence(config, "sop_classifier.classifier"),
    ]


FAMILY = Family(
    defaults={
        "vocab_size": 30000,
        "embedding_size": 128,
        "embedding_projection": True,
        "num_hidden_groups": 1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    sizes={
        "albert-base": size(12, 768, 12),
        "albert-large": size(24, 1024, 16),
        "albert-xlarge": size(24, 2048, 16),
        "albert-xxlarge": size(12, 4096, 64),
    },
    tokenizer=SENTENCE_PIECE,
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="Albert",
        prefix="albert",
        decoder_bias="predictions.decoder.bias",
        defaults={
            "embedding_size": 128,
            "hidden_size": 4096,
            "num_attention_heads": 64,
            "intermediate_size": 16384,
            "hidden_act": "gelu_new",
        },
        sizes=OWN_SIZES,
    ),
    google=Google(sign=r"bert/encoder/transformer/group_\d+/.*"),
    keras_hub=KerasHub("AlbertBackbone", {"hidden_act": "gelu"}, masked_lm_remark=HUB_EPSILON),
)
