"""Runs run_scripts/quickstart.sh on sizes that take seconds instead of minutes."""

import os
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
SMALL = {
    "VOCAB_SIZE": "1000",
    "MAX_SEQ_LENGTH": "32",
    "DUPE_FACTOR": "1",
    "NUM_TRAIN_STEPS": "10",
    "NUM_TRAIN_EPOCHS": "1",
    "NUM_LABELLED": "64",
}


def run_quickstart(*arguments):
    # The first Python on the path is the one that runs the tests.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "run_scripts/quickstart.sh", *map(str, arguments)],
        cwd=PROJECT,
        env={**os.environ, **SMALL, "PATH": path},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_quickstart_goes_from_text_to_an_answer(tmp_path):
    # Tests a user's own text too. The classifier's data is always the documentation.
    sentences = ["A cat sat on the mat.", "It was warm there.", "A dog came by, and the cat ran up a tree."]
    documents = [" ".join(sentences[number % 3 :] + sentences[: number % 3]) for number in range(200)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    folder = tmp_path / "out"

    result = run_quickstart(folder, tmp_path / "text.txt")

    assert result.returncode == 0, result.stderr[-2000:]
    for number in range(1, 9):
        assert f"  {number} of 8  " in result.stdout
    assert "[MASK] 1:  " in result.stdout
    report = (folder / "report.txt").read_text()
    assert report in result.stdout
    assert "200 documents" in report
    assert "Pre-training is worth " in report
    assert (folder / "loss_curves.png").read_bytes().startswith(b"\x89PNG")
    for name in ("library", "fill_mask"):
        assert (folder / "saved_models" / name / "1" / "saved_model.pb").is_file()


def test_the_quickstart_does_not_overwrite_an_earlier_one(tmp_path):
    result = run_quickstart(tmp_path)
    assert result.returncode == 1
    assert "exists. Remove it" in result.stderr


def test_the_report_of_an_unfinished_quickstart_says_what_is_missing(tmp_path):
    command = [sys.executable, "-m", "run_scripts.quickstart_report", f"--output_dir={tmp_path}"]
    result = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert result.returncode == 1
    assert "manifest.json: run the quickstart to its end first" in result.stderr
