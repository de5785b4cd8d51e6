"""RoBERTa and DistilBERT on texts: trained, asked, saved, loaded, exported. The answers of the export are `predict`'s."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    BertConfig,
    BytePairTokenizer,
    InputError,
    MaskedLM,
    MultipleChoice,
    SequenceClassifier,
    SpanClassifier,
    TokenClassifier,
    Vocabulary,
    fill_masks,
    load_vocabulary,
)
from keras_bert.families import FAMILIES
from keras_bert.models.encoder import BertEncoder
from keras_bert.tasks.classification.rows import encode_texts
from keras_bert.tasks.question_answering.rows import WindowOptions, make_windows
from keras_bert.tokenization.byte_pair import byte_alphabet
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("f", "o"), ("fo", "x"), ("Ġ", "fox"), ("d", "o"), ("do", "g"), ("Ġ", "dog")]
TEXTS = ["the fox", "a dog, the dog", "fox fox the fox", "dog"]
LABELS = ["fox", "dog", "fox", "dog"]


def byte_pairs(**settings) -> BytePairTokenizer:
    tokens = [*SPECIAL, *byte_alphabet(), *(left + right for left, right in MERGES)]
    return BytePairTokenizer({token: number for number, token in enumerate(tokens)}, MERGES, **settings)


def word_pieces() -> Vocabulary:
    return Vocabulary([*SPECIAL_TOKENS, "the", "a", "fox", "dog", ",", "##es", "who", "?"])


VOCABULARIES = {"roberta": byte_pairs(), "distilbert": word_pieces(), "electra": word_pieces()}


def config(family: str) -> BertConfig:
    values = {**FAMILIES[family].defaults, "vocab_size": len(VOCABULARIES[family]), "model_type": family}
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(**values | shape | {"max_position_embeddings": 40, "initializer_range": 0.3})


def new(model_class, family: str, **arguments):
    model = model_class(config(family), **arguments)
    model.vocabulary = VOCABULARIES[family]
    return model


def exported(model, folder, **options):
    return tf.saved_model.load(model.export_for_serving(folder, **options)).signatures


@pytest.fixture(params=["roberta", "distilbert"])
def family(request):
    return request.param


def test_a_pair_has_the_special_tokens_of_its_family():
    tokenizer = byte_pairs().graph()
    rows, is_cut = encode_texts(["the", "fox fox fox"], ["dog", "the dog"], tokenizer, 9)
    assert [[tokenizer.vocabulary.tokens[number] for number in row] for row in rows["input_ids"]] == [
        ["<s>", "the", "</s>", "</s>", "do" + "g", "</s>", "<pad>", "<pad>", "<pad>"],
        ["<s>", "fo" + "x", "Ġfox", "Ġfox", "</s>", "</s>", "the", "Ġdog", "</s>"],
    ]
    assert rows["input_mask"].sum(axis=1).tolist() == [6, 9]
    assert is_cut.tolist() == [False, False]


def test_windows_of_a_context_have_two_separators():
    options = WindowOptions(8, 2, 3, num_special=4)
    windows = make_windows(["fox"], ["the dog the dog"], byte_pairs().graph(), options)
    tokens = byte_pairs().tokens
    assert [[tokens[number] for number in row[mask > 0]] for row, mask in zip(windows.rows["input_ids"], windows.rows["input_mask"], strict=True)] == [
        ["<s>", "fox", "</s>", "</s>", "the", "Ġdog", "Ġthe", "</s>"],
        ["<s>", "fox", "</s>", "</s>", "Ġthe", "Ġdog", "</s>"],
    ]
    assert windows.first_column.tolist() == [4, 4]


def test_a_classifier_of_pairs(family, tmp_path):
    model = new(SequenceClassifier, family, labels=["dog", "fox"])
    model.fit((TEXTS, TEXTS[::-1]), LABELS, epochs=1, batch_size=2, verbose=0)
    answers = model.predict((TEXTS, TEXTS[::-1]))
    model.save_pretrained(tmp_path / "model")
    again = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert again.vocabulary.sha256 == model.vocabulary.sha256
    served = exported(again, tmp_path / "export", text_pairs=True)["serving_default"]
    found = served(text=tf.constant(TEXTS), text_b=tf.constant(TEXTS[::-1]))
    assert found["label"].numpy().astype(str).tolist() == [answer.label for answer in answers]
    np.testing.assert_allclose(
        found["probability"].numpy(), [answer.probability for answer in answers], atol=1e-5
    )
