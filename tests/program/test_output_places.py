"""Commands check their output before the work: before a model is loaded or a server is asked."""

import importlib
import sys

import pytest
from absl import flags

CHECKPOINT = "--init_checkpoint=no_such_checkpoint"
TEXTS = "--input_file={texts}"


@pytest.mark.parametrize(
    ("module", "arguments", "output"),
    [
        ("run_scripts.embed_sentences", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.extract_features", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.extract_features", [CHECKPOINT, TEXTS, "--output_format=npy"], "output_file"),
        ("run_scripts.summarize", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.fill_mask", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.word_senses", [CHECKPOINT, TEXTS, "--word=a", "--noplot"], "output_dir"),
        ("run_scripts.search_sentences", [CHECKPOINT, TEXTS], "index_dir"),
        ("run_scripts.evaluate_search", [CHECKPOINT, "--data_dir=no_such_data"], "index_dir"),
        ("run_scripts.evaluate_squad", ["no_such_data", "no_such_predictions"], "out_file"),
        ("run_scripts.convert_checkpoint", ["--input=no_such_checkpoint"], "output"),
        ("run_scripts.export_model", ["--model_dir=no_such_model"], "output_dir"),
        ("run_scripts.export_model", ["--model_dir=no_such_model", "--format=onnx"], "output_dir"),
        ("data_prep.build_vocabulary", ["--input_file=no_such_text"], "output_file"),
    ],
)
def test_an_output_that_cannot_be_written_is_the_first_thing_said(module, arguments, output, tmp_path, error_of):
    (tmp_path / "texts").write_text("a\n")
    place = tmp_path / "texts" / "below"  # a path below a file fails, also for root
    given = [argument.format(texts=tmp_path / "texts") for argument in arguments]
    error = error_of(module, *given, f"--{output}={place}")
    assert error.startswith(f"error: Cannot write {place}")
    assert "a part of the path is a file, not a folder" in error


@pytest.mark.parametrize(
    ("module", "arguments", "output"),
    [
        ("run_scripts.embed_sentences", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.extract_features", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.summarize", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.fill_mask", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.evaluate_squad", ["{texts}", "no_such_predictions"], "out_file"),
        ("data_prep.build_vocabulary", [TEXTS], "output_file"),
    ],
)
def test_no_command_replaces_its_own_input(module, arguments, output, tmp_path, error_of):
    texts = tmp_path / "texts"
    texts.write_text("a\n")
    error = error_of(module, *(argument.format(texts=texts) for argument in arguments), f"--{output}={texts}")
    assert error.startswith(f"error: {texts} is read by this command, so its output would replace it.")
    assert texts.read_text() == "a\n"


@pytest.fixture
def error_of(monkeypatch, capsys):
    """Runs a command that must end with one line: (module, *arguments) -> the line."""

    def run(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        others = set(flags.FLAGS)
        with pytest.raises(SystemExit) as stopped:
            importlib.import_module(module).command()
        for name in set(flags.FLAGS) - others:
            delattr(flags.FLAGS, name)
        error = capsys.readouterr().err
        assert (stopped.value.code, error.count("\n")) == (1, 1), error
        return error

    return run
