"""Texts, pairs and choices become rows, and their labels become numbers."""

import pytest
import tiny

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.examples import (
    TextExamples,
    checked_scores,
    in_label_order,
    label_ids,
    multi_hot_labels,
)
from keras_bert.tasks.multiple_choice.examples import ChoiceExamples
from keras_bert.tasks.multiple_choice.rows import choice_rows
from keras_bert.tasks.text_rows import text_rows
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

TOKENIZER = GraphTokenizer(tiny.vocabulary("a b c d"))


def test_texts_become_rows_and_cut_ones_are_told():
    rows, is_cut, _ = text_rows(["a", "a b c"], None, TOKENIZER, 4)
    rows = rows.padded(4)
    assert rows["input_ids"].tolist() == [[2, 5, 3, 0], [2, 5, 6, 3]]
    assert rows["input_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert is_cut.tolist() == [False, True]


def test_pairs_become_rows_with_two_segments():
    rows, is_cut, _ = text_rows(["a b", "a b c"], ["c", "c"], TOKENIZER, 6)
    rows = rows.padded(6)
    assert rows["input_ids"].tolist() == [[2, 5, 6, 3, 7, 3], [2, 5, 6, 3, 7, 3]]
    assert rows["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1]] * 2
    assert is_cut.tolist() == [False, True]


def test_each_choice_becomes_a_row_with_the_prompt():
    rows, is_cut = choice_rows(["a", "b c d"], [["b", "c d"], ["a", "b"]], TOKENIZER, 6)
    rows = rows.padded(6)
    assert rows["input_ids"].tolist() == [
        [[2, 5, 3, 6, 3, 0], [2, 5, 3, 7, 8, 3]],
        [[2, 6, 7, 3, 5, 3], [2, 6, 7, 3, 6, 3]],
    ]
    assert is_cut.tolist() == [False, True]


def test_numbers_are_ordered_as_numbers():
    assert in_label_order(["10", "9", "9"]) == ["9", "10"]
    assert in_label_order(["no", "10", "9"]) == ["10", "9", "no"]


def test_labels_that_are_not_known_are_refused_by_name():
    examples = TextExamples(["a", "b"], labels=["yes", "maybe"], source="dev.tsv")
    with pytest.raises(
        InputError, match="dev.tsv: the label 'maybe' of example 2 is unknown: it does not occur in training"
    ):
        label_ids(examples, ["yes", "no"])
    with pytest.raises(
        InputError, match="dev.tsv: the label 'c' of example 2 is unknown: it does not occur.*The labels are: a, b"
    ):
        multi_hot_labels([["a"], ["b", "c"]], ["a", "b"], "dev.tsv")


def test_sets_of_labels_become_zeros_and_ones():
    assert multi_hot_labels([["b", "a"], []], ["a", "b", "c"]).tolist() == [[1, 1, 0], [0, 0, 0]]


def test_scores_must_be_finite():
    assert checked_scores([1, 2.5]).tolist() == [1.0, 2.5]
    with pytest.raises(InputError, match="dev.tsv: the score of example 2 must be a finite number. Received: nan"):
        checked_scores([1.0, float("nan")], "dev.tsv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "there is no example"),
        ((["a"], [["b"]]), "needs two choices or more. Received: 1"),
        ((["a", "a"], [["b", "c"]]), "2 prompts but choices for 1"),
        ((["a", "a"], [["b", "c"], ["b"]]), "example 2 has 1 choices, but 2 are expected"),
        (
            (["a"], [["b", "c"]], [2]),
            "the answer of example 1 must be the number of a choice, from 0 to 1. Received: 2",
        ),
    ],
)
def test_choices_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        ChoiceExamples(*arguments)
