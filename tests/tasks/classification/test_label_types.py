"""Labels that are numbers or truth values: answers have them in their own type, also after files and exports."""

import enum
import json
import pickle

import keras
import numpy as np
import pandas
import pytest
from tiny_models import CONFIG, TEXTS, VOCABULARY, assert_same_answers

from keras_bert import InputError, SequenceClassifier
from keras_bert.serving import load
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.label_names import label_name, label_names

ASKED = TEXTS[:4]
SIZES = enum.Enum("SIZES", ["SMALL"])


def new_model(labels, problem_type="classification", **arguments):
    model = SequenceClassifier(CONFIG.replace(num_hidden_layers=1), labels, problem_type, **arguments)
    model.vocabulary = VOCABULARY
    return model


@pytest.mark.parametrize(
    "labels", [["b", "a"], [20, 10], [True, False], [0.5, -1.0, 1e300], np.array([3, 1]), np.array(["x", "y"])]
)
def test_every_kind_of_file_gives_labels_back_in_their_type(labels, tmp_path):
    model, given = new_model(labels), [label.item() if hasattr(label, "item") else label for label in labels]
    model.save_pretrained(tmp_path / "folder")
    restored = type(model).from_config(json.loads(json.dumps(model.get_config())))
    for other in (model, SequenceClassifier.from_pretrained(tmp_path / "folder"), restored):
        assert list(other.label_values) == given
        assert [type(label) for label in other.label_values] == [type(label) for label in given]
    examples = text_task(model).examples(ASKED[:2], labels[:2])
    assert text_task(model).rows(examples).rows.labels["label_ids"].tolist() == [0, 1]


def test_answers_have_labels_in_their_type_and_so_have_those_of_files_and_exports(tmp_path):
    model = new_model([20, 10], "multi_label", thresholds={20: 0.0, 10: 1.0})
    expected = model.predict(ASKED)
    assert {answer.labels for answer in expected} == {(20,)}
    assert list(expected[0].probabilities) == [20, 10]
    assert expected[0].readable().splitlines()[0] == "  20"
    assert model.evaluate(ASKED, [[20]] * 4, verbose=0)["micro_f1"] == 1
    assert model.tune_thresholds(ASKED, [[20], [], [20], []]).thresholds.keys() == {20, 10}
    model.thresholds = {20: 0.0, 10: 1.0}
    assert_same_answers(load(model.export_for_serving(tmp_path / "onnx", format="onnx")).predict(ASKED), expected)
    model.save(tmp_path / "model.keras")
    for other in (keras.saving.load_model(tmp_path / "model.keras"), pickle.loads(pickle.dumps(model))):
        assert other.label_values == (20, 10)


@pytest.mark.parametrize(
    ("value", "labels", "label_type", "name"),
    [
        (10, ["20", "10"], "int", "10"),
        (np.int32(10), ["20", "10"], "int", "10"),
        (10.0, ["20", "10"], "int", "10"),
        ("10", ["20", "10"], "int", "10"),
        (1, ["1", "0"], "int", "1"),
        (np.True_, ["True", "False"], "bool", "True"),
        (1, ["1.0", "0.5"], "float", "1.0"),
    ],
)
def test_a_number_is_a_label_where_labels_are_numbers(value, labels, label_type, name):
    assert label_name(value, labels, "The label", label_type) == name
    assert label_names([value], labels, "The labels", label_type) == [name]


@pytest.mark.parametrize(("value", "label_type"), [(0, "int"), (True, "int"), (1, "bool"), (None, "float")])
def test_a_value_that_is_no_label_is_refused(value, label_type):
    labels = ["True", "False"] if label_type == "bool" else ["1", "10"]
    with pytest.raises(InputError, match=f"must be one of the labels, of the type {label_type}: .*Received: {value}"):
        label_name(value, labels, "The label", label_type)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("a", "b"), ("c", "d")], r"Received: \('a', 'b'\), and JSON files could not give it back"),
        ([SIZES.SMALL, "b"], "Received: <SIZES.SMALL: 1>, and JSON files could not give it back. Give its name"),
        ([None, "b"], "a truth value or a finite float. Received: None, and it marks a missing label"),
        ([float("nan"), 1.0], "Received: nan, and it marks a missing label"),
        (["a", 1], "labels must be of one type. Received: int, str"),
    ],
)
def test_labels_of_other_types_are_refused_with_the_reason(labels, message):
    with pytest.raises(InputError, match=message):
        new_model(labels)


def test_labels_given_anew_have_their_own_type(tmp_path):
    new_model([20, 10]).save_pretrained(tmp_path / "folder")
    assert not SequenceClassifier.from_pretrained(tmp_path / "folder", labels=[20, 10]).new_parts.untrained()
    assert SequenceClassifier.from_pretrained(tmp_path / "folder", labels=["20", "10"]).label_values == ("20", "10")
    for label_type in ("int", "tuple"):
        with pytest.raises(InputError, match="The label 'a' is no int|label_type must be one of str, int, bool, float"):
            new_model(["a", "b"], label_type=label_type)


def test_a_series_goes_by_its_labels():
    model = new_model(["a", "b", "c"], "multi_label", thresholds=pandas.Series({"c": 0.1, "a": 0.9}))
    assert model.thresholds == (0.9, 0.5, 0.1)
    with pytest.raises(InputError, match="has the unknown label 'x'"):
        model.predict(["a"], threshold=pandas.Series({"x": 0.1}), verbose=0)
    with pytest.raises(InputError, match="two values for 'a'"):
        model.thresholds = pandas.Series([0.1, 0.2], index=["a", "a"])
    task = text_task(new_model(["a", "b"], "classification"))
    examples = task.examples(["x", "y", "z"], ["a", "b", "a"])
    assert task.class_weights(examples, pandas.Series({"b": 3.0, "a": 2.0})) == [2.0, 3.0, 2.0]


@pytest.mark.parametrize("texts", [{"b", "a"}, frozenset("ab")])
def test_a_set_has_no_order_so_it_is_no_column(texts):
    with pytest.raises(InputError, match="must be a list. Received a set"):
        new_model(["a", "b"], "classification").predict(texts, verbose=0)
