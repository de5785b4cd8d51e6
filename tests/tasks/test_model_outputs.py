"""Neither outputs that are no numbers nor empty lists have scores; a model that scores all alike gets no marks."""

import numpy as np
import pytest
import tiny
from tiny_checkpoints import CONFIG, VOCABULARY
from tiny_models import VOCABULARY as TINY
from tiny_models import make_model

from keras_bert import BertEncoder, CrossEncoder, InputError, MaskedLM, MultipleChoice, SentenceEncoder
from keras_bert.embeddings.hard_negatives import mine_hard_negatives
from keras_bert.embeddings.summarization import summarize
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.embeddings.vector_maps import project
from keras_bert.embeddings.word_senses import cluster
from keras_bert.tasks.base import text_task
from keras_bert.tasks.calibration import expected_calibration_error, fit_temperature
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.scores import label_scores, pair_scores, retrieval_scores
from keras_bert.tasks.masked_lm.mask_filling import score_masks
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.sparse.model import SparseEncoder
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tasks.tagging.scores import entity_scores, tag_accuracy
from keras_bert.tasks.text_to_text.model import TextToText
from keras_bert.tasks.text_to_text.scores import bleu_signature, text_scores
from keras_bert.training.fine_tuning import FineTuningOptions, _evaluation

pytestmark = pytest.mark.usefixtures("without_graphs")

ONE, TWO, THREE = ["quick fox", "the brown fox", "fox"], ["brown", "the", "quick"], ["the fox"] * 3
DATA = {
    SequenceClassifier: (ONE, ["a", "b", "a"]),
    CrossEncoder: ((ONE, TWO, THREE), None),
    SentenceEncoder: ((ONE, TWO), None),
    SparseEncoder: ((ONE, TWO), None),
    MultipleChoice: ((ONE, [["the", "fox"]] * 3), [0, 0, 0]),
    TokenClassifier: ([text.split() for text in ONE], [["a"] * len(text.split()) for text in ONE]),
    SpanClassifier: ((TWO, ONE), [[], [], []]),
    TextToText: (ONE, TWO),
    MaskedLM: (ONE, None),
}


def model_of(kind, value: float):
    """A model with the same value in all its weights."""
    model = kind(CONFIG, **({"labels": ["a", "b"]} if kind in (SequenceClassifier, TokenClassifier) else {}))
    model.vocabulary = VOCABULARY
    for weight in model.weights:
        weight.assign(np.full(weight.shape, value))
    return model


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", DATA, ids=lambda kind: kind.__name__)
def test_outputs_that_are_no_numbers_have_no_scores_and_no_answers(kind):
    model, (x, y) = model_of(kind, np.nan), DATA[kind]
    asked = ["the [MASK]"] if kind is MaskedLM else x
    for ask in (lambda: model.evaluate(x, y, verbose=0), lambda: model.predict(asked, verbose=0)):
        with pytest.raises(InputError, match="are not numbers, the first is .* lower learning_rate"):
            ask()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_tools_on_vectors_refuse_what_is_no_number():
    model = model_of(SentenceEncoder, np.nan)
    encoder = model_of(BertEncoder, np.nan)
    nothing = np.full((3, 4), np.nan)
    for ask in (
        lambda: sentence_embeddings(model, ONE),
        lambda: mine_hard_negatives(model, ONE, TWO),
        lambda: summarize(
            encoder, "The fox. The quick fox. The brown fox.", 1, sentences=["The fox.", "The quick fox."]
        ),
        lambda: score_masks(model_of(MaskedLM, np.nan), [np.array([2, 5, 3])], [np.array([1])], lambda *_: None),
        lambda: cluster(nothing, 2),
        lambda: fit_temperature(nothing, np.zeros(3, int)),
    ):
        with pytest.raises(InputError, match="are not numbers"):
            ask()


@pytest.mark.parametrize(
    ("kind", "score", "chance"),
    [
        (CrossEncoder, "accuracy@1", 1 / 2),
        (MultipleChoice, "accuracy", 1 / 2),
        (SentenceEncoder, "accuracy@1", 1 / 3),
        (SparseEncoder, "accuracy@1", 1 / 3),
    ],
)
def test_a_model_that_scores_all_texts_alike_is_as_good_as_chance_and_never_kept(kind, score, chance):
    model, (x, y) = model_of(kind, 0.0), DATA[kind]
    assert model.evaluate(x, y, verbose=0)[score] == pytest.approx(chance)
    task = text_task(model)
    kept = _evaluation(task, task.examples(x, y), FineTuningOptions(max_seq_length=8))()
    assert kept[score] == 0


def test_ties_count_against_the_accuracy_that_fit_reports():
    model = model_of(CrossEncoder, 0.0)
    history = model.fit(DATA[CrossEncoder][0], validation_data=DATA[CrossEncoder], verbose=0, epochs=1).history
    assert history["accuracy"] == [0]


NOTHING = np.zeros((0, 4), np.float32)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: project(NOTHING),
        lambda: cluster(NOTHING, 1),
        lambda: retrieval_scores([], []),
        lambda: pair_scores([], NOTHING),
        lambda: pair_scores([[], []], np.zeros((0, 2, 4), np.float32)),
        lambda: label_scores(NOTHING, []),
        lambda: tag_accuracy([], []),
        lambda: tag_accuracy([[]], [[]]),
        lambda: entity_scores([[]], [[]]),
        lambda: fit_temperature(NOTHING, np.zeros(0, int)),
        lambda: expected_calibration_error(np.zeros(0), np.zeros(0, bool)),
        lambda: text_scores([], []),
        lambda: text_scores(["a"], []),
        lambda: bleu_signature([], []),
        lambda: bleu_signature(["a"], []),
        lambda: make_model("masked words").explain([]),
    ],
)
def test_nothing_to_score_is_said(ask):
    with pytest.raises(InputError, match="Received|nothing|need|0 and 0 came|These 0 examples"):
        ask()


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


def test_no_text_is_ranked_and_has_no_label_that_nobody_trained_on(without_graphs):
    for name in ("cross-encoder", "multi-vector encoder"):
        assert make_model(name).rank("the fox", []) == []
    model = tiny.made(SequenceClassifier, CONFIG, VOCABULARY, ["contradiction", "entailment"])
    assert model.zero_shot([], ["a", "b"]) == model.zero_shot((text for text in ()), ["a", "b"]) == []
    with pytest.raises(InputError, match="labels must be names for all texts. Received: .*'a', 'b'.*, call zero_shot"):
        model.zero_shot(["the fox", "a"], [["a", "b"], ["c"]])
