"""The command that runs the Beam pipeline, in an environment of its own.

KERAS_BERT_BEAM_PYTHON names the Python of that environment (`make test-beam` makes one); without it, and where
apache_beam is not installed, these tests are skipped.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
import tiny
from places import PROJECT
from small_corpora import contents

from data_prep import beam_pretraining_data as command
from data_prep.beam_pretraining_data import beam_pretraining_data
from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.pretraining.pretraining_records import PretrainingOptions
from keras_bert.program.errors import InputError
from run_scripts import embed_sentences, predict_table

HAS_BEAM = importlib.util.find_spec("apache_beam") is not None


@pytest.fixture
def vocab_file(tmp_path):
    tiny.vocabulary("the quick brown fox").save(tmp_path / "v.txt")
    return tmp_path / "v.txt"


@pytest.fixture
def text(tmp_path):
    documents = ["\n".join("the quick brown fox " * (1 + i % 5) for i in range(n, n + 6)) for n in range(40)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    return str(tmp_path / "text.txt")


def test_without_beam_the_command_says_what_to_install(vocab_file, text):
    if HAS_BEAM:
        pytest.skip("apache_beam is installed")
    with pytest.raises(InputError, match=r"Run in a clone of keras_bert: pip install '\.\[beam\]'"):
        beam_pretraining_data(text, vocab_file, output_dir="records")


def test_the_commands_about_tables_say_what_beam_cannot_do(refused_here, text, tmp_path):
    flags = [f"--init_checkpoint={tmp_path}", f"--input_file={text}"]
    cases = [
        (
            f"--output_dir={tmp_path / 'a'}",
            "--workers has no effect with a runner of Beam. Leave it out",
            "--workers=2",
        ),
        ("--output_dir=gs://bucket/a", "folder on this disk, or one that all machines share. Received: gs://bucket/a"),
        (f"--output_dir={tmp_path / 'a'}", "Beam does not accept --runner=R" if HAS_BEAM else "needs Apache Beam"),
    ]
    for output, message, *others in cases:
        for about_tables in (embed_sentences, predict_table):
            assert message in refused_here(about_tables, *flags, output, *others, "--", "--runner=R").err
    assert not (tmp_path / "a").exists()


def test_the_command_passes_on_all_its_flags(vocab_file, text, done_here, monkeypatch):
    flags = [f"--input_file={text}", f"--vocab_file={vocab_file}", "--output_dir=records", "--num_shards=2"]
    flags += ["--dupe_factor=3", "--max_seq_length=64", "--masked_lm_prob=0.2", "--random_seed=7", "--", "--runner=R"]
    monkeypatch.setattr(command, "beam_pretraining_data", lambda **arguments: arguments)
    printed = done_here(command, *flags).out
    for given in ("'output_dir': 'records'", "'num_shards': 2", "'beam_options': ['--runner=R']"):
        assert given in printed
    for given in ("dupe_factor=3", "max_seq_length=64", "masked_lm_prob=0.2", "random_seed=7"):
        assert given in printed


def beam_python():
    """The Python to start the command with."""
    if HAS_BEAM:
        return sys.executable
    python = os.environ.get("KERAS_BERT_BEAM_PYTHON")
    if not python:
        pytest.skip("apache_beam is not installed, and KERAS_BERT_BEAM_PYTHON names no Python that has it")
    return python


def run_in_environment_of_beam(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [beam_python(), *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=600
    )


def test_the_command_writes_the_bytes_of_a_local_run_in_another_environment(tmp_path, vocab_file, text):
    flags = [f"--input_file={text}", f"--vocab_file={vocab_file}", f"--output_dir={tmp_path / 'beam'}"]
    flags += ["--num_shards=2", "--dupe_factor=3", "--max_seq_length=64", "--", "--runner=DirectRunner"]
    result = run_in_environment_of_beam("-m", "data_prep.beam_pretraining_data", *flags)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "in 2 file(s)" in result.stdout
    options = PretrainingOptions(dupe_factor=3, max_seq_length=64)
    create_pretraining_data([text], vocab_file, output_dir=tmp_path / "local", num_shards=2, options=options)
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")


def test_the_command_says_what_is_wrong_in_one_line(tmp_path, vocab_file):
    (tmp_path / "binary.txt").write_bytes(b"a \0 line\n")
    flags = [f"--input_file={tmp_path / 'binary.txt'}", f"--vocab_file={vocab_file}", f"--output_dir={tmp_path / 'r'}"]
    result = run_in_environment_of_beam("-m", "data_prep.beam_pretraining_data", *flags)
    assert result.returncode == 1
    assert f"error: {tmp_path / 'binary.txt'} is binary, not text" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data_prep/test_beam_pipeline.py", "serving/test_beam.py"])
def test_the_pipelines_pass_their_tests_in_the_environment_of_beam(name):
    if HAS_BEAM:
        pytest.skip(f"this is the environment of Beam: {name} runs by itself")
    tests = str(pathlib.Path(__file__).parent.parent / name)
    result = run_in_environment_of_beam("-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
