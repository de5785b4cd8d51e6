"""The weights of examples count as in Keras: the loss is sum(weight * loss) / count, and metrics have no weights."""

import keras
import numpy as np
import pytest
from slow_parameters import slow_except
from tasks.test_keras_keywords import TASKS, part
from tasks.test_text_fitting import LABELS, TEXTS, VOCABULARY
from tiny_models import model_and_batch

from keras_bert.optimization import AdamW
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.tasks.text_to_text.model import TextToText

pytestmark = pytest.mark.usefixtures("without_graphs")

WEIGHTS = np.array([3.0, 0.0, 0.5, 10.0], "float32")
_MODEL, _, _ = TASKS["classes"]
OF_TEXTS = {name: task for name, task in TASKS.items() if name != "masks"} | {
    "targets": (lambda: TextToText(_MODEL().config), TEXTS, TEXTS[::-1]),
    "relevances": (lambda: CrossEncoder(_MODEL().config), (TEXTS, TEXTS[::-1]), [0.0, 1.0] * 16),
    "lists": (lambda: CrossEncoder(_MODEL().config), (TEXTS, TEXTS[::-1], TEXTS), None),
}


@pytest.mark.parametrize(
    "kind", slow_except(["number", "tags", "span"], ["classes", "many", "number", "tags", "span", "choice"])
)
@pytest.mark.parametrize("in_features", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_loss_of_arrays_is_linear_in_the_weights_and_metrics_have_none(kind, in_features):
    model, batch = model_and_batch(kind)
    x, y = batch if isinstance(batch, tuple) else (batch, None)
    model.compile(AdamW(0.0), run_eagerly=True)

    def results(weights):
        inputs, given = ({**x, "example_weights": weights}, None) if in_features else (x, weights)
        return model.evaluate(inputs, y, sample_weight=given, batch_size=4, verbose=0, return_dict=True)

    plain = results(None if not in_features else np.ones(4, "float32"))
    of_each = [results(weights)["loss"] for weights in np.eye(4, dtype="float32")]
    assert sum(of_each) == pytest.approx(plain["loss"], rel=1e-5)
    weighted = results(WEIGHTS)
    assert weighted["loss"] == pytest.approx(np.sum(WEIGHTS * of_each), rel=1e-5)
    names = [name for name in plain if not name.endswith("loss")]
    assert [weighted[name] for name in names] == pytest.approx([plain[name] for name in names])


def new_model(make, **arguments):
    keras.utils.set_random_seed(2)
    model = make()
    model.vocabulary = VOCABULARY
    model.compile(AdamW(0.0), **arguments)
    return model


@pytest.mark.parametrize("name", slow_except(["classes", "tags"], OF_TEXTS))
def test_a_weight_of_ten_for_all_texts_makes_the_loss_ten_times_as_large(name):
    make, x, y = OF_TEXTS[name]
    x, y, found = part(x, 0, 4), y and y[:4], []
    for weight, parts in ((None, 1), (10.0, 1), (10.0, 2)):
        weights = None if weight is None else [weight] * 4
        model = new_model(make, gradient_accumulation_steps=parts, run_eagerly=True)
        found.append(model.fit(x, y, sample_weight=weights, batch_size=4, verbose=0).history)
    plain = found.pop(0)
    for history in found:
        assert history.pop("loss")[0] == pytest.approx(10 * plain["loss"][0], rel=1e-5)
        assert history == {name: pytest.approx(plain[name], rel=1e-5) for name in history}


def test_class_weights_are_those_of_keras(eagerly):
    """The same logits and labels in a model of Keras give the same numbers, for all kinds of metrics."""

    def metric(name):
        return keras.metrics.SparseCategoricalAccuracy(name=name)

    class_weight = {"negative": 10.0, "positive": 2.0}
    model = new_model(_MODEL, metrics=[metric("plain")], weighted_metrics=[metric("weighted")])
    logits = np.log([list(answer.probabilities.values()) for answer in model.predict(TEXTS)])
    theirs = keras.Sequential([keras.Input([2]), keras.layers.Dense(2, kernel_initializer="identity")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    theirs.compile(keras.optimizers.SGD(0.0), loss, metrics=[metric("plain")], weighted_metrics=[metric("weighted")])
    ids = np.array([["negative", "positive"].index(label) for label in LABELS])
    expected = theirs.fit(logits, ids, batch_size=8, class_weight={0: 10.0, 1: 2.0}, verbose=0).history
    for numbers in (class_weight, {0: 10.0, 1: 2.0}):
        history = model.fit(TEXTS, LABELS, batch_size=8, class_weight=numbers, verbose=0).history
        assert history["accuracy"] == pytest.approx(history["plain"], rel=1e-6)
        assert {name: history[name] for name in expected} == {
            name: pytest.approx(values, rel=1e-4) for name, values in expected.items()
        }
