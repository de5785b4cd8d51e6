"""The command that trains, evaluates and applies a tagger, as a user starts it."""

import json
import os

import pytest
import tiny
from documented_results import undocumented_keys

from data_prep.finetuning.conll import read_tagged_sentences
from keras_bert.tasks.tagging.examples import TaggedSentences
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tasks.tagging.report import conll_lines
from run_scripts import run_ner

VOCABULARY = tiny.vocabulary("ada wrote from london new york")
CONFIG = tiny.config(VOCABULARY, intermediate_size=16, hidden_dropout_prob=0.0, initializer_range=0.1)
DOCUMENT = (
    "-DOCSTART- -X- O\n\nAda N I-PER\nwrote V O\nfrom P O\nLondon N I-LOC\n\nNew N I-LOC\nYork N I-LOC\nwrote V O\n\n"
)


@pytest.fixture
def folder(tmp_path):
    """A data folder, and a config and a vocabulary to train from scratch."""
    (tmp_path / "train.conll").write_text(DOCUMENT * 8)
    rows = [["Ada", "wrote"], ["S-PER", "O"]], [["New", "York", "wrote"], ["B-LOC", "E-LOC", "O"]]
    lines = [json.dumps({"tokens": words, "tags": tags}) + "\n" for words, tags in rows]
    (tmp_path / "dev.jsonl").write_text("".join(lines))
    (tmp_path / "test.conll").write_text(DOCUMENT * 2)
    return tmp_path


def test_a_data_folder_is_trained_on_evaluated_and_predicted(folder, done_here):
    """IOB1 columns for training, BIOES lists for evaluation, a test file in two documents."""
    pytest.importorskip("matplotlib")
    output = folder / "out"
    printed = done_here(
        run_ner,
        f"--data_dir={folder}",
        f"--output_dir={output}",
        *tiny.flags_from_scratch(folder, VOCABULARY, CONFIG),
        *["--max_seq_length=16", "--do_train", "--do_eval", "--do_predict"],
        *["--train_batch_size=4", "--num_train_epochs=15", "--learning_rate=0.01"],
    )
    assert "train.conll: the tags are IOB1 and were converted to BIO." in printed.err
    files = ["checkpoints", "eval_report", "eval_results.txt", "facts.json", "history.jsonl"]
    files += ["learning_curves.png", "model", "run.json"]
    assert sorted(os.listdir(output)) == [*files, "test_predictions.conll", "test_results.txt"]
    names = [line.split(" = ")[0] for line in (output / "eval_results.txt").read_text().splitlines()]
    scores = ["accuracy", "f1", "loss", "macro_f1", "precision", "recall"]
    assert names == [*(f"eval_{name}" for name in scores), "global_step", "loss"]
    assert not undocumented_keys(output / "eval_results.txt", "tagging.md")
    assert "eval_f1 = 1.0\n" in (output / "eval_results.txt").read_text()
    assert "test_f1 = 1.0\n" in (output / "test_results.txt").read_text()
    reports = ["entities.png", "entities.tsv", "errors.tsv", "reliability.png", "reliability.txt", "report.txt"]
    assert sorted(os.listdir(output / "eval_report")) == reports
    lines = (output / "test_predictions.conll").read_text().splitlines()
    first = ["Ada I-PER B-PER", "wrote O O", "from O O", "London I-LOC B-LOC"]
    assert lines[:8] == ["-DOCSTART- O O", "", *first, "", "New I-LOC B-LOC"]
    again = read_tagged_sentences(output / "test_predictions.conll")
    assert list(again.documents) == [0, 0, 1, 1]
    model = TokenClassifier.from_pretrained(output / "model")
    assert model.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    (answer,) = model.predict(["Ada wrote from New York"])
    assert [entity.text for entity in answer.entities] == ["Ada", "New York"]


def test_predictions_keep_sentences_and_documents():
    words = [["New York", "calls"], ["Ada"], ["wrote"]]
    sentences = TaggedSentences(words, documents=[0, 0, 1])
    predicted = [["B-LOC", "O"], ["B-PER"], ["O"]]
    assert list(conll_lines(sentences, predicted)) == [
        *["-DOCSTART-\tO", "", "New York\tB-LOC", "calls\tO", "", "Ada\tB-PER", ""],
        *["-DOCSTART-\tO", "", "wrote\tO", ""],
    ]
    assert list(conll_lines(TaggedSentences([["a"]], [["X"]]), [["Y"]])) == ["a X Y", ""]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "Nothing to do. Give --do_train, --do_eval, --do_predict"),
        ("--do_train", "There is nothing to train on. Give --train_file or --data_dir."),
        ("--do_train --train_file={folder}/none.conll", "There is no file"),
        ("--do_eval --do_train --data_dir={folder} --labels=O,B-PER,I-PER", "the tag 'B-LOC' in the sentence at line"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_1(folder, flags, message, refused_here):
    printed = refused_here(run_ner, f"--output_dir={folder}/out", *flags.format(folder=folder).split())
    last_line = printed.err.strip().splitlines()[-1]
    assert last_line.startswith("error: ")
    assert message in last_line
    assert not (folder / "out").exists()
