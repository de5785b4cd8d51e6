"""MobileBERT. Reference: Sun et al., 2020, arXiv 2004.02984; transformers, `models/mobilebert/`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.name_table import TRANSPOSED
from keras_bert.checkpoints.weight_list import (
    LAYER,
    POOLER,
    Weight,
    dense,
    embeddings,
    in_layers,
    layer_norm,
    masked_lm,
    next_sentence,
    only_in_files,
)
from keras_bert.config import BertConfig
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import Family


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a MobileBERT."""
    width, transformed = config.hidden_size, "mobilebert.embeddings.embedding_transformation"
    pooler = dense(POOLER, width, width, "mobilebert.pooler.dense")
    extra_table = (config.vocab_size, config.extra_output_size)
    return [
        *embeddings(config, "mobilebert", width=width),
        *dense("encoder/embeddings/transformation", 3 * config.embedding_size, width, transformed),
        *in_layers(_layer(config), config.num_hidden_layers),
        *(pooler if config.classifier_activation else only_in_files(pooler)),
        *masked_lm(config),
        Weight(
            *(form.EXTRA_OUTPUT_EMBEDDINGS, extra_table, "cls.predictions.dense.weight"),
            hugging_face_layout=TRANSPOSED,
        ),
        *next_sentence(config, "cls.seq_relationship"),
    ]


def _layer(config: BertConfig) -> list[Weight]:
    width, narrow, inner = config.hidden_size, config.intra_bottleneck_size, config.intermediate_size
    layer, rows, shares = "mobilebert.encoder.layer.*", [], config.key_query_shared_bottleneck
    for ours, theirs in (("input", "input"), ("shared", "attention")):
        bottleneck = [
            *dense(f"{LAYER}/{ours}_bottleneck", width, narrow, f"{layer}.bottleneck.{theirs}.dense"),
            *layer_norm(f"{LAYER}/{ours}_layer_norm", narrow, f"{layer}.bottleneck.{theirs}.LayerNorm"),
        ]
        rows += bottleneck if shares or ours == "input" else only_in_files(bottleneck)
    for part in ("query", "key", "value"):
        inputs = width if part == "value" and shares else narrow
        rows += dense(f"{LAYER}/attention/{part}", inputs, narrow, f"{layer}.attention.self.{part}")
    rows += dense(f"{LAYER}/attention/output_dense", narrow, narrow, f"{layer}.attention.output.dense")
    rows += layer_norm(f"{LAYER}/attention_layer_norm", narrow, f"{layer}.attention.output.LayerNorm")
    for net in range(config.num_feedforward_networks):
        theirs = layer if net == config.num_feedforward_networks - 1 else f"{layer}.ffn.{net}"
        rows += dense(f"{LAYER}/intermediate_dense_{net}", narrow, inner, f"{theirs}.intermediate.dense")
        rows += dense(f"{LAYER}/output_dense_{net}", inner, narrow, f"{theirs}.output.dense")
        rows += layer_norm(f"{LAYER}/output_layer_norm_{net}", narrow, f"{theirs}.output.LayerNorm")
    rows += dense(f"{LAYER}/output_bottleneck", narrow, width, f"{layer}.output.bottleneck.dense")
    rows += layer_norm(f"{LAYER}/output_bottleneck_layer_norm", width, f"{layer}.output.bottleneck.LayerNorm")
    return rows


FAMILY = Family(
    defaults={
        "vocab_size": 30522,
        "hidden_size": 512,
        "num_hidden_layers": 24,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.0,
        "embedding_size": 128,
    },
    sizes={"mobilebert": {"classifier_activation": False}},
    config="keras_bert.encoders.mobile_bert.config.MobileBertConfig",
    encoder="keras_bert.encoders.mobile_bert.encoder.MobileBertEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="MobileBert",
        prefix="mobilebert",
        decoder_bias="cls.predictions.decoder.bias",
        more=KnownKeys(harmless=("true_hidden_size",), fixed={"trigram_input": (True,), "use_bottleneck": (True,)}),
        sizes=("embedding_size",),
    ),
)
