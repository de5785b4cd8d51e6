"""Exports of every task in every portable format answer like Python, in a process without TensorFlow and Keras."""

import functools
import pathlib
import pickle
import subprocess
import sys

import pytest
from portable_answers import ANSWERS
from portable_models import FAMILIES, MODELS, OPTIONS, assert_same_answers, make_model

from keras_bert.serving.portable.folder import write_portable

FORMATS = ["litert"]
# For each format one family has all tasks, and the others these; the rest is marked slow.
FEW = ("classifier", "masked words")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Function of a format, a family and names of models -> name -> the answers of the loaded export."""

    @functools.cache
    def of(format: str, family: str, names: tuple[str, ...]) -> dict:
        folder = tmp_path_factory.mktemp(f"{format}-{family}")
        for name in names:
            write_portable(make_model(name, family), folder / name, format, **OPTIONS.get(name, {}))
        program = pathlib.Path(__file__).with_name("portable_answers.py")
        exports = [f"{name}={folder / name}" for name in names]
        result = subprocess.run(
            [sys.executable, str(program), str(folder / "answers"), *exports], capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return pickle.loads((folder / "answers").read_bytes())

    return of


def test_there_are_questions_for_every_model():
    assert list(ANSWERS) == list(MODELS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("format", FORMATS)
def test_every_task_answers_as_in_python(format, name, answers):
    assert_same_answers(answers(format, "bert", tuple(MODELS))[name], ANSWERS[name](make_model(name)))


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("family", FAMILIES[1:])
@pytest.mark.parametrize("format", FORMATS)
def test_every_family_answers_as_in_python(format, family, name, answers):
    assert_same_answers(answers(format, family, FEW)[name], ANSWERS[name](make_model(name, family)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in FEW])
@pytest.mark.parametrize("family", FAMILIES[1:])
@pytest.mark.parametrize("format", FORMATS)
def test_every_task_of_every_family_answers_as_in_python(format, family, name, answers):
    others = tuple(name for name in MODELS if name not in FEW)
    assert_same_answers(answers(format, family, others)[name], ANSWERS[name](make_model(name, family)))
