import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from numpy_bert import NumpyBert, log_likelihood, scatter_weights, weights_by_name

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier

pytestmark = pytest.mark.usefixtures("without_graphs")

LABELS = ["negative", "neutral", "positive"]


def examples(batch_size=6, length=7, seed=0):
    generator = np.random.default_rng(seed)
    x = {
        "input_ids": generator.integers(0, 23, (batch_size, length)).astype("int32"),
        "input_mask": (np.arange(length) < generator.integers(2, length + 1, (batch_size, 1))).astype("int32"),
        "segment_ids": generator.integers(0, 2, (batch_size, length)).astype("int32"),
    }
    return x, generator.integers(0, 3, batch_size).astype("int32")


def compiled(optimizer="sgd", config=None, **kwargs):
    model = SequenceClassifier(config or tiny.micro_config(), LABELS)
    scatter_weights(model)
    model.compile(optimizer=optimizer, **kwargs)
    return model


def reference_logits(model, x):
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), model.config)
    return numpy_bert.dense("classifier", numpy_bert.pooled(numpy_bert.rows(**x)[0][-1]))


def test_logits_and_results_are_those_of_the_paper_written_in_numpy(eagerly):
    model, (x, y) = compiled(), examples()
    logits = reference_logits(model, x)
    np.testing.assert_allclose(model.predict(x, verbose=0), logits, rtol=0, atol=1e-5)
    results = model.evaluate(x, y, batch_size=4, verbose=0, return_dict=True)
    assert results == pytest.approx(
        {"loss": -np.mean(log_likelihood(logits, y)), "accuracy": np.mean(logits.argmax(1) == y)}, rel=1e-5
    )


@pytest.mark.slow
def test_labels_are_taken_from_the_pair_or_from_the_features():
    model, (x, y) = compiled(), examples()
    expected = model.evaluate(x, y, verbose=0, return_dict=True)
    inside = tf.data.Dataset.from_tensors({**x, "label_ids": y[:, None]})
    pair = tf.data.Dataset.from_tensors((x, y))
    for dataset in (inside, pair):
        assert model.evaluate(dataset, verbose=0, return_dict=True) == pytest.approx(expected)
        assert model.predict(dataset, verbose=0).shape == (6, 3)
    histories = []
    for dataset in (inside, pair):
        model = compiled(config=tiny.micro_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
        histories.append(model.fit(dataset, epochs=2, verbose=0).history)
    assert histories[0] == histories[1]


def test_examples_that_only_fill_up_the_batch_count_for_nothing(eagerly):
    model, (x, y) = compiled(), examples()
    expected = model.evaluate({name: array[:4] for name, array in x.items()}, y[:4], verbose=0, return_dict=True)
    filled = {**x, "label_ids": y[:, None], "is_real_example": np.array([[1], [1], [1], [1], [0], [0]])}
    assert model.evaluate(filled, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-5)


def test_sample_weights_count_as_in_keras():
    model, (x, y) = compiled(), examples()
    weights = np.array([2.0, 0.0, 1.0, 1.0, 0.0, 0.5], "float32")
    logits = reference_logits(model, x)
    results = model.evaluate(x, y, sample_weight=weights, batch_size=4, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(-np.mean(weights * log_likelihood(logits, y)), rel=1e-5)
    assert results["accuracy"] == pytest.approx(np.mean(logits.argmax(1) == y))


def test_metrics_given_to_compile_see_labels_and_logits(eagerly):
    model, (x, y) = compiled(metrics=[keras.metrics.SparseCategoricalCrossentropy(from_logits=True)]), examples()
    for results in (
        model.evaluate(x, y, verbose=0, return_dict=True),
        model.evaluate({**x, "label_ids": y[:, None]}, verbose=0, return_dict=True),
    ):
        assert set(results) == {"loss", "accuracy", "sparse_categorical_crossentropy"}
        assert results["sparse_categorical_crossentropy"] == pytest.approx(results["loss"], rel=1e-5)


def test_missing_labels_are_refused():
    with pytest.raises(InputError, match="on pairs .features, label ids., or on features that hold label_ids"):
        compiled().fit(examples()[0], verbose=0)


@pytest.mark.parametrize("labels", [[], ["one"], ["a", "b", "a"], "ab", [0, 0]])
def test_labels_must_be_two_or_more_different_names(labels):
    with pytest.raises(InputError, match="labels must be two or more different names"):
        SequenceClassifier(tiny.micro_config(), labels)


def test_a_loss_of_the_users_own_is_refused():
    with pytest.raises(InputError, match=r"SequenceClassifier computes its own loss"):
        compiled(loss="sparse_categorical_crossentropy")
