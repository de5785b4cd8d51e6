"""The official scores, on real predictions and, for each rule, on answers checked by hand."""

import json

import loaded_commands
import pytest

from keras_bert.program.errors import InputError
from keras_bert.tasks.question_answering.scores import (
    QuestionScore,
    best_threshold,
    normalized_answer,
    score_question,
    squad_scores,
)


def run(*arguments):
    return loaded_commands.run("run_scripts.evaluate_squad", *arguments)


def squad_file(path, version="v2.0"):
    """Two questions that have an answer and one that has none."""
    context = "Ada Lovelace wrote the first program in 1843."
    questions = [
        {"id": "who", "question": "Who?", "answers": [{"text": "Ada Lovelace", "answer_start": 0}]},
        {"id": "when", "question": "When?", "answers": [{"text": "1843", "answer_start": 40}]},
        {"id": "why", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    data = {"version": version, "data": [{"paragraphs": [{"context": context, "qas": questions}]}]}
    path.write_text(json.dumps(data), "utf-8")
    return path


@pytest.mark.parametrize(
    ("version", "system", "exact", "f1"),
    [
        pytest.param("v1.1", "r-net", 82.46925260170293, 88.47785965423243, marks=pytest.mark.slow),
        ("v2.0", "nlnet", 75.82750779078582, 78.77776770381455),
    ],
)
def test_real_predictions_have_the_figures_of_the_official_scripts(shared_data, version, system, exact, f1):
    predictions = shared_data("squad", f"predictions-{version}-{system}.json")
    result = run(shared_data("squad", f"dev-{version}.json"), predictions)
    assert result.returncode == 0, result.stderr
    scores = json.loads(result.stdout)
    assert (scores["exact"], scores["f1"]) == (exact, f1)


def test_case_punctuation_and_articles_do_not_count():
    assert normalized_answer("The U.S.,  an\tIsland") == "us island"
    assert normalized_answer("anthem of a theatre") == "anthem of theatre"
    assert normalized_answer("the 《红楼梦》") == "《红楼梦》"  # as in the official script, which only knows English


def test_f1_counts_words_that_repeat_as_often_as_both_have_them():
    # Expected a b b, predicted b b b: two in common, precision 2/3, recall 2/3.
    assert score_question(["x b b"], "b b b") == QuestionScore(0, pytest.approx(2 / 3))
    assert score_question(["x", "b b b"], "b b b") == QuestionScore(1, 1.0)
    assert score_question(["x"], "y") == QuestionScore(0, 0.0)


def test_what_is_left_of_an_answer_decides_whether_it_is_one():
    assert score_question([], "") == QuestionScore(1, 1.0)
    assert score_question([], "x") == QuestionScore(0, 0.0)
    assert score_question(["the", "x"], "") == QuestionScore(0, 0.0)
    assert score_question(["the"], "an") == QuestionScore(1, 1.0)
    assert score_question(["the"], "an", as_in_1_1=True) == QuestionScore(1, 0.0)
    with pytest.raises(InputError, match="Use the rules of 2.0"):
        score_question([], "", as_in_1_1=True)


def test_a_language_of_mlqa_has_its_own_words():
    assert normalized_answer("في القاهرة،", "ar") == "في قاهرة"
    assert normalized_answer("《红楼梦》 Cao 1791年", "zh") == "红 楼 梦 cao 1791 年"
    assert normalized_answer("¿El río?", "es") == "río"
    # ASCII symbols that Unicode does not count as punctuation, such as $ and +, are removed too.
    assert normalized_answer("$5 + 3 = €8", "de") == "5 3 €8"
    # Two of three characters are right; by the rules of SQuAD this is one wrong word.
    assert score_question(["曹雪芹"], "曹雪", language="zh").f1 == pytest.approx(0.8)
    assert score_question(["曹雪芹"], "曹雪").f1 == 0
    with pytest.raises(InputError, match="language must be one of ar, de.* Received: 'fr'"):
        normalized_answer("x", "fr")


def test_questions_with_and_without_an_answer_have_figures_of_their_own():
    answers = {"a": ["x y"], "b": ["x"], "c": []}
    scores = squad_scores(answers, {"a": "x", "b": "x", "c": "x", "unknown": "x"})
    assert scores == {
        "exact": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (2 / 3 + 1) / 3),
        "total": 3,
        "HasAns_exact": 50.0,
        "HasAns_f1": pytest.approx(100 * (2 / 3 + 1) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 0.0,
        "NoAns_f1": 0.0,
        "NoAns_total": 1,
    }
    assert "NoAns_total" not in squad_scores({"a": ["x"]}, {"a": "x"})
    assert squad_scores({"a": ["x"], "b": []}, {"a": "x"})["exact"] == 50  # one has no prediction


def test_odds_over_the_threshold_mean_no_answer():
    answers = {"a": ["x"], "b": []}
    predictions, odds = {"a": "x", "b": "y"}, {"a": -3.0, "b": 2.0}
    assert squad_scores(answers, predictions, null_odds=odds)["exact"] == 100
    assert squad_scores(answers, predictions, null_odds=odds, null_threshold=2.0)["exact"] == 50
    assert squad_scores(answers, predictions, null_odds=odds, null_threshold=-4.0)["exact"] == 50


def test_the_best_threshold_is_the_odds_of_the_last_question_that_is_worth_answering():
    answers = {"a": ["x"], "b": [], "c": ["x y"], "d": []}
    predictions = dict.fromkeys(answers, "x")
    odds = {"a": -5.0, "b": -2.0, "c": -3.0, "d": 4.0}
    scores = squad_scores(answers, predictions, null_odds=odds, null_threshold=9.0)
    # Unanswered b and d: 2. With a: 3. With c, F1 2/3: 3.67, exact 3. With b: one less.
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, -5.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (pytest.approx(100 * (3 + 2 / 3) / 4), -3.0)
    assert scores["exact"] == 25


def test_an_answer_to_a_question_without_one_costs_as_much_as_a_right_answer_earns():
    answers = {"first": ["x"], "without": [], "last": ["y"]}
    predictions = {"first": "x", "without": "z", "last": "y"}
    earned = {"first": 1.0, "without": 0.0, "last": 1.0}
    odds = {"first": -3.0, "without": -2.0, "last": -1.0}
    # Right with none answered: 1; the first: 2; the first two: 1; all: 2.
    assert best_threshold(answers, predictions, earned, odds) == (pytest.approx(200 / 3), -3.0)


@pytest.mark.parametrize(("odds", "threshold"), [(1.0, 0.0), (0.0, -1.0), (-3.0, -4.0)])
def test_where_answering_never_pays_the_threshold_keeps_no_answer(odds, threshold):
    assert best_threshold({"a": []}, {"a": "x"}, {"a": 0.0}, {"a": odds}) == (100.0, threshold)
    assert best_threshold({"a": []}, {"a": ""}, {"a": 1.0}, {"a": odds}) == (100.0, threshold)


def test_the_command_writes_the_figures_and_says_what_has_no_prediction(tmp_path):
    data = squad_file(tmp_path / "dev.json")
    (tmp_path / "predictions.json").write_text('{"who": "Ada", "why": "for fun"}')
    (tmp_path / "odds.json").write_text('{"who": -1, "when": 0, "why": 1.5}')
    result = run(
        data,
        tmp_path / "predictions.json",
        f"--na_prob_file={tmp_path / 'odds.json'}",
        f"--out_file={tmp_path / 'scores.json'}",
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "1 questions have no prediction and score 0, such as 'when'\n"
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 1) / 3)
    assert scores["best_f1_thresh"] == -1


def test_the_rules_of_1_1_are_those_of_files_of_that_version(tmp_path):
    question = {"id": "a", "question": "Which article?", "answers": [{"text": "the", "answer_start": 0}]}
    for version, f1 in (("1.1", 0.0), ("v2.0", 100.0)):
        data = {"version": version, "data": [{"paragraphs": [{"context": "the word", "qas": [question]}]}]}
        (tmp_path / "dev.json").write_text(json.dumps(data))
        (tmp_path / "predictions.json").write_text('{"a": "the"}')
        assert json.loads(run(tmp_path / "dev.json", tmp_path / "predictions.json").stdout)["f1"] == f1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "predictions.json is not JSON"),
        ("[]", r"must be a JSON object {id: a text}. Received: list"),
        ('{"who": 3}', "the value of 'who' must be a text. Received: 3"),
        ('{"other": "x"}', "no prediction for any question of the data."),
    ],
)
def test_predictions_that_cannot_be_used_are_refused(tmp_path, content, message):
    data = squad_file(tmp_path / "dev.json")
    (tmp_path / "predictions.json").write_text(content)
    result = run(data, tmp_path / "predictions.json")
    assert (result.returncode, result.stderr[:7]) == (1, "error: ")
    assert message in result.stderr


def test_missing_files_odds_and_questions_are_named(tmp_path):
    result = run(tmp_path / "dev.json")
    assert result.returncode == 2
    assert "Expected: data.json predictions.json. Missing: predictions.json." in result.stderr
    assert "Unexpected argument 'three'" in run("one", "two", "three").stderr
    with pytest.raises(InputError, match="must have null odds. Received: 1 questions without, such as 'b'"):
        squad_scores({"a": ["x"], "b": []}, {}, null_odds={"a": 1.0})
    with pytest.raises(InputError, match="no question"):
        squad_scores({}, {})
