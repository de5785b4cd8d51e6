"""Labels that users give: a name, a position, never one of two readings, and answered in their own type."""

import enum
import json
import pickle

import keras
import numpy as np
import pandas
import pytest
import tiny
import tiny_models
from tiny_checkpoints import CONFIG, VOCABULARY
from tiny_models import TEXTS, assert_same_answers

from data_prep.finetuning.conll import read_tagged_sentences
from keras_bert import InputError, SequenceClassifier, TokenClassifier
from keras_bert.serving import load
from keras_bert.tasks.base import text_task
from keras_bert.tasks.classification.examples import (
    TextExamples,
    checked_scores,
    in_label_order,
    label_ids,
    multi_hot_labels,
)
from keras_bert.tasks.label_names import label_name, label_names

pytestmark = pytest.mark.usefixtures("without_graphs")

STARS = ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("value", "labels", "name"),
    [
        ("x", ["a", "b"], "x"),
        (1, ["a", "b"], "b"),
        (np.int64(1), ["a", "b"], "b"),
        (1.0, ["a", "b"], "b"),
        (np.float32(0), ["a", "b"], "a"),
        (2, ["0", "1", "2"], "2"),
        (0, STARS, "1"),
        (True, ["False", "True"], "True"),
        (True, ["true", "false"], "true"),
        (np.False_, ["yes", "no"], "no"),
        (True, ["bad", "good"], "good"),
    ],
)
def test_a_label_is_a_name_or_a_position(value, labels, name):
    assert label_name(value, labels, "The label") == name


UNKNOWN = TextExamples(["a", "b"], labels=["yes", "maybe"], source="dev.tsv")
SIZES = enum.Enum("SIZES", ["SMALL"])


def named(value, labels=STARS, label_type="str"):
    return lambda: label_name(value, labels, "The label", label_type)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (named(1), "is 1: the position of '2', and the name of '1'. Write the name as a string: '2' or '1'."),
        (named(np.int64(4)), "the position of '5', and the name of '4'"),
        (named(1.0, ["1.0", "2.0"]), "is 1.0: the position of '2.0', and the name of '1.0'"),
        (named(1, ["01", "02"]), "the position of '02', and the name of '01'"),
        (named(True, ["1", "0"]), "is True: the position of '0', and the name of '1'"),
        (named(5), "from 0 to 4. Received: 5. Write the name as a string: '5'. The labels are: 1, 2"),
        (named(True, ["a", "b", "c"]), "a name or a number from 0 to 2. Received: True"),
        (named(0.5, ["a", "b"]), "Received: 0.5"),
        (named(float("nan"), ["a", "b"]), "Received: nan"),
        (named(None, ["a", "b"]), "Received: None"),
        (named(-1, ["a", "b"]), "Received: -1"),
        (named(0, ["1", "10"], "int"), "must be one of the labels, of the type int: .*Received: 0"),
        (named(True, ["1", "10"], "int"), "must be one of the labels, of the type int: .*Received: True"),
        (named(1, ["True", "False"], "bool"), "must be one of the labels, of the type bool: .*Received: 1"),
        (named(None, ["1", "10"], "float"), "must be one of the labels, of the type float: .*Received: None"),
        (lambda: label_ids(UNKNOWN, ["yes", "no"]), "dev.tsv: the label 'maybe' of example 2 is unknown"),
        (
            lambda: multi_hot_labels([["a"], ["b", "c"]], ["a", "b"], "dev.tsv"),
            "'c' of example 2 is unknown.*are: a, b",
        ),
        (lambda: new_model([("a", "b"), ("c", "d")]), r"\('a', 'b'\), and JSON files could not give it back"),
        (
            lambda: new_model([SIZES.SMALL, "b"]),
            "<SIZES.SMALL: 1>, and JSON files could not give it back. Give its name",
        ),
        (lambda: new_model([None, "b"]), "a truth value or a finite float. Received: None, and it marks a missing lab"),
        (lambda: new_model([float("nan"), 1.0]), "Received: nan, and it marks a missing label"),
        (lambda: new_model(["a", 1]), "labels must be of one type. Received: int, str"),
    ],
)
def test_a_value_that_is_no_label_or_may_be_two_is_refused(read, message):
    with pytest.raises(InputError, match=message):
        read()


def test_zeros_and_ones_are_marks_unless_they_are_names():
    assert label_names([0, 1], ["a", "b"], "y") == ["b"]
    assert label_names([1.0, 0.0, 1.0], ["0", "1", "2"], "y") == ["0", "2"]
    assert label_names([True, False], ["0", "1"], "y") == ["0"]
    with pytest.raises(InputError, match=r"y are \[1, 0\]: names, or 0 or 1 for each of the labels 0, 1. Write names"):
        label_names([1, 0], ["0", "1"], "y")
    with pytest.raises(InputError, match="must be a list of names, or 0 or 1 for each of the 2 labels"):
        label_names([[1], [0]], ["a", "b"], "y")


@pytest.fixture(scope="module")
def classifier():
    return tiny.made(SequenceClassifier, CONFIG, VOCABULARY, STARS)


@pytest.mark.parametrize("y", [[1, 4], np.array([1, 4]), np.array([1.0, 4.0])])
def test_every_use_of_labels_refuses_them(classifier, y):
    texts = ["the fox", "the"]
    uses = [
        lambda: classifier.fit(texts, y, verbose=0),
        lambda: classifier.evaluate(texts, y, verbose=0),
        lambda: classifier.calibrate(texts, y),
        lambda: classifier.fit(texts, ["1", "5"], validation_data=(texts, y), verbose=0),
        lambda: classifier.fit(texts, ["1", "5"], class_weight=dict.fromkeys(list(y), 2.0), verbose=0),
        lambda: classifier.explain(texts, list(np.asarray(y, int))),
    ]
    for use in uses:
        with pytest.raises(InputError, match=r"the position of '2', and the name of '1'"):
            use()


def test_class_weights_take_names_positions_and_numpy_integers():
    task = text_task(tiny.made(SequenceClassifier, CONFIG, VOCABULARY, ["a", "b"]))
    examples = task.examples(["the", "fox"], ["a", "b"])
    assert task.class_weights(examples, {np.int64(1): 3.0}) == [1.0, 3.0]
    assert task.class_weights(examples, {0: 2.0, "b": 3.0}) == [2.0, 3.0]
    assert task.class_weights(examples, pandas.Series({"b": 3.0, "a": 2.0})) == [2.0, 3.0]
    with pytest.raises(InputError, match="class_weight has two values for the label"):
        task.class_weights(examples, {0: 2.0, "a": 3.0})
    with pytest.raises(InputError, match="class_weight has two values for 'a'. Received a Series whose index has it"):
        task.class_weights(examples, pandas.Series([1.0, 2.0], index=["a", "a"]))
    for weights in (np.ones(2), pandas.DataFrame({"a": [1.0], "b": [1.0]}), "balance"):
        with pytest.raises(InputError, match='must be a dictionary label -> weight, or "balanced". Received: '):
            task.class_weights(examples, weights)


def test_tags_are_read_by_the_same_rule(tmp_path):
    model = tiny.made(TokenClassifier, CONFIG, VOCABULARY, STARS)
    with pytest.raises(InputError, match="A tag of sentence 1 is 1: the position of '2', and the name of '1'"):
        model.evaluate([["the", "fox"]], [[1, 4]])
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["the", "fox"], "ner_tags": [1, 4]}\n')
    with pytest.raises(InputError, match="line 1: a tag in 'ner_tags' is 1: the position of '2'"):
        read_tagged_sentences(path, labels=STARS)
    assert read_tagged_sentences(path, labels=["O", "A", "B", "C", "D"]).tags == [["A", "D"]]


ASKED = TEXTS[:4]


def new_model(labels, problem_type="classification", **arguments):
    config = tiny_models.CONFIG.replace(num_hidden_layers=1)
    return tiny.made(SequenceClassifier, config, tiny_models.VOCABULARY, labels, problem_type, **arguments)


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


def test_labels_given_anew_have_their_own_type(tmp_path):
    new_model([20, 10]).save_pretrained(tmp_path / "folder")
    assert not SequenceClassifier.from_pretrained(tmp_path / "folder", labels=[20, 10]).new_parts.untrained()
    assert SequenceClassifier.from_pretrained(tmp_path / "folder", labels=["20", "10"]).label_values == ("20", "10")
    for label_type in ("int", "tuple"):
        with pytest.raises(InputError, match="The label 'a' is no int|label_type must be one of str, int, bool, float"):
            new_model(["a", "b"], label_type=label_type)


def test_numbers_are_ordered_as_numbers():
    assert in_label_order(["10", "9", "9"]) == ["9", "10"]
    assert in_label_order(["no", "10", "9"]) == ["10", "9", "no"]


def test_sets_of_labels_become_zeros_and_ones():
    assert multi_hot_labels([["b", "a"], []], ["a", "b", "c"]).tolist() == [[1, 1, 0], [0, 0, 0]]


def test_scores_must_be_finite():
    assert checked_scores([1, 2.5]).tolist() == [1.0, 2.5]
    with pytest.raises(InputError, match="dev.tsv: the score of example 2 must be a finite number. Received: nan"):
        checked_scores([1.0, float("nan")], "dev.tsv")
