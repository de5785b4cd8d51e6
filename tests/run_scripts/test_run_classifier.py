"""The command that trains, evaluates and applies a classifier, as a user starts it."""

import json
import os
import re

import numpy as np
import pytest
from classifier_command import CONFIG, VOCABULARY, from_scratch, write_files
from documented_results import undocumented_keys

from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from run_scripts import run_classifier


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path)


def test_a_data_folder_is_trained_on_evaluated_and_predicted(folder, done_here, eagerly):
    output = folder / "out"
    all_parts = ["--do_train", "--do_eval", "--do_predict", "--train_batch_size=4", "--num_train_epochs=1"]
    arguments = [f"--data_dir={folder}", f"--output_dir={output}", *from_scratch(folder), *all_parts]
    printed = done_here(run_classifier, *arguments)
    files = {"checkpoints", "eval_report", "eval_results.txt", "facts.json", "history.jsonl", "model", "run.json"}
    files |= {"test_predictions.tsv", "test_results.tsv"}
    assert {*os.listdir(output)} - {"learning_curves.png"} == files
    assert "eval_majority_rate = 0.6666666666666666" in (output / "eval_results.txt").read_text()
    assert not undocumented_keys(output / "eval_results.txt", "classification.md")
    assert "always answering 'yes' would have 0.6667" in printed.out
    model = SequenceClassifier.from_pretrained(output / "model")
    assert model.labels == ("no", "yes")
    texts = [line.split("\t")[0] for line in (folder / "test.tsv").read_text().splitlines()[1:]]
    expected = [[*answer.probabilities.values()] for answer in model.predict(texts)]
    np.testing.assert_allclose(np.loadtxt(output / "test_results.tsv"), expected, atol=1e-5)
    card = (output / "model" / "README.md").read_text()
    assert f"```sh\nrun_classifier --data_dir={folder} --output_dir" in card
    assert "| train examples | 18 |" in card
    assert re.search(r"\| eval\\_accuracy \| 0\.\d{4} \|", card)
    assert "* scores on held-out data" not in card


def test_scores_are_learnt_and_predicted(folder, done_here, eagerly):
    (folder / "scores.tsv").write_text("a\tb\ngood\t1\nbad film\t0\nthe film\t0.5\n")
    files = [f"--{kind}_file={folder}/scores.tsv" for kind in ("train", "test")]
    run = ["--text_column=a", "--label_column=b", "--problem_type=regression", f"--output_dir={folder}/out"]
    done_here(run_classifier, *files, *run, *from_scratch(folder), "--do_train", "--do_predict")
    model = SequenceClassifier.from_pretrained(folder / "out" / "model")
    expected = [answer.score for answer in model.predict(["good", "bad film", "the film"])]
    np.testing.assert_allclose(np.loadtxt(folder / "out" / "test_results.tsv"), expected, atol=1e-5)


def test_thresholds_are_chosen_kept_and_replaced_by_a_flag(folder, done_here, eagerly):
    output = folder / "out"
    files = [f"--data_dir={folder}", f"--output_dir={output}", "--problem_type=multi_label"]
    printed = done_here(run_classifier, *files, *from_scratch(folder), "--do_train", "--num_train_epochs=1")
    printed = done_here(run_classifier, *files, "--do_eval", "--tune_thresholds", "--max_seq_length=16")
    thresholds = SequenceClassifier.from_pretrained(output / "model").thresholds
    chosen = "no {:.4g}, yes {:.4g}".format(*thresholds)
    assert f"Thresholds chosen on 18 examples: {chosen}. F1, averaged over the labels, " in printed.out
    for flag, labels in (("--threshold=0,0", {"yes", "no"}), ("--threshold=1", {""})):
        done_here(run_classifier, *files, "--do_predict", flag, "--max_seq_length=16")
        rows = (output / "test_predictions.tsv").read_text().splitlines()[1:]
        assert all(set(row.split("\t")[-1].split(", ")) == labels for row in rows)
    assert SequenceClassifier.from_pretrained(output / "model").thresholds == thresholds


def test_pairs_without_a_header_start_from_a_model_folder(folder, done_here, eagerly):
    BertPretrainer(CONFIG).save_pretrained(folder / "start", VOCABULARY)
    rows = ["1\tthe film\tgood", "0\tgood film\tbad"] * 4
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    columns = ["--nohas_header", "--label_column=0", "--text_column=1", "--second_text_column=2", "--max_seq_length=16"]
    files = [f"--train_file={folder}/pairs.tsv", f"--dev_file={folder}/pairs.tsv", f"--output_dir={folder}/out"]
    parts = [f"--init_checkpoint={folder}/start", "--do_lower_case=False", "--do_train", "--do_eval"]
    printed = done_here(run_classifier, *files, *columns, *parts, "--num_train_epochs=1")
    assert "newly initialised are: classifier" in printed.out
    config = json.loads((folder / "out" / "model" / "bert_config.json").read_text())
    assert config["do_lower_case"] is False
    assert config["keras_bert"] == {"format": 1, "model": "SequenceClassifier", "labels": ["0", "1"]}


def test_both_test_sets_of_mnli_get_an_answer_for_every_line(folder, done_here):
    model = SequenceClassifier(CONFIG, labels=["contradiction", "entailment", "neutral"])
    model.save_pretrained(folder / "mnli", VOCABULARY)
    header = "index\tsentence1\tsentence2\n"
    (folder / "test_matched.tsv").write_text(f"{header}0\tthe film\tgood\n1\t\tbad film\n")
    (folder / "test_mismatched.tsv").write_text(f"{header}0\tthe film\tbad\n")
    task = ["--task_name=mnli", f"--data_dir={folder}", "--do_predict", "--max_seq_length=16"]
    done_here(run_classifier, *task, f"--init_checkpoint={folder}/mnli", f"--output_dir={folder}/out")
    files = {f"test_{name}.tsv" for name in ("mismatched_predictions", "mismatched_results", "predictions", "results")}
    assert {*os.listdir(folder / "out")} == {"MNLI-m.tsv", "MNLI-mm.tsv", *files}
    lines = [line.split("\t") for line in (folder / "out" / "MNLI-m.tsv").read_text().splitlines()]
    assert [line[0] for line in lines] == ["index", "0", "1"]
    assert {line[1] for line in lines[1:]} <= set(model.labels)


def test_a_label_that_training_lacks_is_found_before_training(folder, refused_here):
    (folder / "dev.tsv").write_text("text\tlabel\ngood film\tmaybe\n")
    arguments = [f"--data_dir={folder}", f"--output_dir={folder}/out", *from_scratch(folder)]
    printed = refused_here(run_classifier, *arguments, "--do_train", "--do_eval")
    assert "dev.tsv: the label 'maybe' of example 1 is unknown: it does not occur in training" in printed.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "Nothing to do. Give --do_train, --do_eval, --do_predict"),
        ("--do_train", "There is nothing to train on. Give --train_file or --data_dir."),
        ("--do_train --train_file={folder}/none.tsv", "There is no file"),
        ("--do_train --data_dir={folder}/out", "There is no folder"),
        (
            "--do_train --data_dir={folder} --keep_best",
            "--keep_best needs dev examples. Give --do_eval and --dev_file.",
        ),
        ("--do_train --data_dir={folder} --grid", "A grid of runs needs training and evaluation"),
        ("--do_eval --data_dir={folder} --teacher=large", "--teacher is for training"),
        ("--do_eval --tune_thresholds", "without --problem_type=multi_label"),
        ("--do_eval --tune_thresholds --threshold=0.5 --problem_type=multi_label", "chooses what --threshold gives"),
        ("--do_train --task_name=SNLI", "task_name must be a task of GLUE: CoLA, SST-2"),
        ("--do_train --task_name=STS-B --problem_type=multi_label", "STS-B is a regression, not multi_label"),
        ("--do_predict --task_name=MNLI --data_dir={folder}", "--do_predict: {folder} has no test_matched.tsv."),
        ("--do_train --data_dir={folder} --problem_type=regression", "line 2: the score in column 'label' must be a n"),
        ("--do_train --do_eval --data_dir={folder} --dev_file={folder}/pairs.tsv", "has one text per row, but"),
        ("--do_train --train_file={folder}/one.jsonl", "needs examples of two labels or more. Received: ['yes']"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_exit_code_1(folder, flags, message, refused_here):
    printed = refused_here(run_classifier, f"--output_dir={folder}/out", *flags.format(folder=folder).split())
    last_line = printed.err.strip().splitlines()[-1]
    assert last_line.startswith("error: ")
    assert message.format(folder=folder) in last_line
    assert not (folder / "out").exists()


def test_without_an_output_folder_the_flags_are_wrong(run_here):
    code, printed = run_here(run_classifier, "--do_train")
    assert (code, "--output_dir" in printed.err) == (2, True)
