"""RoBERTa. Reference: Liu et al., 2019, arXiv 1907.11692; transformers, `models/roberta/`."""

from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import HuggingFace, KerasHub
from keras_bert.checkpoints.weight_list import Weight, blocks, embeddings, masked_lm, pooler, projection
from keras_bert.config import BertConfig
from keras_bert.registry import BYTE_PAIR, Family, size

# The names of the masked-LM head.
LM_HEAD = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder")
# Values of the config that Longformers have too.
DEFAULTS = {
    "vocab_size": 50265,
    "hidden_act": "gelu_erf",
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "do_lower_case": False,
    "position_offset": 2,
}


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a RoBERTa. Where transformers has the pooler depends on the head."""
    return [
        *embeddings(config, "roberta", one_hub_layer=True),
        *projection(config),
        *blocks(config, "roberta.encoder.layer.*"),
        *pooler(config, in_backbone=False),
        *masked_lm(config, LM_HEAD),
    ]


def heads_of(prefix: str) -> dict[str, Any]:
    """Returns the arguments of `HuggingFace` about the heads, for a family whose encoder has this prefix."""
    return {
        "poolers": {"": (f"{prefix}.pooler.dense",), form.CLASSIFIER: ("classifier.dense",)},
        "outputs": {form.CLASSIFIER: "classifier.out_proj"},
        "decoder_bias": "lm_head.decoder.bias",
    }


FAMILY = Family(
    defaults=DEFAULTS,
    sizes={"roberta-base": size(12, 768, 12), "roberta-large": size(24, 1024, 16)},
    tokenizer=BYTE_PAIR,
    pairs_need_segments=False,
    masked_lm_act="gelu_erf",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="Roberta",
        prefix="roberta",
        **heads_of("roberta"),
        defaults={"vocab_size": 50265, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    ),
    keras_hub=KerasHub("RobertaBackbone", {"hidden_act": "gelu_erf"}, has_segments=False, has_pooler=False),
)
