import importlib
import re
import signal
import subprocess
import sys

import pytest

from keras_bert import registry
from keras_bert.program.command_line import run_command
from keras_bert.program.removed_flags import REMOVED_FLAGS
from run_scripts import fill_mask, summarize
from run_scripts.command_names import COMMANDS

MODULES = {name.rpartition(".")[2]: name for names in COMMANDS.values() for name in names}
PROGRAM = '''"""Greets somebody."""

from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError


def define_flags():
    flags.DEFINE_string("name", None, "Whom to greet.", required=True)
    flags.DEFINE_integer("times", 1, "How often.")


def main():
    if flags.FLAGS.name == "nobody":
        raise InputError("nobody cannot be greeted")
    if flags.FLAGS.name == "stop":
        raise KeyboardInterrupt
    if flags.FLAGS.name == "tensorflow":
        import tensorflow
    print(f"hello {flags.FLAGS.name}")


def command():
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
'''


def start(tmp_path, *arguments):
    (tmp_path / "greet.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "greet.py"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


@pytest.fixture
def greet(tmp_path, monkeypatch, run_here):
    """Runs the command `greet` in this process, as a console script does -> exit code, output, errors."""

    def run(*arguments, program=PROGRAM):
        (tmp_path / "greet.py").write_text(program)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "greet", raising=False)
        code, printed = run_here(importlib.import_module("greet"), *arguments)
        return code, printed.out, printed.err

    return run


def test_help_shows_the_docstring_and_the_flags_however_it_is_started(tmp_path, greet):
    code, out, _ = greet("--help")
    assert code == 0
    assert out.startswith("Greets somebody.\n\nFlags:\n")
    assert "--name\n      Whom to greet." in out
    assert "--times (default: 1)" in out
    assert start(tmp_path, "--help") == (0, out, "")


def test_help_leaves_the_signals_of_its_process_as_they_were(run_here):
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts
    try:
        code, printed = run_here(fill_mask, "--help")
        assert (code, signal.getsignal(signal.SIGPIPE)) == (0, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert "--init_checkpoint" in printed.out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ada", (0, "hello Ada\n", "")),
        ("nobody", (1, "", "error: nobody cannot be greeted\n")),
        ("stop", (130, "", "error: stopped by Ctrl-C\n")),
    ],
)
def test_a_command_says_hello_or_one_line_of_error(greet, name, expected):
    assert greet(f"--name={name}") == expected


@pytest.mark.parametrize(
    ("backend", "missing", "message"),
    [
        ("jax", "jax", r"KERAS_BACKEND is jax, but the package jax is not installed. .*: pip install '\.\[jax\]'"),
        ("torch", "torch", "KERAS_BACKEND is torch, but the package torch is not installed. Install torch."),
        ("mxnet", "mxnet", "Keras has no backend 'mxnet'. Set KERAS_BACKEND to tensorflow or jax."),
        ("jax", "tensorflow", ".* the package tensorflow is not installed.*"),
        ("tensorflow", "x", None),
    ],
)
def test_a_package_of_the_backend_that_is_missing_is_one_line(backend, missing, message, monkeypatch, capsys):
    def main():
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(sys, "argv", ["command"])
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else name)
    if message is None:
        with pytest.raises(ModuleNotFoundError, match="No module named 'x'"):
            run_command(main, lambda: None)
    else:
        with pytest.raises(SystemExit, match="1"):
            run_command(main, lambda: None)
        assert re.fullmatch(f"error: {message}\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "name"),
        ("--name=Ada --nmae=Bob", "Unknown command line flag 'nmae'"),
        ("--name=Ada --times=x", "flag --times=x"),
        ("--name=Ada Bob", "Unexpected argument 'Bob'"),
        ("--name=Ada -- --runner=x", "Unexpected argument '--runner=x'"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_code_2(greet, arguments, message):
    code, _, error = greet(*arguments.split())
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("error: ")
    assert message in error


def test_a_flag_that_went_is_one_line_that_says_what_to_do(run_here, monkeypatch):
    monkeypatch.setitem(REMOVED_FLAGS, "fill_mask --shout", "Pipe the output to tr.")
    for flag in ("--shout", "--shout=True", "--noshout"):
        code, printed = run_here(fill_mask, flag)
        assert (code, printed.out, printed.err) == (2, "", "error: --shout was removed. Pipe the output to tr.\n")
    assert "Unknown command line flag 'shout'" in run_here(summarize, "--shout")[1].err


def test_the_flags_that_went_are_of_commands_that_exist(run_here):
    for flag, sentence in REMOVED_FLAGS.items():
        command, name = flag.split(" ")
        code, printed = run_here(importlib.import_module(MODULES[command]), f"{name}=1")
        assert (code, printed.err) == (2, f"error: {name} was removed. {sentence}\n")


def test_a_failing_import_of_tensorflow_shows_its_output(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os; os.write(2, b'a library is missing'); raise ImportError")
    code, _, error = start(tmp_path, "--name=tensorflow")
    assert code == 1
    assert "a library is missing" in error
    assert "ImportError" in error


@pytest.mark.parametrize(
    ("arguments", "code", "out", "error"),
    [
        ("--name=Ada -- --runner=x --times=3", 0, "['--runner=x', '--times=3']\nhello Ada\n", ""),
        ("--name=Ada", 0, "[]\nhello Ada\n", ""),
        ("--name=Ada stray -- --runner=x", 2, "", "Unexpected argument 'stray'"),
    ],
)
def test_arguments_after_two_dashes_are_passed_on_if_requested(greet, arguments, code, out, error):
    program = PROGRAM.replace("def main():", "def main(others):\n    print(others)")
    program = program.replace("define_flags)", "define_flags, passes_on=True)")
    found_code, found_out, found_error = greet(*arguments.split(), program=program)
    assert (found_code, found_out, error in found_error) == (code, out, True)


SEARCH = "--init_checkpoint=c --index_dir=i"


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("beam_pretraining_data", "--sentence_task=none --short_seq_prob=0.2", "--short_seq_prob"),
        ("create_finetuning_data", "--vocab_file=v --output_dir=o --task=tagging --doc_stride=9", "--doc_stride"),
        ("inspect_records", "--input_file=r --nostatistics --sample=3", "--sample"),
        ("tokenize_corpus", "--tokenized_corpus=c --append --verify", "--append"),
        ("evaluate_squad", "a.json b.json --na_prob_thresh=1", "--na_prob_thresh"),
        ("extract_features", "--init_checkpoint=c --input_file=i --output_file=o --dtype=float16", "--dtype"),
        ("generate_text", "--init_checkpoint=c --rounds=3", "--rounds"),
        ("search_sentences", f"{SEARCH} --query=q --max_seq_length=9", "--max_seq_length"),
        ("search_sentences", f"{SEARCH} --query=q --append", "--append"),
        ("search_sentences", f"{SEARCH} --input_file=t --append --max_seq_length=9", "--max_seq_length"),
        ("search_sentences", f"{SEARCH} --input_file=t --id_column=id", "--id_column"),
        ("search_sentences", f"{SEARCH} --where=a=b --delete=x", "--where"),
        ("run_classifier", "--output_dir=o --do_train --temperature=3", "--temperature"),
        ("run_pretraining", "--input_file=i --output_dir=o --do_train --ngram_geometric_p=0.3", "--ngram_geometric_p"),
    ],
)
def test_flags_without_effect_are_refused_in_every_command(command, arguments, message, run_here):
    code, printed = run_here(importlib.import_module(MODULES[command]), *arguments.split())
    assert (code, printed.err.count("\n")) == (1, 1)
    assert printed.err.startswith(f"error: {message} has no effect")


@pytest.mark.parametrize("command", ["run_pretraining", "run_classifier", "run_squad", "extract_features"])
def test_a_command_line_of_googles_may_say_that_there_is_no_tpu(command, run_here):
    module = importlib.import_module(f"run_scripts.{command}")
    for arguments in (["--use_tpu=False"], ["--use_tpu=false"], ["--nouse_tpu"]):
        assert "use_tpu" not in run_here(module, *arguments)[1].err
    code, printed = run_here(module, "--use_tpu=True")
    assert code == 2
    assert "flag --use_tpu=True: only False is possible." in printed.err


@pytest.fixture
def extension(tmp_path, monkeypatch):
    """Function of the text of a module -> installs it as an extension, for `import_extensions` only."""

    def install(text):
        (tmp_path / "my_extension.py").write_text(text)
        metadata = tmp_path / "my_package-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("[keras_bert]\nmine = my_extension\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "my_extension", raising=False)
        monkeypatch.setattr(sys, "argv", ["command"])

    return install


def test_a_command_knows_the_tasks_of_installed_extensions(extension, monkeypatch, capsys):
    monkeypatch.setattr(registry, "TASKS", dict(registry.TASKS))
    extension("from keras_bert import registry\nregistry.register_task('MyModel', registry.Task())\n")
    run_command(lambda: print("MyModel" in registry.TASKS), lambda: None)
    assert capsys.readouterr().out == "True\n"


def test_an_extension_that_cannot_be_imported_is_one_line(extension, capsys):
    extension("import a_missing_library\n")
    with pytest.raises(SystemExit, match="1"):
        run_command(lambda: print("not reached"), lambda: None)
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "my_extension of the package my-package cannot be imported: ModuleNotFoundError" in error
    assert "'a_missing_library'" in error
