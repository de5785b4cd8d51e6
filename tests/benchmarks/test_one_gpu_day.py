"""The script from text to GLUE scores: a tiny run that is killed goes on, and bad input ends a run before any work."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from places import PROJECT

from benchmarks.glue_table import score_lines
from keras_bert.program.errors import InputError

SMALL = {"STEPS": "60", "BATCH": "8", "LENGTH": "32", "GROWTH": "4", "GROWTH_STEPS": "4", "VOCAB_SIZE": "600"}
SMALL |= {"LONG_STEPS": "2", "LONG_LENGTH": "64", "LAYERS": "1", "WIDTH": "32", "HEADS": "2", "INNER": "64"}
SMALL |= {"EPOCHS": "1", "PARTS": "2", "SAVE_STEPS": "10", "PRECISION": "float32"}
# The first Python on the path is the one that runs the tests.
PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])


def start(*arguments, **settings):
    """Starts the script in a session of its own."""
    return subprocess.Popen(
        ["bash", "benchmarks/one_gpu_day.sh", *map(str, arguments)],
        cwd=PROJECT,
        env={**os.environ, **SMALL, "PATH": PATH, "KERAS_BACKEND": "jax", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(*arguments, **settings):
    process = start(*arguments, **settings)
    output, errors = process.communicate()
    return process.returncode, output, errors


@pytest.fixture
def text(tmp_path):
    """A file of 200 documents of four sentences."""
    rng, syllables = random.Random(0), [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=3)) for _ in range(300)]
    sentences = [" ".join(rng.choices(words, k=12)).capitalize() + "." for _ in range(800)]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(" ".join(sentences[first : first + 4]) for first in range(0, 800, 4)))
    return path


@pytest.fixture
def glue(tmp_path):
    """A folder with two of GLUE's tasks, of eight examples each."""
    rows = {"CoLA": [f"x\t{n % 2}\t\tbada {n} fiko." for n in range(8)]}
    rows["STS-B"] = ["sentence1\tsentence2\tscore", *(f"bada {n}.\tfiko {n}.\t{n / 2}" for n in range(8))]
    for task, lines in rows.items():
        (tmp_path / "glue" / task).mkdir(parents=True)
        for part in ("train", "dev"):
            (tmp_path / "glue" / task / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "glue"


@pytest.mark.slow  # 75 s of processor time
def test_a_run_that_is_killed_in_pre_training_goes_on_to_the_scores(tmp_path, text, glue):
    pytest.importorskip("jax")
    output = tmp_path / "output"
    process = start(text, glue, output)
    while not list(output.glob("pretraining/checkpoints/step-*[1-9]0")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (output / "pretraining" / "eval_results.txt").exists()

    code, written, errors = run(text, glue, output)

    assert code == 0, errors[-2000:]
    for file in ("vocab.txt", "records/manifest.json", "long_records/manifest.json", "bert_config.json"):
        assert f"{output / file} is there\n" in written
    assert f"{output / 'pretraining'}: going on from step " in written
    table = (output / "scores.md").read_text()
    assert written.endswith(table)
    for row in (
        "pretraining: held-out masked-LM loss ",
        " after 62 updates\n",
        "| CoLA | matthews | ",
        "| STS-B | pearson and spearman | ",
        "| mean |  | ",
    ):
        assert row in table

    code, written, errors = run(text, glue, output)

    assert (code, errors) == (0, "")
    assert written.count(" is there\n") == 8
    assert written.endswith(table)
    code, _, errors = run(text, glue, output, STEPS="70", SEED="2")
    assert code == 1
    assert errors == (
        f"error: {output} holds a run of other settings: STEPS=60 SEED=1. Give these, or another OUTPUT.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["{text}", "{glue}"], {}, "Expected: bash benchmarks/one_gpu_day.sh TEXT GLUE OUTPUT. Received: 2 arguments"),
        (["{text},no/*.txt", "{glue}", "{new}"], {}, "TEXT: there is no file or folder no/*.txt"),
        (["{text}", "no", "{new}"], {}, "GLUE: there is no folder no"),
        (["{text}", "{glue}/CoLA", "{new}"], {}, "GLUE: {glue}/CoLA has no folder of a task: CoLA, SST-2,"),
        (["{text}", "{untested}", "{new}"], {}, "GLUE: {untested}/RTE has no file to evaluate on, as dev.tsv"),
        (
            ["{text}", "{glue}", "{glue}"],
            {},
            "{glue} is not empty and holds no run of this script.",
        ),
        (["{text}", "{glue}", "{new}"], {"PARTS": "3"}, "A batch of 4 rows cannot be computed in PARTS=3 equal parts."),
        (
            ["{text}", "{glue}", "{new}"],
            {"KERAS_BACKEND": "no_backend"},
            "lacks tensorflow or no_backend.",
        ),
    ],
)
def test_bad_input_is_one_line_before_any_work(arguments, settings, message, tmp_path, text, glue):
    (tmp_path / "untested" / "RTE").mkdir(parents=True)
    (tmp_path / "untested" / "RTE" / "train.tsv").touch()
    names = {"text": text, "glue": glue, "new": tmp_path / "new", "untested": tmp_path / "untested"}
    settings = {"KERAS_BACKEND": "tensorflow", **settings}

    code, written, errors = run(*(argument.format(**names) for argument in arguments), **settings)

    assert (code, written) == (1, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert message.format(**names) in errors
    assert not (tmp_path / "new").exists()


def write_results(folder, **results):
    folder.mkdir(parents=True)
    lines = sorted(f"{name} = {value}\n" for name, value in results.items())
    (folder / "eval_results.txt").write_text("".join(lines))


def test_the_table_has_the_official_score_of_each_finished_task(tmp_path):
    write_results(tmp_path / "pretraining", masked_lm_loss=2.25, next_sentence_accuracy="n/a", global_step=70000)
    write_results(tmp_path / "glue" / "CoLA", eval_matthews=0.25, eval_accuracy=0.7, global_step=2672)
    write_results(tmp_path / "glue" / "MNLI", eval_accuracy=0.5, eval_mismatched_accuracy=0.75, global_step=122720)
    (tmp_path / "glue" / "RTE").mkdir()
    assert score_lines(tmp_path) == [
        "pretraining: held-out masked-LM loss 2.250 after 70,000 updates",
        "",
        "| task | score, on the dev examples | % | updates |",
        "|---|---|---|---|",
        "| CoLA | matthews | 25.0 | 2,672 |",
        "| MNLI | accuracy | 50.0 / 75.0 | 122,720 |",
        "| mean |  | 43.8 |  |",
    ]


def test_a_folder_without_scores_has_no_table(tmp_path):
    with pytest.raises(InputError, match="glue has no finished task"):
        score_lines(tmp_path)
    write_results(tmp_path / "glue" / "RTE", eval_loss=0.5, global_step=3)
    with pytest.raises(InputError, match="eval_results.txt has no eval_accuracy"):
        score_lines(tmp_path)
