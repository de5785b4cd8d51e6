"""Public functions name what is missing if they get an empty list."""

import numpy as np
import pytest
from tiny_checkpoints import CONFIG, VOCABULARY
from tiny_models import VOCABULARY as TINY
from tiny_models import make_model

from keras_bert import InputError, MaskedLM, SequenceClassifier
from keras_bert.embeddings.word_senses import cluster, nearest_neighbour_accuracy, project
from keras_bert.tasks.calibration import expected_calibration_error, fit_temperature
from keras_bert.tasks.embedding.scores import label_scores, pair_scores, retrieval_scores
from keras_bert.tasks.tagging.scores import entity_scores, tag_accuracy
from keras_bert.tasks.text_to_text.scores import bleu_signature, text_scores

NOTHING = np.zeros((0, 4), np.float32)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: project(NOTHING),
        lambda: cluster(NOTHING, 1),
        lambda: nearest_neighbour_accuracy(NOTHING, []),
        lambda: retrieval_scores([], []),
        lambda: pair_scores([], NOTHING),
        lambda: pair_scores([[], []], np.zeros((0, 2, 4), np.float32)),
        lambda: label_scores(NOTHING, []),
        lambda: tag_accuracy([], []),
        lambda: tag_accuracy([[]], [[]]),
        lambda: entity_scores([[]], [[]]),
        lambda: fit_temperature(NOTHING, np.zeros(0, int)),
        lambda: expected_calibration_error(np.zeros(0), np.zeros(0, bool)),
    ],
)
def test_nothing_to_score_is_said(ask):
    with pytest.raises(InputError, match="Received|nothing|need|0 and 0 came|These 0 examples"):
        ask()


@pytest.mark.parametrize("columns", [([], []), (["a"], [])])
def test_texts_without_targets_have_no_scores(columns):
    for function in (text_scores, bleu_signature):
        with pytest.raises(InputError, match=f"equally many, at least one. Received: {len(columns[0])} and 0"):
            function(*columns)


def test_no_text_has_no_explanation():
    model = MaskedLM(CONFIG)
    model.vocabulary = VOCABULARY
    with pytest.raises(InputError, match="There is nothing to explain: no text."):
        model.explain([])


@pytest.mark.parametrize(
    ("name", "num_columns", "shapes"),
    [
        ("classifier", 1, None),
        ("pairs", 2, None),
        ("windows", 1, None),
        ("tagger", 1, None),
        ("span", 2, None),
        ("choice", 2, None),
        ("masked words", 1, None),
        ("writer", 1, None),
        ("cross-encoder", 2, [(0,)]),
        ("cross-encoder", 3, [(0, 2)]),
        ("sentence encoder", 1, [(0, 5)]),
        ("sentence encoder", 2, [(0, 2, 5)]),
        ("sparse encoder", 1, [(0, len(TINY))]),
        ("sparse encoder", 2, [(0, len(TINY))] * 2),
        ("multi-vector encoder", 2, [(0,)]),
    ],
)
def test_no_text_has_no_answer(name, num_columns, shapes, without_graphs):
    model = make_model(name)
    for column in ([], np.array([], object), ()):
        found = model.predict(column if num_columns == 1 else (column,) * num_columns, verbose=0)
        if shapes is None:
            assert found == []
        else:
            assert [one.shape for one in (found if isinstance(found, tuple) else (found,))] == shapes


@pytest.mark.parametrize("name", ["cross-encoder", "multi-vector encoder"])
def test_no_text_is_ranked(name, without_graphs):
    assert make_model(name).rank("the fox", []) == []


def test_no_text_has_no_label_that_nobody_trained_on(without_graphs):
    model = SequenceClassifier(CONFIG, labels=["contradiction", "entailment"])
    model.vocabulary = VOCABULARY
    assert model.zero_shot([], ["a", "b"]) == model.zero_shot((text for text in ()), ["a", "b"]) == []
    with pytest.raises(InputError, match="labels must be names for all texts. Received: .*'a', 'b'.*, call zero_shot"):
        model.zero_shot(["the fox", "a"], [["a", "b"], ["c"]])
