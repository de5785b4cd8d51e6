"""Commands check their output before the work: before a model is loaded or a server is asked."""

import importlib

import pytest

CHECKPOINT = "--init_checkpoint=no_such_checkpoint"
TEXTS = "--input_file={texts}"


@pytest.mark.parametrize(
    ("module", "arguments", "output"),
    [
        ("run_scripts.embed_sentences", [CHECKPOINT, TEXTS], "output_dir"),
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
def test_an_output_that_cannot_be_written_is_the_first_thing_said(module, arguments, output, tmp_path, run_here):
    (tmp_path / "texts").write_text("a\n")
    place = tmp_path / "texts" / "below"  # a path below a file fails, also for root
    given = [argument.format(texts=tmp_path / "texts") for argument in arguments]
    code, shown = run_here(importlib.import_module(module), *given, f"--{output}={place}")
    assert (code, shown.err.count("\n")) == (1, 1)
    assert shown.err.startswith(f"error: Cannot write {place}")
    assert "a part of the path is a file, not a folder" in shown.err


@pytest.mark.parametrize(
    ("module", "arguments", "output"),
    [
        ("run_scripts.extract_features", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.summarize", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.fill_mask", [CHECKPOINT, TEXTS], "output_file"),
        ("run_scripts.evaluate_squad", ["{texts}", "no_such_predictions"], "out_file"),
        ("data_prep.build_vocabulary", [TEXTS], "output_file"),
    ],
)
def test_no_command_replaces_its_own_input(module, arguments, output, tmp_path, run_here):
    texts = tmp_path / "texts"
    texts.write_text("a\n")
    given = [argument.format(texts=texts) for argument in arguments]
    code, shown = run_here(importlib.import_module(module), *given, f"--{output}={texts}")
    assert (code, shown.err.count("\n")) == (1, 1)
    assert shown.err.startswith(f"error: {texts} is read by this command, so its output would replace it.")
    assert texts.read_text() == "a\n"
