"""Missing values in the columns that users pass: one message about all of them, or they are left out."""

import numpy as np
import pandas
import pytest
from tiny_models import new_model

from keras_bert import InputError
from keras_bert.program.user_inputs import as_texts
from keras_bert.tasks.base import text_task
from keras_bert.tasks.examples import complete_examples

pytestmark = pytest.mark.usefixtures("without_graphs")

NAN = float("nan")
# Name of a model in tiny_models.py -> x and y of three examples, the second of which misses a value.
INCOMPLETE = [
    ("pairs", ["a", None, "c"], ["a", "b", "a"], "text is None"),
    ("pairs", np.array(["a", np.nan, "c"], object), ["a", "b", "a"], "text is nan"),
    ("pairs", ["a", " ", "c"], None, "text is ' '"),
    ("pairs", ["a", "b", "c"], ["a", pandas.NA, "b"], "label is"),
    ("pairs", ["a", "b", "c"], ["a", "", "b"], "label is ''"),
    ("pairs", (["a", "b", "c"], ["a", None, "b"]), None, "text of column 2 is None"),
    ("regression", ["a", "b", "c"], np.array([1.0, np.nan, 2.0]), "label is nan"),
    ("several labels", ["a", "b", "c"], [["a"], None, []], "label is None"),
    ("tagger", [["a"], ["b", None], ["c"]], [["O"], ["O", "O"], ["O"]], r"text is \['b', None\]"),
    ("tagger", [["a"], ["b", "c"], ["c"]], [["O"], ["O", NAN], ["O"]], r"label is \['O', nan\]"),
    ("span", (["a", None, "c"], ["a", "b", "c"]), [None, None, []], "text of column 1 is None"),
    ("span", (["a", "b", "c"], ["a", "", "c"]), {"text": ["a"] * 3, "answer_start": [0] * 3}, "column 2 is ''"),
    ("choice", [["a", "b", "c"], [["x", "y"], ["x", None], ["x", "y"]]], [0, 1, 0], r"column 2 is \['x', None\]"),
    ("sentence encoder", (["a", "b", "c"], ["a", None, "c"]), [0.5, 0.5, 1.0], "column 2 is None"),
    ("cross-encoder", (["a", "b", "c"], ["a", "b", "c"]), [0.5, None, 1.0], "label is None"),
    ("masked words", ["a", None, ""], None, "text is None"),
    ("sparse encoder", (["a", "b", "c"], ["a", "b", "c"], ["d", "e", "f"]), [1.0, NAN, 2.0], "label is nan"),
    ("writer", ["a", "b", "c"], ["a", NAN, "c"], "label is nan"),
]


@pytest.fixture(scope="module")
def tasks():
    return {name: text_task(new_model(name)) for name in {row[0] for row in INCOMPLETE}}


@pytest.mark.parametrize(("name", "x", "y", "found"), INCOMPLETE)
def test_examples_without_a_value_are_counted_named_and_left_out(tasks, capsys, name, x, y, found):
    message = f"the examples: 1 of 3 rows have no value .* The first is row 1, counted from 0: its .*{found}"
    with pytest.raises(InputError, match=f"{message}.* with skip_missing=True"):
        complete_examples(tasks[name], x, y, skip_missing=False)
    with pytest.raises(InputError, match=message) as raised:
        complete_examples(tasks[name], x, y)
    assert "skip_missing" not in str(raised.value)  # prediction has an answer for each text
    assert len(complete_examples(tasks[name], x, y, skip_missing=True)) == 2
    assert capsys.readouterr().err == "the examples: 1 of 3 rows were left out, because a value is missing.\n"


def test_all_are_counted_and_the_first_has_the_index_of_the_user(tasks):
    texts = pandas.Series(["a", "b", None, NAN], [np.int64(7), "x", np.int64(9), 1], dtype=object)
    with pytest.raises(InputError, match="3 of 4 rows .* row 1, counted from 0, index 'x': its label is ''"):
        complete_examples(tasks["pairs"], texts, pandas.Series(["a", "", "b", "b"], texts.index))
    with pytest.raises(InputError, match="2 of 4 rows .* row 2, counted from 0, index 9: its text is None"):
        complete_examples(tasks["pairs"], texts, ["a", "b", "a", "b"])
    with pytest.raises(InputError, match="all 2 rows have no value .* Nothing is left"):
        complete_examples(tasks["pairs"], [None, ""], ["a", "b"], skip_missing=True)


def test_what_is_complete_is_kept(tasks):
    kept = complete_examples(tasks["span"], (["a", "b"], "the context"), [None, []], skip_missing=True)
    assert (kept.contexts, kept.answers) == (["the context"] * 2, [[], []])
    assert complete_examples(tasks["pairs"], (one for one in ("a", "b"))).texts == ["a", "b"]
    assert complete_examples(tasks["several labels"], ["a", "b"], [[], [0, 1, 0]]).labels == [[], ["b"]]
    assert complete_examples(tasks["masked words"], ["a", ""]) == ["a", ""]


def test_fit_and_evaluate_leave_examples_out(tasks, capsys):
    model, texts, labels = tasks["pairs"].model, ["the fox", None, "of", "and"], ["a", "b", "b", NAN]
    for call in (model.fit, model.evaluate):
        with pytest.raises(InputError, match="2 of 4 rows"):
            call(texts, labels, verbose=0)
    assert model.evaluate(texts, labels, skip_missing=True) == model.evaluate(["the fox", "of"], ["a", "b"])
    model.fit(texts, labels, validation_data=(texts, labels), skip_missing=True, verbose=0)
    assert capsys.readouterr().err.count("2 of 4 rows were left out") == 3
    with pytest.raises(InputError, match="2 of 4 rows"):
        model.fit(["a", "of"], ["a", "b"], validation_data=(texts, labels), verbose=0)
    with pytest.raises(InputError, match="predict on texts has no option skip_missing"):
        model.predict(texts, skip_missing=True)


def test_other_functions_name_all_missing_texts():
    with pytest.raises(InputError, match="The anchors: 2 of 3 rows .* anchor 1, counted from 0: it is None"):
        as_texts(["a", None, NAN], "anchor")
    assert as_texts(["a", ""]) == ["a", ""]


@pytest.mark.parametrize("number", [1e300, -1e39, 10**400, "9" * 400, float("inf")])
def test_numbers_that_32_bits_cannot_hold_are_refused(tasks, number):
    with pytest.raises(InputError, match="score of example 1 must be a|must be numbers"):
        tasks["regression"].rows(tasks["regression"].examples(["a", "b"], [number, 1.0]))
    if not isinstance(number, str):
        with pytest.raises(InputError, match="the score of example 1 must be a number"):
            tasks["sentence encoder"].examples((["a", "b"], ["a", "b"]), [number, 1.0])
    for name, x in (("pairs", ["a", "b"]), ("tagger", ["a", "b"]), ("span", (["a", "b"], ["a", "b"]))):
        with pytest.raises(InputError, match="the weight of (example|sentence) 1 must be a number of 0 or more"):
            tasks[name].examples(x, None, [number, 1.0])
