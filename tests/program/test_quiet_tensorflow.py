"""TensorFlow's start-up messages do not reach the users of the package; errors and their own choice do."""

import logging
import os
import re
import subprocess
import sys
import types

import pytest
from places import PROJECT

from keras_bert.program import quiet_tensorflow

FIRST_CELL = """
import sys
import tiny
from keras_bert import SequenceClassifier
vocabulary = tiny.vocabulary("good bad film the")
texts, labels = ["the good film", "bad", "good", "the bad film"], ["yes", "no", "yes", "no"]
for _ in range(REPEATS):
    model = SequenceClassifier(tiny.config(vocabulary, hidden_size=8, num_hidden_layers=1), labels=["no", "yes"])
    model.vocabulary = vocabulary
    model.fit(texts, labels, epochs=1, verbose=0)
    for number in range(1, 4):
        answers = model.predict(texts[:number], verbose=0)
model.save_pretrained(sys.argv[1] + "/folder")
model.save(sys.argv[1] + "/model.keras")
model.export_for_serving(sys.argv[1] + "/served")
model.export(sys.argv[1] + "/features")
print(answers[0].label in ("no", "yes"))
"""


def python(program, *arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")}
    kept["PYTHONPATH"] = os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True)


@pytest.mark.slow
def test_a_first_cell_shows_only_its_own_output(tmp_path):
    found = python(FIRST_CELL.replace("REPEATS", "6"), tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "True\n", "")


def test_the_import_shows_no_messages_but_errors():
    program = "import keras_bert, tensorflow, os; os.write(2, b'mine\\n'); tensorflow.constant(1)"
    found = python(program)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "mine\n")


@pytest.mark.slow
def test_the_level_that_the_user_chose_is_kept():
    program = "import keras_bert, tensorflow, os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    loud = python(program, TF_CPP_MIN_LOG_LEVEL="0")
    assert loud.stdout == "0\n"
    assert re.search(r"^I\d{4} ", loud.stderr, re.M)  # which lines there are depends on the machine


class Loader:
    """A loader whose module writes to standard error as TensorFlow does."""

    lines = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "I0000 00:00:1795755050.476093   10890 port.cc:153] oneDNN custom operations are on.\n"
        "2026-01-31 12:00:00.123456: W tensorflow/x.cc:1] a warning\n"
        "E0000 00:00:1795755050.476093   10890 x.cc:153] an error\n"
        "somebody else's line\n"
    )
    fails = False

    def exec_module(self, module):
        os.write(2, self.lines.encode())
        if self.fails:
            raise ImportError("no such library")


@pytest.mark.parametrize(("level", "shown"), [(None, (4,)), ("1", (2, 3, 4)), ("2", (3, 4))])
def test_only_lines_of_the_log_below_the_level_are_hidden(level, shown, monkeypatch, capfd):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    if level:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    loader = Loader()
    quiet_tensorflow._QuietLoader(loader, False).exec_module(None)
    lines = loader.lines.splitlines(keepends=True)
    assert capfd.readouterr().err == "".join(lines[number] for number in shown)
    loader.fails = True
    with pytest.raises(ImportError):
        quiet_tensorflow._QuietLoader(loader, False).exec_module(None)
    assert capfd.readouterr().err == loader.lines


@pytest.mark.parametrize(("module", "is_shown"), [("keras.src.x", False), ("keras_bert.tasks", False), ("me", True)])
def test_only_functions_of_the_user_are_reported_as_traced_anew(module, is_shown):
    record = logging.LogRecord("tensorflow", 30, "x", 1, "5 calls triggered tf.function retracing", (), None)
    caller = types.FunctionType(compile("ask(record)", "x", "eval"), {"__name__": module})
    caller.__globals__.update(ask=quiet_tensorflow._is_for_user, record=record)
    assert caller() == is_shown
    record.msg = "another warning"
    assert caller()
