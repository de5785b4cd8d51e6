"""`text_features`: texts become the features that a model takes; what it cannot make is refused."""

import keras
import pytest
import tiny

from keras_bert import BertEncoder, InputError, SequenceClassifier, TokenClassifier, text_features

VOCABULARY = tiny.vocabulary("good film ##s a")  # good 5, film 6, ##s 7, a 8
CONFIG = tiny.config(VOCABULARY, hidden_size=8)
ENCODER = tiny.made(BertEncoder, CONFIG, VOCABULARY)


def listed(features):
    return {name: values.tolist() for name, values in features.items()}


def test_texts_and_pairs_become_rows_with_padding():
    assert listed(text_features(ENCODER, ["a", "good films"])) == {
        "input_ids": [[2, 8, 3, 0, 0], [2, 5, 6, 7, 3]],
        "input_mask": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]],
        "segment_ids": [[0] * 5] * 2,
    }
    pair = text_features(ENCODER, (["good"], ["a film"]), max_seq_length=5)
    assert pair["input_ids"].tolist() == [[2, 5, 3, 8, 3]]
    assert pair["segment_ids"].tolist() == [[0, 0, 0, 1, 1]]
    assert text_features(ENCODER, "a", width=4)["input_ids"].tolist() == [[2, 8, 3, 0]]


def test_a_model_of_one_segment_gets_no_segments():
    model = tiny.made(BertEncoder, CONFIG.replace(type_vocab_size=1), VOCABULARY)
    assert set(text_features(model, ["a"])) == set(model.feature_names) == {"input_ids", "input_mask"}


def test_labels_become_the_numbers_that_the_loss_reads():
    model = tiny.made(SequenceClassifier, CONFIG, VOCABULARY, labels=["bad", "fine"])
    assert text_features(model, ["a", "good"], ["fine", "bad"])["label_ids"].tolist() == [1, 0]
    tagger = tiny.made(TokenClassifier, CONFIG, VOCABULARY, ["O", "B"])
    found = text_features(tagger, [["a", "films"]], [["O", "B"]])
    assert found["label_ids"].tolist() == [[-1, 0, 1, -1, -1]]


@pytest.mark.parametrize(
    ("model", "arguments", "expected"),
    [
        (ENCODER, {"x": ["a"], "y": [0]}, "A BertEncoder has no labels"),
        (ENCODER, {"x": (["a"], ["a"], ["a"])}, r"a tuple \(texts, second_texts\). Received: 3 columns"),
        (ENCODER, {"x": ["a", 3]}, "Text 2 must be a string. Received: 3"),
        (ENCODER, {"x": []}, "there is no text"),
        (ENCODER, {"x": ["good films"], "width": 4}, "width must be a whole number of at least 5. Received: 4"),
        (ENCODER, {"x": ["a"], "width": 17}, "more than this model's 16 positions"),
        (keras.Sequential(), {"x": ["a"]}, "A Sequential has no vocabulary. Give the encoder"),
    ],
)
def test_what_cannot_be_made_is_refused(model, arguments, expected):
    with pytest.raises(InputError, match=expected):
        text_features(model, **arguments)
