import numpy as np
import pytest
from numpy_bert import NumpyBert, log_likelihood, scatter_weights, weights_by_name
from tiny_checkpoints import CONFIG, FEATURES

from keras_bert.program.errors import InputError
from keras_bert.tasks.tagging.model import TokenClassifier

pytestmark = pytest.mark.usefixtures("without_graphs")

LABELS = ["O", "B-PER", "I-PER"]
X = {name: FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")}
LABEL_IDS = np.array([[-1, 1, 2, -1, -1], [-1, 0, -1, 1, -1]], "int32")


def compiled(**changes):
    model = TokenClassifier(CONFIG.replace(**changes), LABELS)
    scatter_weights(model)
    model.compile(optimizer="sgd")
    return model


def reference_logits(model):
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), model.config)
    return numpy_bert.dense("token_classifier", numpy_bert.rows(**X)[0][-1])


def test_logits_and_results_are_those_of_the_paper_written_in_numpy(eagerly):
    model = compiled()
    logits, real = reference_logits(model), X["input_mask"] == 1
    predicted = model.predict(X, verbose=0)
    assert predicted.shape == (2, 5, 3)
    assert predicted.dtype == "float32"
    np.testing.assert_allclose(predicted[real], logits[real], rtol=0, atol=1e-5)
    # With two labels in each row, the mean of the rows' means would be the same number, so one label is removed.
    label_ids = np.where(np.arange(5) == 3, -1, LABEL_IDS)
    for labels, labelled in ((LABEL_IDS, LABEL_IDS >= 0), (label_ids, label_ids >= 0)):
        expected = {
            "loss": -np.mean(log_likelihood(logits[labelled], labels[labelled])),
            "accuracy": np.mean(logits[labelled].argmax(-1) == labels[labelled]),
        }
        for batch_size in (1, 2):
            results = model.evaluate(X, labels, batch_size=batch_size, verbose=0, return_dict=True)
            assert results == pytest.approx(expected, rel=1e-5)


def test_labels_are_taken_from_the_pair_or_from_the_features(eagerly):
    model = compiled()
    inside = {**X, "label_ids": LABEL_IDS, "sentence_id": np.array([[0], [1]]), "sub_sentence_id": np.zeros((2, 1))}
    expected = model.evaluate(X, LABEL_IDS, verbose=0, return_dict=True)
    assert model.evaluate(inside, verbose=0, return_dict=True) == pytest.approx(expected)


def test_a_token_without_a_label_does_not_matter(eagerly):
    """Neither the loss nor a gradient depends on its prediction, for any negative label."""
    weights = []
    for nothing in (-1, -100):
        model = compiled(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        labels = np.where(LABEL_IDS < 0, nothing, LABEL_IDS)
        model.fit(X, labels, shuffle=False, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-7)
    none = np.full_like(LABEL_IDS, -1)
    before = model.get_weights()
    assert model.fit(X, none, verbose=0).history["loss"] == [0.0]
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("label_ids", "jit_compile"),
    [
        (LABEL_IDS, False),
        (np.full_like(LABEL_IDS, -1), False),
        pytest.param(LABEL_IDS, True, marks=pytest.mark.slow),
    ],
)
def test_labels_among_the_features_train_as_those_of_the_pair_do(label_ids, jit_compile):
    """Without XLA the last layer then computes only the tokens that have a label."""
    weights, losses = [], []
    for given in ((X, label_ids), ({**X, "label_ids": label_ids},)):
        model = compiled(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model.jit_compile, model.run_eagerly = jit_compile, not jit_compile
        losses.append(model.fit(*given, shuffle=False, epochs=3, verbose=0).history["loss"])
        weights.append(model.get_weights())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_labels_among_the_features_say_which_logits_are_computed_in_training():
    model = compiled(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    inputs, expected = {**X, "label_ids": LABEL_IDS}, np.asarray(model(X))
    np.testing.assert_array_equal(model(inputs), expected)
    logits, is_labelled = np.asarray(model(inputs, training=True)), LABEL_IDS >= 0
    np.testing.assert_allclose(logits[is_labelled], expected[is_labelled], rtol=0, atol=1e-6)
    assert not logits[~is_labelled].any()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_xla_is_given_no_lengths_that_depend_on_the_labels(jit_compile):
    import tensorflow as tf

    model = compiled()
    graph = tf.function(lambda inputs: model(inputs, training=True), autograph=False, jit_compile=jit_compile)
    inputs = {name: tf.constant(values) for name, values in {**X, "label_ids": LABEL_IDS}.items()}
    operations = [operation.type for operation in graph.get_concrete_function(inputs).graph.get_operations()]
    assert operations.count("Where") == (not jit_compile)


def test_weights_of_examples_are_weights_of_their_tokens(eagerly):
    model, weights, labelled = compiled(), np.array([3.0, 0.5], "float32"), LABEL_IDS >= 0
    losses = -log_likelihood(reference_logits(model)[labelled], LABEL_IDS[labelled])
    token_weights = np.repeat(weights, 2)
    results = model.evaluate(X, LABEL_IDS, sample_weight=weights, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(np.mean(losses * token_weights), rel=1e-5)


def test_logits_and_loss_are_float32_in_mixed_precision():
    model = TokenClassifier(CONFIG, LABELS, dtype="mixed_bfloat16")
    assert model(X).dtype == "float32"
    (term,) = model.loss_terms(X, LABEL_IDS, model(X), None)
    assert term.value.dtype == "float32"
    assert float(term.value) == pytest.approx(np.log(3), rel=0.1)


def test_missing_labels_and_keras_metrics_are_refused():
    model = compiled()
    with pytest.raises(InputError, match="on pairs .features, label ids., or on features that hold label_ids"):
        model.fit(X, verbose=0)
    with pytest.raises(InputError, match="Keras' metrics would count tokens that have no label"):
        model.compile(optimizer="sgd", metrics=["accuracy"])
    with pytest.raises(InputError, match="labels must be two or more different names"):
        TokenClassifier(CONFIG, ["O"])
