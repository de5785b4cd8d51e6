"""Fine-tuning commands on several devices or processes give the weights, scores and answers of one device."""

import json
import os
import subprocess
import sys

import loaded_commands
import numpy as np
import pytest
import tiny

from keras_bert.tasks.classification.model import SequenceClassifier
from run_scripts import run_classifier

VOCABULARY = tiny.vocabulary("good bad film the very")
# Without dropout, since each device draws its own random numbers.
CONFIG = tiny.config(VOCABULARY, dropout=0.0)
LAUNCHER = ["-m", "run_scripts.launch_workers", "--num_workers=2", "--seconds_to_stop=20", "--", sys.executable]
# Two logical devices of one CPU replace two devices.
TWO_DEVICES = """
import runpy, sys
import tensorflow as tf
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
sys.argv[1:] = sys.argv[2:]
runpy.run_module("run_scripts.run_classifier", run_name="__main__")
"""
LAYOUTS = {
    "devices": (["-c", TWO_DEVICES, "--"], ["--distribution_strategy=mirrored", "--gradient_accumulation_steps=2"]),
    "workers": (
        [*LAUNCHER, "-m", "run_scripts.run_classifier"],
        ["--distribution_strategy=multi_worker_mirrored"],
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """21 texts of many lengths: the last batch of an epoch is smaller and is divided unevenly among the devices."""
    folder = tmp_path_factory.mktemp("texts")
    draw = np.random.default_rng(0)
    for name, number in (("train.tsv", 21), ("dev.tsv", 9), ("test.tsv", 5)):
        rows = ["text\tlabel"]
        for _ in range(number):
            label = draw.choice(["good", "bad"])
            words = draw.permutation([label, *draw.choice(["film", "the", "very"], size=draw.integers(1, 9))])
            rows.append(f"{' '.join(words)}\t{label}")
        (folder / name).write_text("\n".join(rows) + "\n")
    return folder


def flags_of(folder, output):
    flags = [f"--data_dir={folder}", f"--output_dir={output}", "--do_train", "--do_eval", "--do_predict"]
    flags += [*tiny.flags_from_scratch(folder, VOCABULARY, CONFIG), "--max_seq_length=16", "--train_batch_size=8"]
    return [*flags, "--learning_rate=3e-3", "--num_train_epochs=3"]


def run(folder, output, layout, code=0):
    flags = [*flags_of(folder, output), "--keep_best"]
    if layout == "one":
        done = loaded_commands.run("run_scripts.run_classifier", *flags)
    else:
        program, of_layout = LAYOUTS[layout]
        command = [sys.executable, *program, *flags, *of_layout]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    output = done.stdout + done.stderr
    assert done.returncode == code, output[-3000:]
    return output


@pytest.fixture(scope="module")
def runs(folder):
    """Returns layout -> its output; the run folders have these names."""
    return {layout: run(folder, folder / layout, layout) for layout in ("one", *LAYOUTS)}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["devices", "workers"])
def test_several_workers_train_evaluate_and_predict_as_one(folder, runs, layout):
    one, several = (SequenceClassifier.from_pretrained(folder / name / "model") for name in ("one", layout))
    assert len(one.weights) > 20
    for weight, other in zip(one.weights, several.weights, strict=True):
        np.testing.assert_allclose(other.value.numpy(), weight.value.numpy(), rtol=0, atol=1e-6)
    lines = [json.loads((folder / name / "best.json").read_text()) for name in ("one", layout)]
    assert lines[0]["step"] == lines[1]["step"]
    one, several = (np.loadtxt(folder / name / "test_results.tsv") for name in ("one", layout))
    np.testing.assert_allclose(several, one, atol=1e-5)
    one, several = (
        dict(line.split(" = ") for line in (folder / name / "eval_results.txt").read_text().splitlines())
        for name in ("one", layout)
    )
    assert one.keys() == several.keys()
    for name in one:
        assert float(several[name]) == pytest.approx(float(one[name]), abs=1e-5)
    assert sorted(os.listdir(folder / layout)) == sorted(
        [*os.listdir(folder / "one"), *(["history-worker1.jsonl"] if layout == "workers" else [])]
    )


@pytest.mark.slow
def test_only_the_first_worker_prints_its_findings(runs):
    assert runs["workers"].count("eval_accuracy = ") == runs["one"].count("eval_accuracy = ") == 1
    assert "[worker 0] eval_accuracy = " in runs["workers"]
    assert "retracing" not in runs["workers"]


@pytest.mark.slow
def test_an_error_in_the_first_worker_ends_all(folder, runs):
    (folder / "workers" / "eval_results.txt").unlink(missing_ok=True)
    (folder / "workers" / "eval_results.txt").mkdir()
    output = run(folder, folder / "workers", "workers", code=1)
    assert "is finished" in output
    assert output.count("it is a folder. Give the name of a file") == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--distribution_strategy=tpu"], "Fine-tuning batches are as long as their longest text, so a TPU would"),
        (["--distribution_strategy=multi_worker_mirrored", "--seeds=1,2"], "A grid needs a single process."),
    ],
)
def test_what_cannot_be_is_one_line(folder, tmp_path, flags, message, refused_here):
    printed = refused_here(run_classifier, *flags_of(folder, tmp_path / "run"), *flags)
    assert f"error: {message}" in printed.err
