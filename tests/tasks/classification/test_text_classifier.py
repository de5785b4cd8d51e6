"""`TextClassifier` does what scikit-learn asks of an estimator."""

import pickle
import random

import keras
import numpy as np
import pandas
import pytest
import tiny
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from keras_bert import BertEncoder, InputError, SequenceClassifier, TextClassifier

VOCABULARY = tiny.vocabulary("good bad film the")
TEXTS = ["good", "bad", "the good film", "the bad film", "good good film", "bad the bad"]
LABELS = ["yes", "no"] * 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The folder of a tiny encoder."""
    folder = tmp_path_factory.mktemp("classifier") / "checkpoint"
    keras.utils.set_random_seed(1)
    BertEncoder(tiny.config(VOCABULARY, hidden_size=8, initializer_range=0.3)).save_pretrained(folder, VOCABULARY)
    return folder


@pytest.fixture
def new(checkpoint, eagerly):
    """Function of parameters -> an estimator that is not trained."""
    return lambda **parameters: TextClassifier(str(checkpoint), **{"epochs": 1, "batch_size": 4, **parameters})


class Stub:
    """A model that is made at once: what it says depends on the first word of a text."""

    def __init__(self, labels):
        self.labels = labels

    def compile(self, optimizer, **options):
        self.optimizer = optimizer

    def fit(self, texts, labels, **options):
        assert len(texts) == len(labels)

    def predict_proba(self, texts, **options):
        return np.array([[0.1, 0.9] if text.startswith("good") else [0.8, 0.2] for text in texts], np.float32)


@pytest.fixture
def quick(new, monkeypatch):
    """As `new`, with a stub as the model."""
    monkeypatch.setattr(SequenceClassifier, "from_pretrained", staticmethod(lambda path, labels: Stub(labels)))
    return new


def upper(texts):
    return [text.replace("good", "good good") for text in texts]


@pytest.mark.parametrize("labels", [[20, 10] * 3, np.array(LABELS, object)])
def test_labels_of_every_type_come_back(new, labels, capsys):
    classifier = new()
    assert classifier.fit(np.array(TEXTS), labels) is classifier
    assert capsys.readouterr().out == ""
    assert classifier.classes_.tolist() == sorted(set(labels))
    predicted, probabilities = classifier.predict(TEXTS), classifier.predict_proba(TEXTS)
    assert predicted.tolist() == classifier.classes_[probabilities.argmax(axis=1)].tolist()
    assert predicted.dtype == classifier.classes_.dtype
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (6, 2))
    assert classifier.score(TEXTS, labels) == np.mean(predicted == labels)
    assert classifier.model_.label_values == tuple(classifier.classes_.tolist())


def test_parameters_are_read_set_and_cloned(new):
    classifier = new(seed=3)
    parameters = classifier.get_params()
    assert set(parameters) == {
        *("model", "epochs", "learning_rate", "batch_size", "max_seq_length", "class_weight", "loss", "seed", "verbose")
    }
    copy = clone(classifier)
    assert copy.get_params() == parameters
    assert copy.set_params(epochs=2).epochs == 2
    assert copy.__sklearn_tags__().input_tags.string
    with pytest.raises(NotFittedError):
        copy.predict(TEXTS)


@pytest.mark.slow
def test_a_seed_determines_the_model_and_pickles_keep_it(new):
    state = random.getstate()
    first, again, other = (new(seed=seed).fit(TEXTS, LABELS, sample_weight=[1] * 6) for seed in (1, 1, 2))
    assert random.getstate() == state
    expected = first.predict_proba(TEXTS)
    np.testing.assert_array_equal(again.predict_proba(TEXTS), expected)
    assert not np.allclose(other.predict_proba(TEXTS), expected)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(first)).predict_proba(TEXTS), expected, rtol=1e-5)


def test_it_is_a_step_of_a_pipeline_that_is_validated_and_searched(quick):
    steps = Pipeline([("upper", FunctionTransformer(upper)), ("classifier", quick(class_weight="balanced"))])
    assert set(steps.fit(TEXTS, LABELS).predict(TEXTS)) <= {"yes", "no"}
    scores = cross_val_score(steps, TEXTS, LABELS, cv=2)
    assert scores.shape == (2,)
    assert ((scores >= 0) & (scores <= 1)).all()
    search = GridSearchCV(steps, {"classifier__learning_rate": [1e-3, 1e-9]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["classifier__learning_rate"] in (1e-3, 1e-9)
    assert search.predict_proba(TEXTS).shape == (6, 2)


def test_a_column_of_labels_is_flattened_with_a_warning(quick):
    for labels in ([[label] for label in LABELS], pandas.DataFrame({"label": LABELS})):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
            classifier = quick().fit(TEXTS, labels)
        assert classifier.classes_.tolist() == ["no", "yes"]


def test_two_columns_of_two_texts_are_not_transposed(quick, monkeypatch):
    asked = []
    monkeypatch.setattr(Stub, "fit", lambda self, texts, labels, **options: asked.append(texts))
    first, second = ["good", "bad"], ["the film", "film"]
    for pairs in ((first, second), list(zip(first, second, strict=True)), pandas.DataFrame({"a": first, "b": second})):
        quick().fit(pairs, ["yes", "no"])
    assert asked == [(first, second)] * 3


def test_pairs_are_two_columns(new):
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    assert new().fit(pairs, LABELS).predict(np.array(pairs)).shape == (6,)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (TEXTS, [["yes", "no"]] * 6, r"one label for each text. Received labels of the shape \(6, 2\)"),
        (TEXTS, [1, "a"] * 3, "labels must be of one type. Received: int, str"),
        (TEXTS, pandas.Series([True, 2] * 3), "labels must be of one type. Received: bool, int"),
        (TEXTS, [[1], ["a"]] * 3, "labels must be of one type. Received: int, str"),
        (TEXTS, set(LABELS), r"one label for each text. Received labels of the shape \(\)"),
        (set(TEXTS), LABELS, "texts must be a list. Received a set, which has no order"),
        ((("good", "bad"), ("film", "the")), LABELS[:2], "may be two pairs or two columns of two texts"),
        (({}, {}), LABELS, "texts must be a list. Received: {}"),
        (TEXTS, [None, *LABELS[1:]], "Received: None, and it marks a missing label"),
        (TEXTS, ["yes"] * 6, "labels must be two or more different names"),
        ([["good"] * 3] * 6, LABELS, r"X must be N texts, or pairs \[N, 2\]. Received the shape \(6, 3\)"),
    ],
)
def test_what_cannot_be_learnt_is_refused(new, texts, labels, message):
    with pytest.raises(InputError, match=message):
        new().fit(texts, labels)
