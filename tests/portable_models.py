"""Tiny models of every task and family, with random weights, and the comparison of their answers."""

import dataclasses
import functools

import keras
import numpy as np
from served_models import CONFIG, VOCABULARY
from test_families_on_texts import VOCABULARIES as VOCABULARIES_OF_FAMILIES
from test_families_on_texts import config as config_of_family

from keras_bert import (
    BertConfig,
    BertEncoder,
    BertPretrainer,
    CrossEncoder,
    MaskedLM,
    MultipleChoice,
    SentenceClassifier,
    SentenceEncoder,
    SequenceClassifier,
    SpanClassifier,
    TokenClassifier,
    registry,
)
from keras_bert.encoders.modern_bert.config import ModernBertConfig
from keras_bert.models.encoders import encoder_class

VOCABULARIES = {"bert": VOCABULARY, **VOCABULARIES_OF_FAMILIES, "modernbert": VOCABULARIES_OF_FAMILIES["roberta"]}
POOLINGS = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
# Name -> class and arguments.
MODELS = {
    "classifier": (SequenceClassifier, {"labels": ["animal", "none", "größer"]}),
    "pairs": (SequenceClassifier, {"labels": ["a", "b"]}),
    "several labels": (SequenceClassifier, {"labels": ["a", "b", "c"], "problem_type": "multi_label"}),
    "regression": (SequenceClassifier, {"problem_type": "regression"}),
    "windows": (SequenceClassifier, {"labels": ["a", "b"], "doc_stride": 7}),
    "few-shot classifier": (SentenceClassifier, {"labels": ["a", "b"], "pooling": ["mean", "lasttoken"]}),
    "cross-encoder": (CrossEncoder, {"prompts": {"query": "the "}, "default_prompt": "query", "max_seq_length": 30}),
    "tagger": (TokenClassifier, {"labels": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], "doc_stride": 6}),
    "span": (SpanClassifier, {"null_threshold": 0.5, "doc_stride": 8, "max_query_length": 10}),
    "choice": (MultipleChoice, {}),
    "masked words": (MaskedLM, {}),
    "pretrainer": (BertPretrainer, {}),
    "sentence encoder": (
        SentenceEncoder,
        {
            "pooling": ["max", "cls"],
            "dense": [{"units": 5, "use_residual": True}],
            "prompts": {"query": "the fox "},
            "doc_stride": 5,
        },
    ),
    "all poolings": (SentenceEncoder, {"pooling": POOLINGS, "normalize": False, "max_seq_length": 24}),
    "first token": (SentenceEncoder, {"pooling": "cls"}),
    "encoder": (BertEncoder, {}),
}
# The options of their exports.
OPTIONS = {"windows": {"max_seq_length": 20}, "encoder": {"pooling": "max", "normalize": False}}


@functools.cache
def make_model(name: str, family: str = "bert"):
    """Returns the model of this name, with random weights. It is made once."""
    keras.utils.set_random_seed(1)
    model_class, arguments = MODELS[name]
    config = _config(family)
    model_class = encoder_class(config) if name == "encoder" else model_class
    model = model_class(config, **arguments)
    model.vocabulary = VOCABULARIES[family]
    return model


def _config(family: str) -> BertConfig:
    if family != "modernbert":
        return CONFIG if family == "bert" else config_of_family(family).replace(initializer_range=0.2)
    shape = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24}
    values = registry.family(family).defaults | {"vocab_size": len(VOCABULARIES[family]), "model_type": family} | shape
    return ModernBertConfig.from_dict(values | {"max_position_embeddings": 48, "initializer_range": 0.3})


def assert_same_answers(found, expected, tolerance: float = 1e-5) -> None:
    """Asserts that answers are equal: numbers to a tolerance, everything else exactly."""
    if dataclasses.is_dataclass(expected):
        assert type(found) is type(expected)
        for field in dataclasses.fields(expected):
            assert_same_answers(getattr(found, field.name), getattr(expected, field.name), tolerance)
    elif isinstance(expected, (float, np.ndarray, np.floating)):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert_same_answers(list(found.values()), list(expected.values()), tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_answers(one, other, tolerance)
    else:
        assert found == expected
