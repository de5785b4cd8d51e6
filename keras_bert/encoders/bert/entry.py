"""BERT. Reference: Devlin et al., 2018, arXiv 1810.04805; google-research/bert."""

from keras_bert.checkpoints.family_formats import Google, HuggingFace, KerasHub
from keras_bert.checkpoints.weight_list import (
    CLS_PREDICTIONS,
    GOOGLE_PREDICTIONS,
    Weight,
    blocks,
    embeddings,
    masked_lm,
    next_sentence,
    pooler,
    projection,
)
from keras_bert.config import BertConfig
from keras_bert.registry import Family


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a BERT."""
    return [
        *embeddings(config, "bert", "bert"),
        *projection(config),
        *blocks(config, "bert.encoder.layer.*", google="bert/encoder/layer_*"),
        *pooler(config, "bert.pooler.dense", "bert/pooler/dense"),
        *masked_lm(config, CLS_PREDICTIONS, GOOGLE_PREDICTIONS),
        *next_sentence(config, "cls.seq_relationship"),
    ]


FAMILY = Family(
    hugging_face=HuggingFace(
        classes="Bert",
        prefix="bert",
        decoder_bias="cls.predictions.decoder.bias",
        decoder="BertLMHeadModel",
        defaults={"vocab_size": 30522},
    ),
    google=Google(),
    keras_hub=KerasHub(
        "BertBackbone",
        {"hidden_act": "gelu"},  # KerasHub always uses the tanh approximation of GELU.
        masked_lm_remark="KerasHub computes this head with the exact GELU; keras_bert uses the encoder's tanh GELU",
    ),
)
