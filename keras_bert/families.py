"""BERT's relatives: their defaults, kinds of tokenizer and published sizes. Data, no models.

Reference: transformers, `models/{roberta,albert,distilbert,electra,mobilebert,modernbert}/configuration_*.py`, and the
papers named below.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

WORD_PIECE, BYTE_PAIR, SENTENCE_PIECE = "wordpiece", "byte_pair", "sentence_piece"
STREAM = "stream"  # words or characters
STATIC = "static"
TRANSFORMER_XL = "transfo-xl"


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        defaults: values of the config that all its published models share, where they differ from BERT's.
        tokenizer: `WORD_PIECE`, `BYTE_PAIR`, `SENTENCE_PIECE` or `STREAM`.
        pairs_need_segments: whether its models tell the two texts of a pair apart by segments only.
        masked_lm_act: activation of the masked-LM head; None: the config's `hidden_act`.
        pooler_is_masked_lm_head: whether the pooler of a task starts as the head of the masked LM.
        predicts_from_queries: whether tokens are predicted from a second stream, which does not know them (XLNet).
        config: import path of the config class.
        encoder: import path of the encoder class.
    """

    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: str = WORD_PIECE
    pairs_need_segments: bool = True
    masked_lm_act: str | None = None
    pooler_is_masked_lm_head: bool = False
    predicts_from_queries: bool = False
    config: str = "keras_bert.config.bert_config.BertConfig"
    encoder: str = "keras_bert.models.encoder.BertEncoder"


FAMILIES: dict[str, Family] = {
    "bert": Family(),
    # Liu et al., 2019.
    "roberta": Family(
        defaults={
            "vocab_size": 50265,
            "hidden_act": "gelu_erf",
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
            "do_lower_case": False,
            "position_offset": 2,
        },
        tokenizer=BYTE_PAIR,
        pairs_need_segments=False,
        masked_lm_act="gelu_erf",
    ),
    # Lan et al., 2019.
    "albert": Family(
        defaults={
            "vocab_size": 30000,
            "embedding_size": 128,
            "embedding_projection": True,
            "num_hidden_groups": 1,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        tokenizer=SENTENCE_PIECE,
    ),
    # Sanh et al., 2019.
    "distilbert": Family(
        defaults={"vocab_size": 30522, "hidden_act": "gelu_erf", "type_vocab_size": 0, "pooler_act": "relu"},
        pairs_need_segments=False,
    ),
    # Clark et al., 2020.
    "electra": Family(
        defaults={"vocab_size": 30522, "hidden_act": "gelu_erf", "pooler_act": "gelu_erf"},
        masked_lm_act="gelu_erf",
    ),
    # Beltagy et al., 2020.
    "longformer": Family(
        defaults={
            "vocab_size": 50265,
            "hidden_act": "gelu_erf",
            "max_position_embeddings": 4098,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
            "do_lower_case": False,
            "position_offset": 2,
        },
        tokenizer=BYTE_PAIR,
        pairs_need_segments=False,
        masked_lm_act="gelu_erf",
        config="keras_bert.config.long_config.LongConfig",
        encoder="keras_bert.models.long_encoder.LongEncoder",
    ),
    # Zaheer et al., 2020.
    "big_bird": Family(
        defaults={"vocab_size": 50358, "max_position_embeddings": 4096, "do_lower_case": False},
        tokenizer=SENTENCE_PIECE,
        config="keras_bert.config.long_config.LongConfig",
        encoder="keras_bert.models.long_encoder.LongEncoder",
    ),
    # Sun et al., 2020.
    "mobilebert": Family(
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
        config="keras_bert.config.mobile_bert_config.MobileBertConfig",
        encoder="keras_bert.models.mobile_bert_encoder.MobileBertEncoder",
    ),
    # Warner et al., 2024.
    "modernbert": Family(
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
        tokenizer=BYTE_PAIR,
        pairs_need_segments=False,
        pooler_is_masked_lm_head=True,
        config="keras_bert.config.modern_bert_config.ModernBertConfig",
        encoder="keras_bert.models.modern_bert_encoder.ModernBertEncoder",
    ),
    # Yang et al., 2019.
    "xlnet": Family(
        defaults={"vocab_size": 32000, "do_lower_case": False},
        tokenizer=SENTENCE_PIECE,
        predicts_from_queries=True,
        config="keras_bert.config.xlnet_config.XLNetConfig",
        encoder="keras_bert.models.xlnet_encoder.XLNetEncoder",
    ),
    # Dai et al., 2019. A language model: `encoder` is the whole model, and no task is built on it.
    TRANSFORMER_XL: Family(
        defaults={
            "vocab_size": 267735,
            "hidden_act": "relu",
            "attention_probs_dropout_prob": 0.0,
            "max_position_embeddings": 32_768,
            "type_vocab_size": 0,
            "layer_norm_eps": 1e-5,
            "do_lower_case": False,
        },
        tokenizer=STREAM,
        config="keras_bert.config.transformer_xl_config.TransformerXLConfig",
        encoder="keras_bert.models.transformer_xl.TransformerXL",
    ),
    # A vector for each token and no layers, so the sizes of layers mean nothing. Only `SentenceEncoder` computes it.
    STATIC: Family(
        defaults={
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "intermediate_size": 1,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "type_vocab_size": 0,
            "max_position_embeddings": 32_768,
        },
        encoder="keras_bert.models.static_encoder.StaticEncoder",
    ),
}


def _size(layers: int, width: int, heads: int, inner: int | None = None, **others) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": inner or 4 * width,
        **others,
    }


# Name -> family and shape.
SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "roberta-base": ("roberta", _size(12, 768, 12)),
    "roberta-large": ("roberta", _size(24, 1024, 16)),
    "albert-base": ("albert", _size(12, 768, 12)),
    "albert-large": ("albert", _size(24, 1024, 16)),
    "albert-xlarge": ("albert", _size(24, 2048, 16)),
    "albert-xxlarge": ("albert", _size(12, 4096, 64)),
    "distilbert-base": ("distilbert", _size(6, 768, 12)),
    "electra-small": ("electra", _size(12, 256, 4, embedding_size=128)),
    "electra-base": ("electra", _size(12, 768, 12)),
    "electra-large": ("electra", _size(24, 1024, 16)),
    "longformer-base": ("longformer", _size(12, 768, 12)),
    "longformer-large": ("longformer", _size(24, 1024, 16)),
    "bigbird-base": ("big_bird", _size(12, 768, 12)),
    "bigbird-large": ("big_bird", _size(24, 1024, 16)),
    "mobilebert": ("mobilebert", {"classifier_activation": False}),
    "xlnet-base": ("xlnet", _size(12, 768, 12)),
    "xlnet-large": ("xlnet", _size(24, 1024, 16)),
    "transformer-xl-wt103-base": (
        TRANSFORMER_XL,
        _size(16, 410, 10, 2100, cutoffs=[20000, 40000, 200000], mem_len=150),
    ),
    "transformer-xl-wt103-large": (
        TRANSFORMER_XL,
        _size(
            *(18, 1024, 16),
            cutoffs=[20000, 40000, 200000],
            div_val=4,
            proj_same_dim=True,
            mem_len=1600,
            clamp_len=1000,
            same_length=True,
        ),
    ),
    "transformer-xl-enwik8": (TRANSFORMER_XL, _size(12, 512, 8, vocab_size=204, mem_len=512)),
    "modernbert-base": ("modernbert", _size(22, 768, 12, 1152)),
    "modernbert-large": ("modernbert", _size(28, 1024, 16, 2624)),
}
