"""An exported model can be asked from Python and from the command line."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from tiny_models import VOCABULARY

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.ask import SavedModel
from run_scripts import ask_saved_model

PROJECT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def folders(served):
    """The folder of the exports: two take single texts, "several" takes pairs."""
    [folder] = {pathlib.Path(served[1][name]).parent.parent for name in ("single", "several", "masked")}
    return folder


@pytest.fixture(scope="module")
def models(folders):
    return {name: SavedModel(folders / name) for name in ("single", "several", "masked")}


def test_a_classifier_answers_with_all_labels_the_likeliest_first(folders, models):
    answers = models["single"].ask(["the fox", "jump.", b"\xff"])
    assert len(answers) == 3
    for answer in answers:
        assert {label for label, _ in answer.probabilities} == {"animal", "none", "größer"}
        numbers = [number for _, number in answer.probabilities]
        assert numbers == sorted(numbers, reverse=True)
        assert sum(numbers) == pytest.approx(1.0, abs=1e-5)
    [alone] = SavedModel(folders / "single" / "1").ask(["jump."])
    assert dict(alone.probabilities) == pytest.approx(dict(answers[1].probabilities), abs=1e-5)


def test_no_texts_have_no_answers(models):
    assert models["single"].ask([]) == []
    assert models["masked"].ask([]) == []


def test_a_single_string_is_a_list_of_one(models):
    for text in ("the fox", b"the fox"):
        assert models["single"].ask(text) == models["single"].ask([text])
        assert models["several"].ask(text, text) == models["several"].ask([text], [text])


@pytest.mark.parametrize(
    ("texts", "message"),
    [(None, "texts must be a list. Received: None"), (["a", None], "holds None"), (["\ud800"], "half a surrogate")],
)
def test_what_is_no_text_is_one_clear_message(models, texts, message):
    with pytest.raises(InputError, match=message):
        models["single"].ask(texts)


def test_a_model_of_pairs_takes_second_texts_or_none(models):
    model = models["several"]
    alone, with_empty, pair = model.ask(["the fox"]), model.ask(["the fox"], [""]), model.ask(["the fox"], ["the dog"])
    assert alone == with_empty != pair
    with pytest.raises(InputError, match="There are 1 first and 2 second texts. Give as many of each"):
        model.ask(["the fox"], ["a", "b"])
    with pytest.raises(InputError, match="takes single texts, and a second text was given"):
        models["single"].ask(["the fox"], ["the dog"])


def test_every_mask_of_a_text_is_filled(models):
    none, two = models["masked"].ask(["the fox", "the [MASK] and the [MASK]."])
    assert none.masks == []
    assert [len(tokens) for tokens in two.masks] == [3, 3]  # top_k
    assert all(token in VOCABULARY.ids for tokens in two.masks for token, _ in tokens)


def test_the_command_answers_texts_from_flags(folders, run_here):
    code, shown = run_here(ask_saved_model, f"--saved_model={folders / 'masked'}", "--text=the [MASK].", "--text=jump")
    assert (code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "the [MASK]."
    assert lines[1].startswith("  [MASK] 1:  ")
    assert lines[3:5] == ["jump", "  (no [MASK] to fill)"]


def test_the_command_answers_lines_of_standard_input_that_need_not_be_utf_8(folders, models, run_here):
    lines = b"the fox\tthe dog\r\n\n\xff jump\n" + b"the fox\n" * 70
    code, shown = run_here(ask_saved_model, f"--saved_model={folders / 'several'}", input=lines)
    assert code == 0, shown.err
    answers = shown.out.strip().split("\n\n")
    assert len(answers) == 73
    assert [answer.splitlines()[0] for answer in answers[:4]] == [
        *("the fox  |  the dog", "(empty text)", "\ufffd jump", "the fox")
    ]
    model = models["several"]
    assert answers[0].partition("\n")[2] == str(model.ask(["the fox"], ["the dog"])[0])
    assert answers[1].partition("\n")[2] == str(model.ask([""])[0])
    assert answers[3].partition("\n")[2] == str(model.ask(["the fox"])[0])


def test_the_command_says_what_is_missing_or_wrong(folders, tmp_path, run_here):
    for arguments, message in [
        ([folders / "single"], "No text was given. Use --text=..., or write texts to standard input"),
        (
            [folders / "several", "--text=a", "--text_b=b", "--text_b=c"],
            "--text is given 1 times and --text_b 2 times.",
        ),
        ([tmp_path, "--text=a"], f"{tmp_path} is not a SavedModel: it has neither saved_model.pb nor"),
    ]:
        code, shown = run_here(ask_saved_model, f"--saved_model={arguments[0]}", *arguments[1:])
        assert (code, shown.err.count("\n")) == (1, 1)
        assert shown.err.startswith(f"error: {message}")


def test_a_damaged_saved_model_is_named(folders, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"not a graph")
    with pytest.raises(InputError, match=f"Cannot load the SavedModel {tmp_path}: "):
        SavedModel(tmp_path)
    graph = (folders / "single" / "1" / "saved_model.pb").read_bytes()
    (tmp_path / "saved_model.pb").write_bytes(graph[: len(graph) // 2])
    with pytest.raises(InputError, match=f"Cannot load the SavedModel {tmp_path}: "):
        SavedModel(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(graph)
    with pytest.raises(InputError, match=f"Cannot load the SavedModel {tmp_path}: "):
        SavedModel(tmp_path)


def test_other_peoples_saved_models_are_named_with_what_they_take(tmp_path):
    module = tf.Module()
    function = tf.function(lambda x: {"y": x + 1}, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=function)
    with pytest.raises(InputError, match="serving_default takes x and gives y"):
        SavedModel(tmp_path)
    tf.saved_model.save(module, str(tmp_path / "2"))
    with pytest.raises(InputError, match="serving_default takes nothing and gives nothing"):
        SavedModel(tmp_path)


@pytest.mark.slow
def test_loading_the_text_operations_and_importing_tensorflow_text_get_along():
    program = (
        "from keras_bert.tf_serving.ask import load_text_operations as load; load(); import tensorflow_text; load()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT)
    assert result.returncode == 0, result.stderr


def test_help_is_quick_because_nothing_heavy_is_imported():
    for name in ("ask_saved_model", "export_model"):
        program = (
            f"import sys, run_scripts.{name}; print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
        )
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT)
        assert result.stdout.strip() == "[]", result.stderr
