"""Labels that users give: a name, a position, never one of two readings."""

import numpy as np
import pandas
import pytest
from tiny_checkpoints import CONFIG, VOCABULARY

from data_prep.finetuning.conll import read_tagged_sentences
from keras_bert import InputError, SequenceClassifier
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.label_names import label_name, label_names
from keras_bert.tasks.tagging.model import TokenClassifier

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


@pytest.mark.parametrize(
    ("value", "labels", "message"),
    [
        (1, STARS, "The label is 1: the position of '2', and the name of '1'. Write the name as a string: '2' or '1'."),
        (np.int64(4), STARS, "the position of '5', and the name of '4'"),
        (1.0, ["1.0", "2.0"], "is 1.0: the position of '2.0', and the name of '1.0'"),
        (1, ["01", "02"], "the position of '02', and the name of '01'"),
        (True, ["1", "0"], "is True: the position of '0', and the name of '1'"),
        (5, STARS, "from 0 to 4. Received: 5. Write the name as a string: '5'. The labels are: 1, 2"),
        (True, ["a", "b", "c"], "a name or a number from 0 to 2. Received: True"),
        (0.5, ["a", "b"], "Received: 0.5"),
        (float("nan"), ["a", "b"], "Received: nan"),
        (None, ["a", "b"], "Received: None"),
        (-1, ["a", "b"], "Received: -1"),
    ],
)
def test_a_number_that_may_be_two_labels_is_refused(value, labels, message):
    with pytest.raises(InputError, match=message):
        label_name(value, labels, "The label")


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
    model = SequenceClassifier(CONFIG, labels=STARS)
    model.vocabulary = VOCABULARY
    return model


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
    model = SequenceClassifier(CONFIG, labels=["a", "b"])
    model.vocabulary = VOCABULARY
    task = text_task(model)
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
    model = TokenClassifier(CONFIG, labels=STARS)
    model.vocabulary = VOCABULARY
    with pytest.raises(InputError, match="A tag of sentence 1 is 1: the position of '2', and the name of '1'"):
        model.evaluate([["the", "fox"]], [[1, 4]])
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["the", "fox"], "ner_tags": [1, 4]}\n')
    with pytest.raises(InputError, match="line 1: a tag in 'ner_tags' is 1: the position of '2'"):
        read_tagged_sentences(path, labels=STARS)
    assert read_tagged_sentences(path, labels=["O", "A", "B", "C", "D"]).tags == [["A", "D"]]
