import gzip
import json

import pytest

from data_prep.finetuning.squad import read_squad
from keras_bert.program.errors import InputError
from keras_bert.tasks.question_answering.examples import Answer

QUESTIONS = [
    {"id": "1", "question": "Which?", "answers": [{"text": "b", "answer_start": 2}, {"text": "a", "answer_start": 0}]},
    {"id": "2", "question": "Who?", "is_impossible": True, "answers": [], "plausible_answers": [{"text": "c"}]},
]
FILE = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "a b", "qas": QUESTIONS}]}]}


def test_questions_are_read_with_contexts_and_answers(write):
    found = read_squad(write("a.json", FILE))
    assert (found.ids, found.questions, found.contexts) == (["1", "2"], ["Which?", "Who?"], ["a b", "a b"])
    assert found.answers == [[Answer("b", 2), Answer("a", 0)], []]
    assert read_squad(write("a.json", FILE), has_answers=False).answers is None
    assert read_squad(write("a.json.gz", gzip.compress(json.dumps(FILE).encode()))).ids == ["1", "2"]


@pytest.mark.parametrize("value", ["false", "true", True, 1])
def test_the_answers_tell_whether_there_is_one_as_in_the_official_script(write, value):
    marked = [{**QUESTIONS[0], "is_impossible": value}, {**QUESTIONS[1], "is_impossible": value}]
    found = read_squad(write("a.json", {"data": [{"paragraphs": [{"context": "a b", "qas": marked}]}]}))
    assert list(map(bool, found.answers)) == [bool(question["answers"]) for question in marked] == [True, False]


def test_json_lines_have_answers_in_columns_or_in_rows(write):
    rows = [
        {"id": 1, "question": "Which?", "context": "a b", "answers": {"text": ["b"], "answer_start": [2]}},
        {"id": 2, "question": "Who?", "context": "a b", "answers": [{"text": "a", "answer_start": 0}]},
        {"id": 3, "question": "When?", "context": "a b", "answers": {"text": [], "answer_start": []}},
    ]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert read_squad(path).answers == [[Answer("b", 2)], [Answer("a", 0)], []]
    assert read_squad(path).ids == ["1", "2", "3"]


def test_a_list_of_answers_must_not_be_missing_between_others(write, caplog):
    rows = [
        {"id": "1", "question": "Who?", "context": "a b", "answer": {"text": ["b"], "answer_start": [2]}},
        {"id": "2", "question": "Who?", "context": "a b", "answers": {"text": ["b"], "answer_start": [2.0]}},
        {"id": "3", "question": "Who?", "context": "a b", "is_impossible": True},
    ]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    with pytest.raises(InputError, match="1 of 3 rows .* line 1: question '1': there is no list 'answers'"):
        read_squad(path)
    found = read_squad(path, skip_missing=True)
    assert (found.ids, found.answers) == (["2", "3"], [[Answer("b", 2)], []])
    assert read_squad(path, has_answers=None, skip_missing=True).answers == found.answers
    caplog.clear()
    assert read_squad(path, has_answers=None).answers is None
    assert "a.jsonl: 2 of 3 rows have labels, so none are read" in caplog.text
    paragraphs = [{"context": "a b", "qas": [QUESTIONS[0], {"id": "4", "question": "When?"}]}]
    with pytest.raises(InputError, match="1 of 2 rows .* article 1, paragraph 1: question '4': there is no list"):
        read_squad(write("a.json", {"data": [{"paragraphs": paragraphs}]}))
    none = write("a.json", {"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "4", "question": "When?"}]}]}]})
    assert read_squad(none, has_answers=None).answers is None


def test_half_a_surrogate_pair_keeps_the_offsets(write):
    paragraph = {"context": "\ud83d b", "qas": [{**QUESTIONS[0], "answers": [{"text": "b", "answer_start": 2}]}]}
    found = read_squad(write("a.json", {"data": [{"paragraphs": [paragraph]}]}))
    assert found.contexts == ["\ufffd b"]


def test_the_files_of_squad_are_read_whole(shared_data):
    dev = read_squad(shared_data("squad/dev-v1.1.json"))
    assert (len(dev), all(dev.answers)) == (10570, True)
    negative = read_squad(shared_data("squad/dev-v2.0.json"))
    assert (len(negative), sum(not answers for answers in negative.answers)) == (11873, 5945)


def with_question(**changes):
    question = {**QUESTIONS[0], **changes}
    return {"data": [{"paragraphs": [{"context": "a b", "qas": [question]}]}]}


REFUSED = [
    (None, "There is no file .*a.json"),
    (b"{", "a.json is not JSON"),
    ([], "there is no list 'data'. Expected a SQuAD file"),
    ({"data": [{"paragraphs": [{"context": "a"}]}]}, "article 1, paragraph 1: there is no list 'qas'"),
    ({"data": []}, "has no question"),
    (with_question(question=" "), "article 1, paragraph 1: 'question' must be a non-empty text"),
    (with_question(id=None), "'id' must be a non-empty text. Received: None"),
    (with_question(answers=["b"]), "question '1': each answer must have a text and a number answer_start"),
    (with_question(answers=[{"text": "b", "answer_start": "2"}]), "and a number answer_start"),
    (with_question(answers=None), "1 of 1 rows .* question '1': there is no list 'answers', not even an empty one"),
    (b"caf\xe9", "is not UTF-8: byte 0xe9 in line 1"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_a_bad_file_is_refused_with_its_place(write, tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_squad(tmp_path / "a.json" if content is None else write("a.json", content))


def test_questions_without_a_text_or_context_are_counted_or_left_out(write, caplog):
    blank = {**QUESTIONS[0], "id": "3", "question": " "}
    paragraphs = [{"context": "a b", "qas": [*QUESTIONS, blank]}, {"context": None, "qas": QUESTIONS}]
    path = write("a.json", {"data": [{"paragraphs": paragraphs}]})
    with pytest.raises(InputError, match="3 of 5 rows .* number 2, .* at article 1, paragraph 1: 'question'"):
        read_squad(path)
    assert read_squad(path, skip_missing=True).ids == ["1", "2"]
    assert "3 of 5 rows were left out" in caplog.text
