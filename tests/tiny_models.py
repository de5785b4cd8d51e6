"""Tiny models of every task and family, with random weights: to be asked, exported, or trained on a batch."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import zlib

import keras
import numpy as np
import tiny
from tiny_families import VOCABULARIES as VOCABULARIES_OF_FAMILIES
from tiny_families import config as config_of_family

from keras_bert import (
    BertEncoder,
    BertPretrainer,
    CrossEncoder,
    MaskedLM,
    MultipleChoice,
    MultiVectorEncoder,
    SentenceClassifier,
    SentenceEncoder,
    SequenceClassifier,
    SpanClassifier,
    SparseEncoder,
    TextToText,
    TokenClassifier,
)
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.models.encoder_base import encoder_class
from keras_bert.serving import export

# Every lower-case word can be cut into pieces, so texts differ in their tokens like real texts.
VOCABULARY = tiny.vocabulary(
    *tiny.pieces(tiny.LETTERS + "0123456789"),
    "the of and ##ing ##ed ##er ##tion fox 中 文 и ##и м",
    *".,:;!?()[]'\"-/@#",
)
VOCABULARIES = {"bert": VOCABULARY, **VOCABULARIES_OF_FAMILIES}
# With large initial weights, answers differ from text to text.
CONFIG = tiny.config(VOCABULARY, num_hidden_layers=2, max_position_embeddings=48, initializer_range=0.4)
# News, code, a table, other scripts, accents, composed and decomposed, an emoji, control characters, too long a text.
TEXTS = [
    "The council of the city voted on Tuesday, 7 to 2, and the mayor signed at 10:45.",
    "for (i = 0; i < n; i++) total += price[i];  // sum",
    "Größe\tñandú\u00a0Ångström e\u0301te\u0301 ﬁnd",
    "中文和 English 混在一起。 Москва и мир, العربية, עברית",
    "\u200bzero\u0000width 👩‍🚀 http://example.org/?q=1#x",
    "fox " * 100,
    "x" * 300,
    "the",
    "",
]
SECOND_TEXTS = ["and the fox", "is it?", "中", "ok", "A " * 60, "fox", "walking", "of", "tested"]
MASKED_TEXTS = ["the [MASK] fox [MASK].", "[MASK]", "no mask of it", "a" + " b" * 60 + " [MASK]", "中[MASK]文"]
CHOICES = [["the fox", "and so on", "中文"], ["a", "walked " * 30, "?"], ["one", "two", "three"]]

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
# Models that only a SavedModel can hold.
NOT_PORTABLE = {
    "writer": (TextToText, {}),
    "sparse encoder": (SparseEncoder, {"static_queries": True, "prompts": {"query": "the fox "}, "max_seq_length": 30}),
    "multi-vector encoder": (
        MultiVectorEncoder,
        {
            "dense": [{"units": 8}],
            "normalize": False,
            "prompts": {"query": "the fox "},
            "query_expansion": {"length": 12},
            "skiplist_words": [",", "."],
        },
    ),
}
# Options of their exports.
OPTIONS = {
    "windows": {"max_seq_length": 20},
    "encoder": {"pooling": "max", "normalize": False},
    "writer": {"num_beams": 2, "max_new_tokens": 3},
}
# Name of an export as a SavedModel -> name of the model, options.
SAVED_MODELS = {
    "single": ("classifier", {}),
    "several": ("several labels", {"text_pairs": True}),
    "score": ("regression", {"max_seq_length": 20}),
    "choice": ("choice", {}),
    "masked": ("pretrainer", {"top_k": 3}),
    "encoder": ("encoder", {}),
    "sentence": ("sentence encoder", {}),
    "int8": ("classifier", {"weights": "int8"}),
    "bfloat16": ("classifier", {"dtype": "bfloat16"}),
    "tagger": ("tagger", {}),
    "answerer": ("span", {}),
}


def new_model(name: str, family: str = "bert", **changes):
    """Returns a new model of this name, with random weights that are always the same.

    `changes` are fields of the config of a family.
    """
    keras.utils.set_random_seed(1)
    model_class, arguments = (MODELS | NOT_PORTABLE)[name]
    # Four layers of a ModernBERT attend globally, locally, locally, globally.
    layers = {"num_hidden_layers": 4} if family == "modernbert" else {}
    config = CONFIG if family == "bert" else config_of_family(family, initializer_range=0.2, **{**layers, **changes})
    model_class = encoder_class(config) if name == "encoder" else model_class
    model = model_class(config, **arguments)
    model.vocabulary = VOCABULARIES[family]
    return model


@functools.lru_cache(maxsize=32)
def _kept(name: str, family: str, **changes):
    model = new_model(name, family, **changes)
    return model, _checksum(model)


def _checksum(model) -> int:
    return zlib.crc32(b"".join(weight.numpy().tobytes() for weight in model.weights))


def make_model(name: str, family: str = "bert", **changes):
    """Returns the model of this name, which tests share. A test that changes a model takes a `new_model`."""
    model, checksum = _kept(name, family, **changes)
    assert _checksum(model) == checksum, f"a test has changed the weights of {name!r} ({family}), which others share"
    return model


class Exports(dict):
    """Name -> folder of the SavedModel. A model is exported when its name is first looked up in any process.

    Args:
        models: name -> (model, options of its export).
        folder: the folder of the exports, which several processes may share.
    """

    def __init__(self, models: dict, folder):
        super().__init__()
        self._models, self._folder = models, pathlib.Path(folder)

    def __missing__(self, name: str) -> str:
        if not (self._folder / name).exists():
            model, options = self._models[name]
            own = self._folder / f"by process {os.getpid()}" / name
            model.export_for_serving(own, **options)
            with contextlib.suppress(OSError):  # another process was faster
                own.rename(self._folder / name)
        self[name] = str(self._folder / name / "1")
        return self[name]


def made_signatures(model, options):
    """Returns the signatures of a model as functions of their named inputs, without an export."""
    options = export._checked_options(model, SignatureOptions(**options))
    tokenizer = export.make_tokenizer(model.tokenizer)
    made = export.all_signatures(model, tokenizer, options)
    return {name: by_name(function) for name, function in made.items()}


def by_name(function):
    """Lets a signature take its inputs by their names in exports, and no others."""
    names = [spec.name for spec in function.input_signature]

    def call(**inputs):
        assert sorted(inputs) == sorted(names), f"{sorted(inputs)} given, {sorted(names)} expected"
        return function(*(inputs[name] for name in names))

    return call


# For models that are trained on random ids.
TRAINED_CONFIG = tiny.config(20, hidden_size=8, max_position_embeddings=8)
BATCH, LENGTH, PREDICTIONS, NUM_CHOICES = 4, 6, 2, 3
LABELS = ["a", "b", "c"]


def model_and_batch(kind: str):
    """Returns a model and its features, or a pair of features and labels: arrays, int32 and float32."""
    draw = np.random.default_rng(0)

    def ids(*shape, below=20):
        return draw.integers(0, below, shape).astype(np.int32)

    lead = (BATCH, NUM_CHOICES) if kind == "choice" else (BATCH,)
    x = {
        "input_ids": ids(*lead, LENGTH),
        "input_mask": np.ones((*lead, LENGTH), np.int32),
        "segment_ids": ids(*lead, LENGTH, below=2),
    }
    masked = {
        "masked_lm_positions": ids(BATCH, PREDICTIONS, below=LENGTH),
        "masked_lm_ids": ids(BATCH, PREDICTIONS),
        "masked_lm_weights": draw.integers(0, 2, (BATCH, PREDICTIONS)).astype(np.float32),
    }
    if kind == "pretrainer":
        return BertPretrainer(TRAINED_CONFIG), x | masked | {"next_sentence_labels": ids(BATCH, 1, below=2)}
    if kind == "packed":
        sequences = {
            "cls_positions": ids(BATCH, 2, below=LENGTH),
            "next_sentence_labels": ids(BATCH, 2, below=2),
            "next_sentence_weights": draw.integers(0, 2, (BATCH, 2)).astype(np.float32),
        }
        return BertPretrainer(TRAINED_CONFIG), x | masked | sequences
    if kind == "masked_lm":
        return MaskedLM(TRAINED_CONFIG), x | masked
    if kind == "classes":
        return SequenceClassifier(TRAINED_CONFIG, labels=LABELS), (x, ids(BATCH, below=3))
    if kind == "many":
        labels = ids(BATCH, 3, below=2).astype(np.float32)
        return SequenceClassifier(TRAINED_CONFIG, labels=LABELS, problem_type="multi_label"), (x, labels)
    if kind == "number":
        model = SequenceClassifier(TRAINED_CONFIG, labels=["score"], problem_type="regression")
        return model, (x, draw.random((BATCH, 1)).astype(np.float32))
    if kind == "tags":
        return TokenClassifier(TRAINED_CONFIG, labels=LABELS), (x, ids(BATCH, LENGTH, below=4) - 1)
    if kind == "span":
        return SpanClassifier(TRAINED_CONFIG), x | {
            "start_positions": ids(BATCH, below=LENGTH),
            "end_positions": ids(BATCH, below=LENGTH),
        }
    return MultipleChoice(TRAINED_CONFIG), (x, ids(BATCH, below=NUM_CHOICES))


def assert_same_answers(found, expected, tolerance: float = 1e-5) -> None:
    """Asserts that answers are objects of the same types and equal: numbers to a tolerance, everything else exactly."""
    assert type(found) is type(expected)
    if dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            assert_same_answers(getattr(found, field.name), getattr(expected, field.name), tolerance)
    elif isinstance(expected, (float, np.ndarray, np.floating)):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
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
