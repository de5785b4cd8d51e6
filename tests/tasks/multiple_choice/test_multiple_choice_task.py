"""Multiple choice on texts: prompts and choices in, selected choices out."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from numpy_bert import scatter_weights

from keras_bert import GraphTokenizer, InputError, MultipleChoice
from keras_bert.records import features
from keras_bert.tasks.multiple_choice.examples import choice_rows
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask

pytestmark = pytest.mark.usefixtures("without_graphs")

VOCABULARY = tiny.vocabulary("sky grass is blue green very")
CONFIG = tiny.config(VOCABULARY, dropout=0.0, hidden_size=32, intermediate_size=32, initializer_range=0.1)
PROMPTS = ["sky", "grass", "sky", "grass"]
CHOICES = [["blue", "green", "very"], ["is", "blue", "green"], ["green", "is", "blue"], ["green", "is", "blue"]]
RIGHT = [0, 2, 2, 0]


def new_model():
    return tiny.made(MultipleChoice, CONFIG, VOCABULARY, seed=0)


@pytest.fixture(scope="module")
def model():
    """A model that has learnt the examples by heart."""
    model = new_model()
    model.compile(optimizer=keras.optimizers.Adam(5e-3))
    model.fit((PROMPTS * 4, CHOICES * 4), RIGHT * 4, batch_size=16, epochs=60, verbose=0)
    return model


def test_each_choice_becomes_a_row_with_the_prompt():
    rows, is_cut = choice_rows(
        ["a", "b c d"], [["b", "c d"], ["a", "b"]], GraphTokenizer(tiny.vocabulary("a b c d")), 6
    )
    rows = rows.padded(6)
    assert rows["input_ids"].tolist() == [
        [[2, 5, 3, 6, 3, 0], [2, 5, 3, 7, 8, 3]],
        [[2, 6, 7, 3, 5, 3], [2, 6, 7, 3, 6, 3]],
    ]
    assert is_cut.tolist() == [False, True]


def test_the_right_choices_are_learnt_and_given_with_their_texts(model):
    answers = model.predict((PROMPTS, CHOICES))
    assert [(answer.choice, answer.text) for answer in answers] == [
        (0, "blue"),
        (2, "green"),
        (2, "blue"),
        (0, "green"),
    ]
    for answer in answers:
        assert answer.probability == max(answer.probabilities)
        assert sum(answer.probabilities) == pytest.approx(1)
        assert len(answer.probabilities) == 3


def test_scores_are_accuracy_and_the_loss_of_keras(model):
    right = [0, 2, 0, 0]
    scores = model.evaluate((PROMPTS, CHOICES), right)
    task = MultipleChoiceTask(model)
    batch = task.rows(task.examples((PROMPTS, CHOICES), right)).rows.batch(np.arange(4))
    assert batch["input_ids"].shape == (4, 3, 5)  # as long as the longest
    expected = model.evaluate(tf.data.Dataset.from_tensors(batch), verbose=0, return_dict=True)
    assert scores == pytest.approx({"accuracy": 0.75, "loss": expected["loss"]}, rel=1e-4)


def test_arrays_and_data_sets_are_taken_too(model):
    expected = model.evaluate((PROMPTS, CHOICES), RIGHT)
    assert model.evaluate((np.array(PROMPTS), np.array(CHOICES)), np.array(RIGHT)) == expected
    pairs = tf.data.Dataset.from_tensor_slices(((PROMPTS, CHOICES), RIGHT))
    assert model.evaluate(pairs) == expected
    assert model.evaluate(pairs.batch(3)) == expected


def test_cut_rows_are_counted(model, capsys):
    model.predict((["sky"] * 2, [["blue", "very " * 9], ["blue", "green"]]), max_seq_length=8)
    assert "the examples: 1 of 2 examples have a row that was cut to 8 tokens" in capsys.readouterr().err


def test_records_train_without_reshaping():
    from example_bytes import serialize

    record = features.multiple_choice_features(max_seq_length=4, num_choices=2)
    rows = {"input_ids": [2, 5, 8, 3, 2, 5, 9, 3], "input_mask": [1] * 8, "segment_ids": [0, 0, 1, 1] * 2}
    serialized = [serialize({**rows, "label_ids": [label], "is_real_example": [1]}, record) for label in (1, 0, 1)]
    dataset = tf.data.Dataset.from_tensor_slices(serialized).batch(3).map(lambda batch: features.parse(batch, record))
    model = new_model()
    scatter_weights(model)
    model.compile(optimizer="sgd")
    choices = {name: np.tile(np.reshape(values, (2, 4)), (3, 1, 1)) for name, values in rows.items()}
    logits = np.asarray(model(choices))
    assert abs(logits[0, 0] - logits[0, 1]) > 0.01
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(3), [1, 0, 1]]
    assert model.fit(dataset, verbose=0).history["loss"][0] == pytest.approx(losses.mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["a", "b"], [0, 0], "must be a tuple of two columns, .prompts, choices., .* Received"),
        ((["a", "b"], [["c", "d"], ["c"]]), [0, 0], "example 2 has 1 choices, but 2 are expected"),
        ((["a"], [["c"]]), [0], "needs two choices or more. Received: 1, in example 1"),
        ((["a"], ["cd"]), [0], "the choices of example 1 must be a list of texts"),
        ((["a", "b"], [["c", "d"]]), [0, 0], "2 prompts but choices for 1|the columns must have the same length"),
        ((["a"], [["c", " "]]), [0], r"its text of column 2 is \['c', ' '\]"),
        ((["a"], [["c", "d"]]), [2], "answer of example 1 must be the number of a choice, from 0 to 1. Received: 2"),
        ((["a"], [["c", "d"]]), ["c"], "must be the number of a choice, from 0 to 1. Received: 'c'"),
        ((["a"], [["c", "d"]]), [True], "must be the number of a choice, from 0 to 1. Received: True"),
        ((["a"], [["c", "d"]]), [0, 1], "1 prompts but answers for 2"),
        (([], []), [], "there is no example"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        new_model().fit(x, y)
