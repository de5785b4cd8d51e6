"""Missing values in the columns that users pass: one message about all of them, or they are left out."""

import numpy as np
import pytest
from tiny_models import CONFIG as TWO_LAYERS
from tiny_models import VOCABULARY

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.missing_examples import complete_examples
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.tasks.sparse.model import SparseEncoder
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tasks.text_to_text.model import TextToText
from keras_bert.tokenization.user_inputs import as_texts

pytestmark = pytest.mark.usefixtures("without_graphs")

CONFIG = TWO_LAYERS.replace(num_hidden_layers=1)
NAN = float("nan")
KINDS = {
    "classifier": lambda: SequenceClassifier(CONFIG, labels=["a", "b"]),
    "scorer": lambda: SequenceClassifier(CONFIG, ["score"], problem_type="regression"),
    "multi_label": lambda: SequenceClassifier(CONFIG, labels=["a", "b"], problem_type="multi_label"),
    "tagger": lambda: TokenClassifier(CONFIG, labels=["O", "B-X", "I-X"]),
    "answerer": lambda: SpanClassifier(CONFIG),
    "chooser": lambda: MultipleChoice(CONFIG),
    "encoder": lambda: SentenceEncoder(CONFIG),
    "sparse": lambda: SparseEncoder(CONFIG),
    "ranker": lambda: CrossEncoder(CONFIG),
    "masked_lm": lambda: MaskedLM(CONFIG),
    "writer": lambda: TextToText(CONFIG),
}


class Series:
    """The interface of a pandas column, with its own index."""

    def __init__(self, values, index):
        self.values, self.index, self.iloc = values, index, None

    def to_list(self):
        return list(self.values)


class NAType:
    """pandas' NA is not even equal to itself."""

    def __bool__(self):
        raise TypeError

    __eq__ = __ne__ = lambda self, other: self


@pytest.fixture(scope="module")
def tasks():
    made = {name: make() for name, make in KINDS.items()}
    for model in made.values():
        model.vocabulary = VOCABULARY
    return {name: text_task(model) for name, model in made.items()}


# Task -> x and y of three examples, the second of which misses a value.
INCOMPLETE = [
    ("classifier", ["a", None, "c"], ["a", "b", "a"], "text is None"),
    ("classifier", np.array(["a", np.nan, "c"], object), ["a", "b", "a"], "text is nan"),
    ("classifier", ["a", " ", "c"], None, "text is ' '"),
    ("classifier", ["a", "b", "c"], ["a", NAType(), "b"], "label is"),
    ("classifier", ["a", "b", "c"], ["a", "", "b"], "label is ''"),
    ("classifier", (["a", "b", "c"], ["a", None, "b"]), None, "text of column 2 is None"),
    ("scorer", ["a", "b", "c"], np.array([1.0, np.nan, 2.0]), "label is nan"),
    ("multi_label", ["a", "b", "c"], [["a"], None, []], "label is None"),
    ("tagger", [["a"], ["b", None], ["c"]], [["O"], ["O", "O"], ["O"]], r"text is \['b', None\]"),
    ("tagger", [["a"], ["b", "c"], ["c"]], [["O"], ["O", NAN], ["O"]], r"label is \['O', nan\]"),
    ("answerer", (["a", None, "c"], ["a", "b", "c"]), [None, None, []], "text of column 1 is None"),
    ("answerer", (["a", "b", "c"], ["a", "", "c"]), {"text": ["a"] * 3, "answer_start": [0] * 3}, "column 2 is ''"),
    ("chooser", [["a", "b", "c"], [["x", "y"], ["x", None], ["x", "y"]]], [0, 1, 0], r"column 2 is \['x', None\]"),
    ("encoder", (["a", "b", "c"], ["a", None, "c"]), [0.5, 0.5, 1.0], "column 2 is None"),
    ("ranker", (["a", "b", "c"], ["a", "b", "c"]), [0.5, None, 1.0], "label is None"),
    ("masked_lm", ["a", None, ""], None, "text is None"),
    ("sparse", (["a", "b", "c"], ["a", "b", "c"], ["d", "e", "f"]), [1.0, NAN, 2.0], "label is nan"),
    ("writer", ["a", "b", "c"], ["a", NAN, "c"], "label is nan"),
]


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
    texts = Series(["a", "b", None, NAN], [np.int64(7), "x", np.int64(9), 1])
    with pytest.raises(InputError, match="3 of 4 rows .* row 1, counted from 0, index 'x': its label is ''"):
        complete_examples(tasks["classifier"], texts, Series(["a", "", "b", "b"], [7, "x", 9, 1]))
    with pytest.raises(InputError, match="2 of 4 rows .* row 2, counted from 0, index 9: its text is None"):
        complete_examples(tasks["classifier"], texts, ["a", "b", "a", "b"])


def test_what_is_complete_is_kept(tasks):
    kept = complete_examples(tasks["answerer"], (["a", "b"], "the context"), [None, []], skip_missing=True)
    assert (kept.contexts, kept.answers) == (["the context"] * 2, [[], []])
    assert complete_examples(tasks["classifier"], (one for one in ("a", "b"))).texts == ["a", "b"]
    assert complete_examples(tasks["multi_label"], ["a", "b"], [[], [0, 1]]).labels == [[], ["b"]]
    assert complete_examples(tasks["masked_lm"], ["a", ""]) == ["a", ""]


def test_nothing_is_left_is_an_error(tasks):
    with pytest.raises(InputError, match="all 2 rows have no value .* Nothing is left"):
        complete_examples(tasks["classifier"], [None, ""], ["a", "b"], skip_missing=True)


def test_fit_and_evaluate_leave_examples_out(tasks, capsys):
    model, texts, labels = tasks["classifier"].model, ["the fox", None, "of", "and"], ["a", "b", "b", NAN]
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
        tasks["scorer"].rows(tasks["scorer"].examples(["a", "b"], [number, 1.0]))
    if not isinstance(number, str):
        with pytest.raises(InputError, match="the score of example 1 must be a number"):
            tasks["encoder"].examples((["a", "b"], ["a", "b"]), [number, 1.0])
    for name, x in (("classifier", ["a", "b"]), ("tagger", ["a", "b"]), ("answerer", (["a", "b"], ["a", "b"]))):
        with pytest.raises(InputError, match="the weight of (example|sentence) 1 must be a number of 0 or more"):
            tasks[name].examples(x, None, [number, 1.0])
