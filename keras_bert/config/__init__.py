"""The configs of all model families, as written in `bert_config.json`.

bert_config.py         BertConfig: BERT, the families that differ from it by values only, and the published sizes
signature_options.py   the options that decide the signatures of an export
"""

from keras_bert.config.bert_config import (
    HIDDEN_ACTIVATIONS,
    POOLER_ACTIVATIONS,
    POOLINGS,
    SENTENCE_POOLING,
    SIZES,
    BertConfig,
    config_class,
)

__all__ = [
    "HIDDEN_ACTIVATIONS",
    "POOLER_ACTIVATIONS",
    "POOLINGS",
    "SENTENCE_POOLING",
    "SIZES",
    "BertConfig",
    "config_class",
]
