"""The command that trains, evaluates and applies a model that writes texts, as a user starts it."""

import os
import re

import pytest
import tiny
from places import DOCS
from slow_parameters import slow_except

from keras_bert import MaskedLM, TextToText
from keras_bert.program.errors import InputError
from keras_bert.tasks.text_to_text import scores, task
from run_scripts import ask_saved_model, run_text_to_text

VOCABULARY = tiny.vocabulary("a dog runs ein hund rennt")
LINES = ["en\tde", *["a dog runs\tein hund rennt", "a dog\tein hund"] * 4]


@pytest.fixture
def flags(tmp_path):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(LINES) + "\n")
    files = tiny.flags_from_scratch(tmp_path, VOCABULARY, tiny.config(VOCABULARY, hidden_size=8))
    columns = ["--source_column=en", "--target_column=de", "--max_new_tokens=5", "--train_batch_size=4"]
    return [f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/out", *files, *columns]


@pytest.mark.parametrize("shared", slow_except([False], [False, True]))
def test_a_file_is_trained_on_evaluated_and_predicted(shared, flags, tmp_path, done_here, eagerly, without_graphs):
    steps = ["--do_train", "--do_eval", "--do_predict", "--num_beams=2", "--num_train_epochs=1"]
    done_here(run_text_to_text, *flags, *steps, f"--shared={str(shared).lower()}")
    written = ["checkpoints", "eval_report", "eval_results.txt", "facts.json", "history.jsonl", "model"]
    found = set(os.listdir(tmp_path / "out"))
    assert set(written) < found
    results = (tmp_path / "out" / "eval_results.txt").read_text()
    assert re.findall("^eval_[a-z_]+", results, re.M) == ["eval_loss", "eval_perplexity", "eval_token_accuracy"]
    header, *rows = [line.split("\t") for line in (tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()]
    assert header == ["source", "text", "score"]
    trained = TextToText.from_pretrained(tmp_path / "out" / "model")
    assert (trained.label_smoothing, trained.shared) == (0.1, shared)
    answers = trained.predict([line.split("\t")[0] for line in LINES[1:]], num_beams=2, max_new_tokens=5)
    assert [row[1] for row in rows] == [answer.text for answer in answers]
    assert ("test_results.txt" in found) == scores.has_text_scores()


@pytest.mark.parametrize("num_programs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_programs_of_the_page_run(num_programs, tmp_path, monkeypatch, capsys, eagerly, done_here):
    programs = re.findall(r"```python\n(.*?)```", (DOCS / "text_to_text.md").read_text("utf-8"), re.S)
    assert [len(program.splitlines()) for program in programs] == [9, 1]
    monkeypatch.chdir(tmp_path)
    MaskedLM(tiny.config(VOCABULARY, hidden_size=8, max_position_embeddings=40)).save_pretrained("my_bert", VOCABULARY)
    if num_programs == 1:

        def run_eagerly(model, key, function, names):
            return lambda batch: function({name: batch[name] for name in names})

        monkeypatch.setattr(task, "traced_on_features", run_eagerly)
    names = {}
    for program in programs[:num_programs]:
        exec(compile(program, "text_to_text.md", "exec"), names)
    assert "token_accuracy" in capsys.readouterr().out
    if num_programs == 2:
        wanted = names["model"].predict(["a dog runs"], num_beams=4, max_new_tokens=40)[0]
        assert TextToText.from_pretrained("my_translator").predict(["a dog runs"], max_new_tokens=40) == [wanted]
        asked = done_here(ask_saved_model, "--saved_model=exports/translator", "--text=a dog runs")
        assert asked.out.split("\n")[:2] == ["a dog runs", f"  {wanted.text}  {wanted.score:.4f}"]


def test_beams_below_1_are_refused_before_the_training(flags, tmp_path, run_here):
    code, printed = run_here(run_text_to_text, *flags, "--do_train", "--num_beams=0")
    assert code == 2
    assert "num_beams must be a whole number of at least 1. Received: 0" in printed.err
    assert not (tmp_path / "out").exists()


def test_bleu_and_rouge_are_those_of_their_packages():
    if not scores.has_text_scores():
        with pytest.raises(InputError, match=r"Run in a clone of keras_bert: pip install '\.\[generation\]'"):
            scores.text_scores(["a"], ["a"])
        pytest.skip("sacrebleu and rouge-score are not installed")
    found = scores.text_scores(["the cat sat on the mat", "a dog"], ["the cat sat on a mat", "a dog"])
    # ROUGE-L of the first: 5 of 6 words in order.
    assert found["rougeL"] == pytest.approx((5 / 6 + 1) / 2)
    assert 0 < found["bleu"] < 100
    assert scores.text_scores(["a b c d"], ["a b c d"])["bleu"] == pytest.approx(100)
    assert "version:" in scores.bleu_signature(["a"], ["a"])
