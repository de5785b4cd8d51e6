"""Exports by core TensorFlow operations alone: made, loaded and asked without tensorflow-text."""

import json
import pathlib
import subprocess
import sys

import pytest
import signature_questions
import tiny_models
from places import PROJECT
from serving.test_export_in_c_api import serve
from tiny_families import new

from keras_bert import SequenceClassifier
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.saved_model_check.checking import check


@pytest.fixture(scope="module")
def exports(served, tmp_path_factory):
    """Name -> folder of the export by core operations, of the models of `tiny_models`."""
    models = {name: (model, {**options, "core_operations": True}) for name, (model, options) in served[0].items()}
    return tiny_models.Exports(models, tmp_path_factory.mktemp("core"))


# Only the tokenizer has other operations: a classifier reads its ids, a tagger its offsets too.
@pytest.mark.slow
@pytest.mark.parametrize("model", ["single", "tagger"])
def test_the_c_api_gives_the_usual_answers_without_any_library_of_text_operations(served, exports, model):
    questions = [question for question in signature_questions.questions() if question.model == model]
    result = serve(questions, exports, [])
    assert result.returncode == 0, result.stderr
    signature_questions.assert_answers(questions, json.loads(result.stdout)["answers"], served[1])


def test_the_check_says_what_an_export_needs_of_tensorflow_text(served, exports):
    usual, core = check(served[1]["single"]), check(exports["single"])
    assert usual.text_operations == ("FastBertNormalize", "FastWordpieceTokenizeWithOffsets")
    assert str(usual).endswith("; needs of TensorFlow Text: FastBertNormalize, FastWordpieceTokenizeWithOffsets")
    assert core.text_operations == ()
    assert str(core).endswith("; needs of TensorFlow Text: nothing")
    assert not core.errors


def test_a_model_of_sentence_piece_is_refused_and_nothing_is_written(tmp_path):
    model = new(SequenceClassifier, "albert", labels=["a", "b"])
    with pytest.raises(InputError, match="SentencePiece has no form by core TensorFlow operations"):
        model.export_for_serving(tmp_path / "model", core_operations=True)
    assert not list(tmp_path.rglob("*.pb"))


# Exports a model and asks it where tensorflow_text can be neither imported nor found.
WITHOUT_TEXT = """
import sys

sys.modules["tensorflow_text"] = None
sys.path.insert(0, "tests")
from tiny_models import CONFIG, VOCABULARY
from tiny_families import new
from keras_bert import SequenceClassifier
from keras_bert.serving import load
from keras_bert.tf_serving import loading

find = loading.importlib.util.find_spec
loading.importlib.util.find_spec = lambda name: None if name == "tensorflow_text" else find(name)
family, folder, usual_export = sys.argv[1:]
if family == "bert":
    model = SequenceClassifier(CONFIG, labels=["a", "b"])
    model.vocabulary = VOCABULARY
else:
    model = new(SequenceClassifier, family, labels=["a", "b"])
saved = load(model.export_for_serving(folder, core_operations=True))
print(len(saved.predict(["the fox", "dog!", "a"])))
try:
    load(usual_export)
except loading.InputError as error:
    print(error)
with open("/proc/self/maps") as file:
    print([line for line in file if "tensorflow_text" in line])
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/maps").exists(), reason="reads the libraries of a process from /proc")
@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_where_tensorflow_text_is_missing_models_are_exported_and_asked(served, tmp_path, family):
    program = [sys.executable, "-c", WITHOUT_TEXT, family, str(tmp_path), served[1]["single"]]
    result = subprocess.run(program, capture_output=True, text=True, cwd=PROJECT)
    assert result.returncode == 0, result.stderr
    answers, refusal, libraries = result.stdout.splitlines()
    assert answers == "3"
    assert "needs TensorFlow Text, which is not installed" in refusal
    assert libraries == "[]"
