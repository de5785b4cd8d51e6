import numpy as np
import pytest
from numpy_bert import NumpyBert, log_likelihood, scatter_weights, weights_by_name
from tiny_checkpoints import CONFIG, FEATURES

from keras_bert.program.errors import InputError
from keras_bert.tasks.question_answering.model import SpanClassifier

pytestmark = pytest.mark.usefixtures("without_graphs")

X = {name: FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")}
LABELS = {"start_positions": np.array([[1], [0]], "int32"), "end_positions": np.array([[2], [4]], "int32")}


def compiled(**changes):
    model = SpanClassifier(CONFIG.replace(**changes))
    scatter_weights(model)
    model.compile(optimizer="sgd")
    return model


def reference_logits(model):
    """`[B, S, 2]`, minus infinity where there is no token."""
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), model.config)
    logits = numpy_bert.dense("span_classifier", numpy_bert.rows(**X)[0][-1])
    return np.where(X["input_mask"][:, :, None] == 1, logits, -np.inf)


def reference_losses(model):
    """Of starts and ends: `[B, 2]`."""
    logits = reference_logits(model)
    labels = np.concatenate([LABELS["start_positions"], LABELS["end_positions"]], axis=1)
    return -log_likelihood(np.moveaxis(logits, 2, 1), labels), np.argmax(logits, axis=1) == labels


def test_logits_and_results_are_those_of_google_written_in_numpy(eagerly):
    model = compiled()
    logits, (losses, is_right) = reference_logits(model), reference_losses(model)
    predicted, real = model.predict(X, verbose=0), X["input_mask"] == 1
    for number, name in enumerate(("start_logits", "end_logits")):
        assert predicted[name].shape == (2, 5)
        assert predicted[name].dtype == "float32"
        np.testing.assert_allclose(predicted[name][real], logits[real][:, number], rtol=0, atol=1e-5)
        assert np.all(predicted[name][~real] == -30000)
    expected = {
        "loss": (losses[:, 0].mean() + losses[:, 1].mean()) / 2,
        "start_accuracy": is_right[:, 0].mean(),
        "end_accuracy": is_right[:, 1].mean(),
    }
    for batch_size in (1, 2):
        results = model.evaluate({**X, **LABELS}, batch_size=batch_size, verbose=0, return_dict=True)
        assert results == pytest.approx(expected, rel=1e-5)


def test_labels_are_taken_from_the_pair_or_from_the_features(eagerly):
    model = compiled()
    expected = model.evaluate({**X, **LABELS, "unique_ids": np.zeros((2, 1))}, verbose=0, return_dict=True)
    assert model.evaluate(X, LABELS, verbose=0, return_dict=True) == pytest.approx(expected)


def test_weights_of_examples_count_as_in_keras():
    model, weights = compiled(), np.array([3.0, 0.5], "float32")
    losses, _ = reference_losses(model)
    results = model.evaluate(X, LABELS, sample_weight=weights, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(np.mean(losses.mean(1) * weights), rel=1e-5)


@pytest.mark.parametrize("position", [-1, 5])
def test_a_position_outside_of_the_row_is_loud(eagerly, position):
    labels = {**LABELS, "end_positions": np.array([[2], [position]], "int32")}
    assert np.isnan(compiled().evaluate({**X, **labels}, verbose=0, return_dict=True)["loss"])


def test_padding_is_never_chosen_in_mixed_precision_either():
    model = SpanClassifier(CONFIG, dtype="mixed_float16")
    logits = model(X)["start_logits"]
    assert logits.dtype == "float32"
    assert logits[0, 4] == -30000
    (term,) = model.loss_terms({**X, **LABELS}, None, model(X), None)
    assert np.isfinite(term.value)


def test_missing_labels_and_keras_metrics_are_refused(eagerly):
    model = compiled()
    with pytest.raises(InputError, match="hold start_positions and end_positions, .* Received: neither"):
        model.fit(X, np.zeros(2), verbose=0)
    with pytest.raises(InputError, match="hold start_positions and end_positions, .* Received: input_ids, "):
        model.fit(X, verbose=0)
    with pytest.raises(InputError, match="Keras' metrics cannot see labels"):
        model.compile(optimizer="sgd", metrics=["accuracy"])
