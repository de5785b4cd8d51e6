"""Answers of every task become a table with a column for each field."""

import dataclasses
import importlib
import inspect
import sys

import numpy as np
import pandas
import pytest
from scipy import sparse

from keras_bert import InputError, answers_frame, registry
from keras_bert.tasks.classification.answers import LabelAnswer, LabelsAnswer, ScoreAnswer
from keras_bert.tasks.masked_lm.answers import Fill, FilledMask, FilledText
from keras_bert.tasks.multiple_choice.answers import ChoiceAnswer
from keras_bert.tasks.question_answering.answers import Candidate, FoundAnswer
from keras_bert.tasks.ranking.answers import RankedText
from keras_bert.tasks.sparse.answers import TokenWeights
from keras_bert.tasks.tagging.answers import EntityAnswer, TagsAnswer
from keras_bert.tasks.text_to_text.answers import WrittenText

CANDIDATE = Candidate("Ada", 0, 3, 0.5, 1.0, 2.0)
ENTITIES = (EntityAnswer("PER", 0, 3, "Ada", 0.9), EntityAnswer("LOC", 7, 12, "Paris", 0.8))
WORDS = TagsAnswer((), ("a", "fox"), ["DET", "NOUN"], (0.5, 0.6), None)
# Name -> answers, the columns of their table, and the number of the text of each row.
ANSWERS = {
    "labels": ([LabelAnswer("b", 0.7, {"a": 0.3, "b": 0.7})], "label probability probabilities.a probabilities.b", [0]),
    "several labels": (
        [LabelsAnswer((1,), {1: 0.7}), LabelsAnswer((), {2: 0.1})],
        "labels probabilities.1 probabilities.2",
        [0, 1],
    ),
    "scores": ([ScoreAnswer(0.5, {"score": 0.5})], "score scores.score", [0]),
    "choices": ([ChoiceAnswer(1, "b", 0.7, (0.3, 0.7))], "choice text probability probabilities", [0]),
    "found answers": (
        [FoundAnswer("Ada", 0, 3, 0.5, -1.0, (CANDIDATE,)), FoundAnswer("", None, None, 0.5)],
        "text start end probability null_score_difference",
        [0, 1],
    ),
    "entities": (
        [TagsAnswer(ENTITIES, (), [], (), None), TagsAnswer((), ("a",), ["O"], (0.9,), None), WORDS],
        "type start end text probability word tag",
        [0, 0, 2, 2],
    ),
    "masks": (
        [FilledText("a [MASK]", (FilledMask(2, (Fill("b", 5, 0.6, "a b"), Fill("c", 6, 0.2, "a c"))),), "a b")],
        "mask start token token_id score text",
        [0, 0],
    ),
    "written texts": ([WrittenText("a", -1.0, (("a", -1.0),))], "text score alternatives", [0]),
    "ranking": ([RankedText(1, "b", 0.9), RankedText(0, "a", 0.1)], "number text score", [0, 1]),
    "two rankings": (
        [[RankedText(1, "b", 0.9), RankedText(0, "a", 0.1)], [RankedText(0, "a", 0.5)]],
        "number text score",
        [0, 0, 1],
    ),
    "tokens": ([TokenWeights(("a",), (5,), (0.5,))], "tokens ids weights", [0]),
    "one answer": (RankedText(1, "b", 0.9), "number text score", [0]),
    "scores of pairs": (np.array([0.5, 0.25], np.float32), "score", [0, 1]),
    "vectors": (np.zeros((2, 3), np.float32), "0 1 2", [0, 1]),
    "vectors of tokens": ([np.zeros((2, 3)), np.zeros((1, 3))], "0 1 2", [0, 0, 1]),
    "sparse vectors": (sparse.csr_matrix(np.eye(2)), "0 1", [0, 1]),
    "nothing": ([], "", []),
    "no entities": ([TagsAnswer((), ("a",), ["O"], (0.9,), None)], "type start end text probability", []),
    "no masks": ([FilledText("a", (), "a")], "mask start token token_id score text", []),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_rows_and_their_fields_columns(name):
    answers, columns, examples = ANSWERS[name]
    frame = answers_frame(answers)
    assert " ".join(map(str, frame.columns)) == columns
    assert frame.index.tolist() == examples
    assert frame.index.name == "example"


def test_cells_have_the_values_of_the_fields():
    frame = answers_frame(ANSWERS["entities"][0])
    assert frame["text"].tolist()[:2] == ["Ada", "Paris"]
    assert frame["tag"].tolist()[2:] == ["DET", "NOUN"]
    assert answers_frame(ANSWERS["labels"][0])["probabilities.b"].tolist() == [0.7]


def test_the_index_of_the_texts_is_kept():
    test = pandas.DataFrame({"text": ["b", "a", "c"]}, index=[2, 0, 1])
    answers = [ScoreAnswer(float(ord(text))) for text in test["text"]]
    table = test.assign(score=answers_frame(answers, index=test.index)["score"])
    assert table["score"].tolist() == [98.0, 97.0, 99.0]
    names = pandas.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["document", "sentence"])
    for name, index in (("two rankings", names), ("scores of pairs", names), ("sparse vectors", names)):
        frame, examples = answers_frame(ANSWERS[name][0], index=index), ANSWERS[name][2]
        assert frame.index.equals(names.take(examples)), name
        assert frame.index.names == names.names
    assert answers_frame(ANSWERS["entities"][0], index=["x", "y", "x"]).index.tolist() == ["x"] * 4
    assert answers_frame(ANSWERS["labels"][0][0], index=[7]).index.tolist() == [7]
    assert answers_frame([], index=test.index[:0]).index.tolist() == []


def test_a_table_has_the_columns_that_are_asked_for_also_without_rows():
    for answers in (ANSWERS["labels"][0], [], [[]], np.zeros((0, 2))):
        frame = answers_frame(answers, columns=["probability", "label"])
        assert frame.columns.tolist() == ["probability", "label"]
        assert len(frame) == (answers is ANSWERS["labels"][0])
    assert answers_frame(np.eye(2), columns=[1])[1].tolist() == [0.0, 1.0]


LABEL = ANSWERS["labels"][0]


@pytest.mark.parametrize(
    ("answers", "options", "message"),
    [
        (LABEL, {"index": [1, 2]}, "an entry for each of the 1 texts. Received: 2"),
        (LABEL, {"index": {1}}, "index must be a list. Received a set"),
        (LABEL, {"index": {"a": 1}}, "index must be a list. Received: .'a'"),
        (LABEL, {"index": pandas.DataFrame({"text": ["a"]})}, "index must be a list. Received a table .* text"),
        (LABEL, {"columns": ["lable"]}, "no column 'lable'. They have: label, probability, probabilities.a"),
        (LABEL, {"columns": {"label"}}, "columns must be a list. Received a set"),
        (["a text"], {}, "the answers of predict. Received: 'a text'"),
        (ANSWERS["ranking"][0], {"index": ["x", "y"]}, r"one ranking.*frame.set_index\(index\[frame\['number'\]\]\)"),
    ],
)
def test_what_makes_no_table_is_refused(answers, options, message):
    with pytest.raises(InputError, match=message):
        answers_frame(answers, **options)


def test_a_ranking_has_the_numbers_of_its_texts():
    texts = pandas.Series(["a", "b"], index=["x", "y"])
    frame = answers_frame(ANSWERS["ranking"][0])
    assert frame.set_index(texts.index[frame["number"]])["text"].to_dict() == {"y": "b", "x": "a"}


def test_every_answer_class_of_the_registry_is_above():
    tasks = [registry.task(kind) for kind in registry.TASKS]
    modules = {task.export.answers.rpartition(".")[0] for task in tasks if task.export}
    found = {
        answer
        for module in modules
        for _, answer in inspect.getmembers(importlib.import_module(module), dataclasses.is_dataclass)
        if hasattr(answer, "readable")
    }
    assert len(found) >= 8
    assert found <= {type(one) for answers, *_ in ANSWERS.values() if isinstance(answers, list) for one in answers}


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs the package pandas.*pip install '.\[pandas\]'"):
        answers_frame([])
