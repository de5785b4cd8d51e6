"""The command that trains and evaluates question answering, as a user starts it, and the files that it writes."""

import json
import os

import keras
import pytest
import tiny
from documented_results import undocumented_keys

from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.training.question_answering import QuestionAnsweringOptions, predict_answers
from run_scripts import evaluate_squad, run_squad

NAMES, YEARS = ["ada", "alan", "grace"], ["1815", "1912", "1906"]
VOCABULARY = tiny.vocabulary("who when was born in ? .", *NAMES, *YEARS)
CONFIG = tiny.config(VOCABULARY, dropout=0.0, hidden_size=32, max_position_embeddings=32, initializer_range=0.1)


def squad(path, with_answers=True, with_negatives=True):
    paragraphs = []
    for name in NAMES:
        for year in YEARS:
            context = f"{name} was born in {year}."
            questions = [(f"who {name} {year}", "who?", name), (f"when {name} {year}", "when?", year)]
            paragraphs.append({"context": context, "qas": [squad_question(context, *row) for row in questions]})
        if with_negatives:
            context = f"was born in {YEARS[0]}"
            paragraphs.append({"context": context, "qas": [squad_question(context, f"none {name}", "who?", None)]})
    if not with_answers:
        for question in (question for paragraph in paragraphs for question in paragraph["qas"]):
            del question["answers"]
            question.pop("is_impossible", None)
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}), "utf-8")
    return path


def squad_question(context, name, question, text):
    answers = [{"text": text, "answer_start": context.index(text)}] if text else []
    return {"id": name, "question": question, "answers": answers} | ({} if text else {"is_impossible": True})


@pytest.fixture
def start(tmp_path):
    keras.utils.set_random_seed(0)  # One start in ten learns little.
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "start", VOCABULARY)
    return tmp_path / "start"


def read_json(path):
    return json.loads(path.read_text("utf-8"))


def test_squad_2_is_trained_answered_scored_and_tuned(tmp_path, start, done_here):
    pytest.importorskip("matplotlib")
    data = squad(tmp_path / "squad.json")
    output = tmp_path / "out"
    arguments = [f"--train_file={data}", f"--predict_file={data}", f"--output_dir={output}", "--max_seq_length=32"]
    arguments += [f"--init_checkpoint={start}", "--do_train", "--do_predict", "--version_2_with_negative"]
    arguments += ["--train_batch_size=7", "--num_train_epochs=60", "--learning_rate=4e-3", "--doc_stride=16"]
    done_here(run_squad, *arguments, "--tune_null_threshold")
    files = {"checkpoints", "errors.tsv", "eval_results.txt", "facts.json", "history.jsonl", "learning_curves.png"}
    files |= {"model", "nbest_predictions.json", "null_odds.json", "predictions.json", "reliability.png"}
    assert {*os.listdir(output)} == {*files, "reliability.txt", "run.json"}

    predictions, odds, nbest = (
        read_json(output / f"{name}.json") for name in ("predictions", "null_odds", "nbest_predictions")
    )
    assert predictions["who alan 1912"] == "alan"
    assert predictions["none alan"] == ""
    assert list(predictions) == list(odds) == list(nbest)
    assert odds["none alan"] > 0 > odds["who alan 1912"]
    assert list(nbest["who alan 1912"][0]) == ["text", "probability", "start_logit", "end_logit"]
    assert sum(entry["probability"] for entry in nbest["none alan"]) == pytest.approx(1.0)

    results = dict(line.split(" = ") for line in (output / "eval_results.txt").read_text().splitlines())
    assert not undocumented_keys(output / "eval_results.txt", "question_answering.md")
    threshold = float(results["null_score_diff_threshold"])
    assert SpanClassifier.from_pretrained(output / "model").null_threshold == threshold
    assert float(results["eval_best_f1_thresh"]) == threshold
    for name, text in predictions.items():
        assert text == ("" if odds[name] > threshold else next(entry["text"] for entry in nbest[name] if entry["text"]))
    official = done_here(evaluate_squad, data, output / "predictions.json").out
    assert json.loads(official)["f1"] == float(results["eval_f1"]) == float(results["eval_best_f1"])

    # The threshold and the windows are the model's from now on.
    unanswered = read(squad(tmp_path / "test.json", with_answers=False))
    again = predict_answers(tmp_path / "again", unanswered, init_checkpoint=output / "model", max_seq_length=32)
    assert [answer.text for answer in again] == list(predictions.values())
    assert sorted(os.listdir(tmp_path / "again")) == ["nbest_predictions.json", "null_odds.json", "predictions.json"]


def read(path, with_answers=False):
    from data_prep.finetuning.squad import read_squad

    return read_squad(path, has_answers=with_answers)


def span_model(folder, **arguments):
    SpanClassifier(CONFIG, **arguments).save_pretrained(folder, VOCABULARY)
    return folder


def test_errors_are_listed_with_the_worst_and_most_certain_first(tmp_path):
    examples = read(squad(tmp_path / "dev.json", with_negatives=False), with_answers=True)
    answers = predict_answers(tmp_path / "out", examples, init_checkpoint=span_model(tmp_path / "m"), max_seq_length=32)
    assert not (tmp_path / "out" / "null_odds.json").exists()
    header, *rows = [line.split("\t") for line in (tmp_path / "out" / "errors.tsv").read_text().splitlines()]
    assert header == ["id", "question", "answers", "predicted", "f1", "probability"]
    wrong = dict(zip(examples.ids, answers, strict=True))
    assert len(rows) > 5
    assert [(float(row[4]), -float(row[5])) for row in rows] == sorted((float(row[4]), -float(row[5])) for row in rows)
    for name, question, right, predicted, _, probability in rows:
        assert question in ("who?", "when?")
        assert predicted == wrong[name].text != right
        assert float(probability) == pytest.approx(wrong[name].probability, abs=1e-4)


def test_flags_take_precedence_over_what_the_model_has(tmp_path):
    examples = read(squad(tmp_path / "dev.json", with_negatives=False))
    # The threshold of the model, which may have been tuned, holds unless a flag gives another.
    for of_model, threshold, has_answer in ((1e6, None, True), (1e6, -1e6, False), (-1e6, None, False)):
        folder = span_model(tmp_path / f"m {of_model} {threshold}", null_threshold=of_model)
        options = QuestionAnsweringOptions(True, threshold, n_best_size=3, max_answer_length=2)
        out = tmp_path / f"out {of_model} {threshold}"
        answers = predict_answers(out, examples, questions=options, init_checkpoint=folder, max_seq_length=32)
        assert {answer.has_answer for answer in answers} == {has_answer}
        assert max(len(answer.nbest) for answer in answers) <= 4
        assert max(len(answer.best_text.split()) for answer in answers) <= 2


NO_ANSWER = {"id": "1", "context": "ada", "question": "who?", "answers": {"text": [], "answer_start": []}}
ANSWERED = {**NO_ANSWER, "id": "2", "answers": [{"text": "ada", "answer_start": 0}]}
TRAIN = "--do_train --train_file={file}"


@pytest.mark.parametrize(
    ("flags", "rows", "message"),
    [
        ("", [], "Nothing to do. Give --do_train, --do_predict or both"),
        ("--do_train", [], "--do_train needs --train_file."),
        ("--do_predict", [], "--do_predict needs --predict_file."),
        (TRAIN, [NO_ANSWER], "no question has an answer"),
        (TRAIN, [NO_ANSWER, ANSWERED], "the question '1' has no answer. If some questions are meant to have none, as"),
        ("--do_predict --predict_file={file} --tune_null_threshold", [NO_ANSWER], "needs answers"),
    ],
)
def test_bad_input_ends_in_one_line_before_anything_is_trained(tmp_path, flags, rows, message, refused_here):
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    printed = refused_here(run_squad, *flags.format(file=path).split(), f"--output_dir={tmp_path / 'out'}")
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
