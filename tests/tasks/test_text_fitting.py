"""`fit`, `evaluate` and `predict` on texts, as users of `SequenceClassifier` call them."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny_models import new_model as new_tiny_model

from keras_bert import InputError, SequenceClassifier
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.tasks import fitting, prediction
from keras_bert.tasks.base import text_task
from keras_bert.tasks.examples import TextExamples, read_examples

pytestmark = pytest.mark.usefixtures("without_graphs")

WORDS = ["good", "great", "bad", "awful", "the", "film", "was", "very"]
VOCABULARY = tiny.vocabulary(*WORDS)
CONFIG = tiny.config(VOCABULARY, dropout=0.0, max_position_embeddings=32, initializer_range=0.2)
TEXTS = ["the film was good", "bad", "a very great film", "the very awful film was bad"] * 8
LABELS = ["positive", "negative"] * 16


def new_model(labels=("negative", "positive"), **arguments):
    return tiny.made(SequenceClassifier, CONFIG, VOCABULARY, labels, **arguments)


@pytest.fixture(scope="module")
def model():
    return new_model()


STRINGS = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))


@pytest.mark.parametrize(
    ("x", "y", "second_texts"),
    [
        (TEXTS, LABELS, None),
        (np.array(TEXTS), np.array(LABELS), None),
        (np.array(TEXTS, object), [1, 0] * 16, None),
        (tuple(TEXTS), np.array([1, 0] * 16), None),
        (tf.constant(TEXTS), tf.constant([1, 0] * 16), None),
        (STRINGS, None, None),
        (STRINGS.batch(5), None, None),
        (tf.data.Dataset.from_tensor_slices(((TEXTS, TEXTS[::-1]), LABELS)).batch(7), None, TEXTS[::-1]),
    ],
    ids=["lists", "arrays", "numbers", "tuple", "tensors", "dataset", "batches", "pairs"],
)
def test_texts_come_in_every_form(model, x, y, second_texts):
    expected = TextExamples(TEXTS, second_texts, LABELS)
    assert read_examples(text_task(model), x, y) == expected


def largest_change(model, before):
    return max(np.abs(weight.numpy() - old).max() for weight, old in zip(model.weights, before, strict=True))


def weights_of(model):
    return [weight.numpy() for weight in model.weights]


FEATURES = {
    "input_ids": np.array([[2, 5, 3], [2, 7, 3]]),
    "input_mask": np.ones((2, 3), int),
    "segment_ids": np.zeros((2, 3), int),
}


def test_each_fit_without_compile_has_the_recipe_of_the_paper_for_its_own_updates(eagerly):
    model, ids = new_model(), np.array([0, 1])
    fits = [  # columns, options, and the number of updates
        ((TEXTS, LABELS), {"batch_size": 8, "epochs": 2}, 8),
        ((TEXTS, LABELS), {"batch_size": 8, "epochs": 4, "initial_epoch": 3}, 4),
        ((TEXTS, LABELS), {"batch_size": 8, "epochs": 3, "steps_per_epoch": 2}, 6),
        ((FEATURES, ids), {"epochs": 3}, 3),
    ]
    for columns, options, num_updates in fits:
        before = weights_of(model)
        model.fit(*columns, **options, verbose=0)
        schedule = model.optimizer._learning_rate
        assert (schedule.peak, schedule.num_train_steps, schedule.num_warmup_steps) == (5e-5, num_updates, 0)
        assert int(model.optimizer.iterations) == num_updates
        assert largest_change(model, before) > 1e-5
    assert np.isfinite(model.evaluate(FEATURES, ids, verbose=0)[0])


def test_what_the_user_has_compiled_stays(eagerly):
    model = new_model()
    model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    optimizer = AdamW(1e-3)
    model.compile(optimizer)
    for _ in range(2):
        model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    assert model.optimizer is optimizer
    assert int(optimizer.iterations) == 8


def test_a_model_saved_with_its_optimizer_is_trained_on(eagerly, tmp_path):
    model = new_model()
    model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    before = weights_of(loaded)
    loaded.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    assert largest_change(loaded, before) > 1e-5


def test_a_schedule_of_the_user_that_has_ended_is_said(eagerly):
    model = new_model()
    model.compile(AdamW(WarmupLinearDecay(1e-3, 4)))
    model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    for x, y in ((TEXTS, LABELS), (FEATURES, np.array([0, 1]))):
        with pytest.warns(UserWarning, match="has fallen to 0: .* is for 4 updates, and . are done. More training"):
            model.fit(x, y, batch_size=8, verbose=0)


def test_the_batches_and_the_losses_are_those_of_features(eagerly):
    """One batch without dropout: the loss on texts is the loss on the features that the tokenizer makes."""
    model = new_model()
    model.compile(AdamW(0.0))
    on_texts = model.fit(TEXTS, LABELS, batch_size=32, verbose=0).history["loss"]
    ids = [[2, *[VOCABULARY.ids.get(word, 1) for word in text.split()], 3] for text in TEXTS]
    width = max(map(len, ids))
    rows = np.array([row + [0] * (width - len(row)) for row in ids])
    features = {"input_ids": rows, "input_mask": (rows > 0).astype(int), "segment_ids": np.zeros_like(rows)}
    on_features = model.fit(features, np.array([1, 0] * 16), batch_size=32, verbose=0).history["loss"]
    np.testing.assert_allclose(on_texts, on_features, rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(TEXTS, LABELS)["loss"], on_texts[0], rtol=1e-5)


def test_class_weights_are_weights_of_the_examples(model):
    task = text_task(model)

    def weights(class_weight, labels):
        return task.class_weights(task.examples(TEXTS[: len(labels)], labels), class_weight)

    labels = ["positive"] * 6 + ["negative"] * 2
    assert weights({"negative": 3.0}, labels) == weights({0: 3.0}, labels) == [1.0] * 6 + [3.0] * 2
    assert weights("balanced", labels) == pytest.approx([8 / 12] * 6 + [8 / 4] * 2)
    # Only labels that occur share the weight; a missing label does not reduce that of the others.
    assert weights("balanced", ["positive"] * 2) == [1.0, 1.0]


def test_long_texts_are_cut_and_counted(capsys):
    model = new_model()
    model.predict(["good " * 40, "bad", "bad " * 31])
    assert "the examples: 2 of 3 texts were cut to 32 tokens" in capsys.readouterr().err
    model.predict(["good " * 30, "bad"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("x", "y", "arguments", "message"),
    [
        ([], [], {}, "there is no text"),
        (["good", ""], LABELS[:2], {}, "its text is ''"),
        ([("a", "b")], LABELS[:1], {}, "Pairs are given as two columns"),
        (["good", None], LABELS[:2], {}, "its text is None"),
        ([1], LABELS[:1], {}, "Text 1 must be a string. Received: 1"),
        (None, None, {}, "texts must be a list. Received: None"),
        (["good \ud800"], LABELS[:1], {}, "Text 1 has half a surrogate pair at character 5"),
        (TEXTS, "positive", {}, "labels must be a list. Received: 'positive'"),
        ([b"\xff\xfe"], LABELS[:1], {}, "bytes that are not UTF-8"),
        (TEXTS, LABELS[:3], {}, "32 texts but 3 labels"),
        (TEXTS, None, {}, "no labels to train on"),
        (TEXTS[:2], ["positive", "mixed"], {}, "label 'mixed' of example 2 is unknown"),
        (TEXTS[:2], [1, 2], {}, "label of example 2 must be a name or a number from 0 to 1. Received: 2"),
        (TEXTS[:2], LABELS[:2], {"sample_weight": [1.0]}, "2 texts but 1 weights"),
        (TEXTS[:2], LABELS[:2], {"class_weight": {"mixed": 1.0}}, "class_weight has the unknown label 'mixed'"),
        (TEXTS[:2], LABELS[:2], {"step": 1}, "no option step. It has: .*batch_size, .*verbose"),
        (TEXTS[:2], LABELS[:2], {"seed": -1}, "seed must be a whole number of at least 0. Received: -1"),
        (TEXTS[:2], LABELS[:2], {"batch_size": 0}, "batch_size must be a whole number of at least 1. Received: 0"),
        (TEXTS[:2], LABELS[:2], {"validation_data": TEXTS}, "validation_data must be .texts, labels. or"),
        (TEXTS[:2], LABELS[:2], {"validation_data": (TEXTS,)}, "There are no labels to validate on"),
        (TEXTS[:2], LABELS[:2], {"max_seq_length": 33}, "length of 33 is more than this model's 32"),
        (STRINGS.repeat(), None, {}, "repeats for ever"),
        (STRINGS, LABELS, {}, "Received: a data set and y"),
        (STRINGS.map(lambda text, label: {"text": text, "label": label}), None, {}, "Select the text"),
    ],
)
def test_what_cannot_be_learned_is_refused(model, x, y, arguments, message):
    with pytest.raises(InputError, match=message):
        model.fit(x, y, **arguments)


def test_predict_and_evaluate_take_the_verbose_of_keras(model, monkeypatch, capsys):
    monkeypatch.setattr(prediction, "_SECONDS_WITHOUT_PROGRESS", 0)
    # Two batches: one has no progress.
    answers = model.predict(TEXTS[:4], 2, verbose=0)
    scores = model.evaluate(TEXTS[:4], LABELS[:4], 2, verbose=0, return_dict=True)
    assert capsys.readouterr().err == ""
    assert model.predict(TEXTS[:4], 2) == answers
    assert model.evaluate(TEXTS[:4], LABELS[:4], 2) == scores
    assert "example/s" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sentence encoder", "sparse encoder", "multi-vector encoder"])
def test_validation_data_of_columns_without_labels_are_the_columns(name, monkeypatch):
    def stop(task, examples, *others):
        raise InputError(repr(list(examples.columns)))

    monkeypatch.setattr(fitting, "_rows_to_validate", stop)
    queries, documents, others = ["the film", "bad"], ["good", "awful"], ["was", "very"]
    model = new_tiny_model(name)
    for columns in ((queries, documents), (queries, documents, others)):
        for validation_data in (columns, list(columns), (columns,), (columns, None)):
            with pytest.raises(InputError, match=re.escape(repr(list(columns)))):
                model.fit(columns, validation_data=validation_data, verbose=0)


def test_validation_data_may_have_weights(eagerly):
    model = new_model()
    found = model.fit(TEXTS[:2], LABELS[:2], validation_data=(TEXTS[:2], LABELS[:2], [1.0, 0.0]), verbose=0).history
    assert 2 * found["val_loss"][0] == pytest.approx(model.evaluate(TEXTS[:1], LABELS[:1])["loss"], rel=1e-4)


def fit_validated(model, validation_data):
    return model.fit((TEXTS[:2], TEXTS[2:4]), [1.0, 0.0], validation_data=validation_data, verbose=0)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: new_model().evaluate(TEXTS, LABELS, steps=1), "evaluate on texts has no option steps"),
        (lambda: new_model(problem_type="ranking"), "one of classification, multi_label, regression"),
        (lambda: scores().fit(TEXTS[:2], [1.0, np.nan]), "its label is nan"),
        (lambda: scores().fit(TEXTS[:2], [1.0, "a"]), "regression must be numbers"),
        (lambda: several().fit(TEXTS[:2], [["a"], "a"]), "2 must be a list of names"),
        (lambda: several().fit(TEXTS[:2], [["a"], ["c"]]), "'c' of example 2"),
        (lambda: SequenceClassifier(CONFIG, labels=["a", "b"]).predict(["good"]), "need the vocabulary of the model"),
        (lambda: fit_validated(new_model(), (["a"], ["b"], ["c"])), r"of their own.*: \(\(texts, others\), labels"),
        (lambda: fit_validated(new_model(), (["a"], ["b"])), r"in a tuple of their own.*: \(\(texts, others\), labels"),
        (lambda: fit_validated(new_tiny_model("cross-encoder"), (["a"], ["b"], [1.0])), "own.*Received: 3 parts"),
    ],
)
def test_what_other_problems_cannot_use_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


def scores():
    return new_model(["a"], problem_type="regression")


def several():
    return new_model(["a", "b"], problem_type="multi_label")


@pytest.mark.parametrize("format", ["keras_bert", "google", "huggingface"])
@pytest.mark.parametrize(("problem_type", "labels"), [("multi_label", ["a", "b"]), ("regression", ["score"])])
def test_the_problem_type_is_saved(tmp_path, problem_type, labels, format):
    model = new_model(labels, problem_type=problem_type)
    model.save_pretrained(tmp_path / "model", format=format)
    loaded = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert (loaded.problem_type, loaded.labels) == (problem_type, tuple(labels))
    np.testing.assert_array_equal(loaded.classifier.kernel, model.classifier.kernel)
    assert type(from_pretrained(None, tmp_path / "model")) is SequenceClassifier
