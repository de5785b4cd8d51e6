"""The command that trains, evaluates and applies a model of multiple choice, as a user starts it."""

import os

import pytest
import tiny
from documented_results import undocumented_keys

from keras_bert.tasks.multiple_choice.examples import ChoiceExamples
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.multiple_choice.task import write_choice_report
from run_scripts import run_multiple_choice

VOCABULARY = tiny.vocabulary("sky grass it is blue green")
CONFIG = tiny.config(VOCABULARY, hidden_size=8)
HEADER = "video-id,sent1,sent2,ending0,ending1,ending2,ending3,label"
AB = "--choice_columns=a,b"
ROWS = ["1,sky,It is,blue,green,a,b,0", "2,grass,It is,a,blue,green,b,2"]


@pytest.fixture
def folder(tmp_path):
    """A folder in the form of SWAG, whose test file has no labels, and a config and a vocabulary."""
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("\n".join([HEADER, *ROWS * 4]) + "\n")
    (tmp_path / "test.csv").write_text("\n".join(line.rpartition(",")[0] for line in [HEADER, *ROWS]) + "\n")
    return tmp_path


def test_files_of_swag_are_trained_on_evaluated_and_predicted(folder, done_here, eagerly):
    output = folder / "out"
    done_here(
        run_multiple_choice,
        "--task_name=SWAG",
        f"--data_dir={folder}",
        f"--output_dir={output}",
        *tiny.flags_from_scratch(folder, VOCABULARY, CONFIG),
        *["--max_seq_length=16", "--do_train", "--do_eval", "--do_predict", "--train_batch_size=4"],
    )
    files = ["checkpoints", "eval_report", "eval_results.txt", "facts.json", "history.jsonl", "model", "run.json"]
    assert {*files, "test_predictions.tsv", "test_results.tsv"} == {*os.listdir(output)} - {"learning_curves.png"}
    results = (output / "eval_results.txt").read_text()
    names = ["eval_accuracy", "eval_chance", "eval_loss", "global_step", "loss"]
    assert [line.split(" = ")[0] for line in results.splitlines()] == names
    assert not undocumented_keys(output / "eval_results.txt", "multiple_choice.md")
    assert "eval_chance = 0.25" in results
    assert "global_step = 6" in results
    probabilities = [
        list(map(float, line.split("\t"))) for line in (output / "test_results.tsv").read_text().splitlines()
    ]
    assert [len(row) for row in probabilities] == [4, 4]
    assert [sum(row) for row in probabilities] == pytest.approx([1, 1])
    lines = [line.split("\t") for line in (output / "test_predictions.tsv").read_text().splitlines()]
    assert lines[0] == ["prompt", "choice", "text", "probability"]
    best = [row.index(max(row)) for row in probabilities]
    endings = [["blue", "green", "a", "b"], ["a", "blue", "green", "b"]]
    assert [line[:3] for line in lines[1:]] == [
        [prompt, str(number), f"It is {its_endings[number]}"]
        for prompt, number, its_endings in zip(["sky", "grass"], best, endings, strict=True)
    ]
    model = MultipleChoice.from_pretrained(output / "model")
    (answer,) = model.predict((["sky"], [[f"It is {ending}" for ending in endings[0]]]))
    assert answer.probabilities == pytest.approx(probabilities[0], rel=1e-5)


def test_the_report_says_which_places_were_taken(tmp_path):
    examples = ChoiceExamples(["p", "q", "r"], [["a", "b"], ["c", "d"], ["e", "f"]], [0, 1, 1])
    write_choice_report(tmp_path, examples, [0, 0, 0], [0.1, 0.9, 2.0], {"accuracy": 1 / 3})
    assert (tmp_path / "errors.tsv").read_text().splitlines() == [
        "example\tprompt\tright\tpredicted\tloss",
        "3\tr\tf\te\t2",
        "2\tq\td\tc\t0.9",
    ]
    text = (tmp_path / "report.txt").read_text()
    assert "accuracy by chance  0.5000" in text
    assert "0              1          3        1" in text
    assert "2 of 3 are wrong: errors.tsv" in text


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        ("text\ta\tb\tlabel\np\tx\ty\t2\n", [AB], "the answer '2' of example 1 is none of the choices"),
        ("text\ta\tlabel\np\tx\t0\n", ["--choice_columns=a"], "needs two choices or more. Received: 1, in example 1"),
        ("text\ta\tb\tlabel\np\tx\ty\t0\n", [], "Name the columns of the choices: --choice_columns=first,second"),
        ("o\tp\tw\tx\ty\tz\t4\n", ["--task_name=CODAH"], "the answer '4' of example 1 is none of the choices"),
        ("", ["--task_name=RACE"], "task_name must be SWAG or CODAH. Received: RACE"),
        ("text\ta\tb\tlabel\np\tx\ty\t1\n", [AB, "--labels=1,2,3"], "there are 2 choices in each row but 3 labels"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_1(tmp_path, content, flags, message, refused_here):
    (tmp_path / "train.tsv").write_text(content)
    arguments = [f"--output_dir={tmp_path}/out", "--do_train", f"--data_dir={tmp_path}", *flags]
    printed = refused_here(run_multiple_choice, *arguments)
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert not (tmp_path / "out").exists()
