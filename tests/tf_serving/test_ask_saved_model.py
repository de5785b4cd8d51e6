"""The signatures of a loaded SavedModel can be asked from Python, and its answers are printed by a command."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from places import PROJECT

from keras_bert.program.errors import InputError
from keras_bert.serving import load
from keras_bert.tf_serving.loading import load_saved_model
from run_scripts import ask_saved_model
from run_scripts.readable_answers import readable_answers


@pytest.fixture(scope="module")
def folders(served):
    """The folder of the exports: two take single texts, "several" takes pairs."""
    [folder] = {pathlib.Path(served[1][name]).parent.parent for name in ("single", "several", "masked")}
    return folder


@pytest.fixture(scope="module")
def pairs(folders):
    """The signature of the model that takes pairs."""
    return load(folders / "several").signatures["serving_default"]


def test_a_signature_of_a_loaded_saved_model_takes_lists_and_returns_arrays(pairs):
    assert (pairs.inputs, "is_given" in pairs.outputs) == (("text", "text_b"), True)
    found = pairs(text=["the fox", b"\xff"], text_b=["the dog", ""])
    assert found["labels"].tolist() == [[b"a", b"b", b"c"]] * 2
    assert (found["probabilities"].dtype, found["probabilities"].shape) == (np.float32, (2, 3))
    assert pairs(text="the fox", text_b="")["probabilities"].shape == (1, 3)  # a single string is a list of one
    assert pairs(text=[], text_b=[])["probabilities"].shape == (0, 3)
    with pytest.raises(InputError, match="The signature serving_default of .* takes text, text_b. Received: text"):
        pairs(text=["the fox"])
    with pytest.raises(InputError, match="equally many rows"):
        pairs(text=["the fox"], text_b=["a", "b"])
    with pytest.raises(InputError, match="half a surrogate"):
        pairs(text=["\ud800"], text_b=[""])


def test_the_command_answers_texts_from_flags(folders, run_here):
    code, shown = run_here(ask_saved_model, f"--saved_model={folders / 'masked'}", "--text=the [MASK].", "--text=jump")
    assert (code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "the [MASK]."
    assert lines[1].startswith("  [MASK] 1:  ")
    assert lines[3:5] == ["jump", "  (no [MASK] to fill)"]


def test_the_command_answers_lines_of_standard_input_that_need_not_be_utf_8(folders, pairs, done_here):
    lines = b"the fox\tthe dog\r\n\n\xff jump\n" + b"the fox\n" * 70
    shown = done_here(ask_saved_model, f"--saved_model={folders / 'several'}", input=lines)
    answers = shown.out.strip().split("\n\n")
    assert len(answers) == 73
    questions = [answer.splitlines()[0] for answer in answers[:4]]
    assert questions == ["the fox  |  the dog", "(empty text)", "\ufffd jump", "the fox"]
    for number, (text, text_b) in enumerate([("the fox", "the dog"), ("", ""), (b"\xff jump", ""), ("the fox", "")]):
        [expected] = readable_answers(pairs(text=[text], text_b=[text_b]), {"text": [text], "text_b": [text_b]})
        assert answers[number].partition("\n")[2] == expected


def test_the_command_says_what_is_missing_or_wrong(folders, tmp_path, run_here):
    for arguments, message in [
        ([folders / "several", "--text=a", "--text_b=b", "--text_b=c"], "--text is given 1 times and --text_b 2 times"),
        ([tmp_path, "--text=a"], f"{tmp_path} is no export"),
    ]:
        code, shown = run_here(ask_saved_model, f"--saved_model={arguments[0]}", *arguments[1:])
        assert (code, shown.err.count("\n")) == (1, 1)
        assert shown.err.startswith(f"error: {message}")


def test_a_damaged_saved_model_is_named(folders, tmp_path):
    graph = (folders / "single" / "1" / "saved_model.pb").read_bytes()
    for content in (b"not a graph", graph[: len(graph) // 2], graph):  # the whole one has no variables here
        (tmp_path / "saved_model.pb").write_bytes(content)
        with pytest.raises(InputError, match=f"Cannot load the SavedModel {tmp_path}: "):
            load_saved_model(tmp_path)


@pytest.mark.slow
def test_loading_the_text_operations_and_importing_tensorflow_text_get_along():
    program = "from keras_bert.tf_serving import loading as a; a.load_text_operations(); import tensorflow_text; "
    program += "a.load_text_operations()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT)
    assert result.returncode == 0, result.stderr
