"""Exports of every task in every portable format answer like Python, in a process without TensorFlow and Keras."""

import functools
import pathlib
import pickle
import shutil
import subprocess
import sys

import pytest
from portable_answers import ANSWERS
from slow_parameters import slow_except
from tiny_models import MODELS, OPTIONS, assert_same_answers, make_model

from keras_bert import InputError
from keras_bert.serving import load
from keras_bert.serving.portable.folder import write_portable

FORMATS = ["litert", "onnx"]
# The tests of BERT cover every task in every format. Of the other families `make test` has these; the rest is slow.
FEW = [
    ("roberta", "classifier"),
    ("albert", "masked words"),
    ("distilbert", "tagger"),
    ("electra", "sentence encoder"),
    ("mobilebert", "masked words"),
    ("modernbert", "masked words"),
]
# LiteRT holds these too, but conversion takes seconds: with each family, two tasks are tested.
FAMILIES = ("roberta", "albert", "distilbert", "electra", "mobilebert", "modernbert")
OTHERS = [(family, name) for family in FAMILIES for name in MODELS if (family, name) not in FEW]
SLOW_CELLS = [("litert", family) for family in FAMILIES]
# Each kind of answer is loaded from SavedModels, which take longer to export; `make test` has the first.
KINDS_OF_ANSWERS = ("classifier", "tagger", "span", "masked words", "sentence encoder")
# Families whose layers ONNX files cannot hold.
WITHOUT_ONNX = ("mobilebert",)
# Variants of a task that another test covers.
VARIANTS = ("pairs", "few-shot classifier", "pretrainer", "all poolings", "first token")


def in_every_format(cases) -> list[tuple[str, str, str]]:
    """Puts each format before (family, name); not all families have ONNX files."""
    cells = [(format, *case) for case in cases for format in FORMATS if format != "onnx" or case[0] not in WITHOUT_ONNX]
    return [cell for cell in cells if cell[0] == "onnx" or cell[2] in ("classifier", "tagger")]


@pytest.fixture(scope="module")
def other_process():
    """Function of the name of a model and the folder of its export -> answers of a process without TensorFlow."""
    program = pathlib.Path(__file__).with_name("portable_answers.py")
    with subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def answers(name: str, folder):
            pickle.dump((name, str(folder)), process.stdin)
            process.stdin.flush()
            found = pickle.load(process.stdout)
            assert not isinstance(found, str), found
            return found

        yield answers
        process.kill()


@pytest.fixture
def answers_are_equal(other_process, tmp_path):
    """Function that exports a model, and compares the answers of the export with those of the model."""

    def compare(format: str, name: str, family: str = "bert") -> None:
        model = make_model(name, family)
        write_portable(model, tmp_path / "export", format, **OPTIONS.get(name, {}))
        assert_same_answers(other_process(name, tmp_path / "export"), ANSWERS[name](model))

    return compare


def test_there_are_questions_for_every_model():
    assert list(ANSWERS) == list(MODELS)


def is_slow(format: str, name: str) -> bool:
    """The short run tests each kind of answer as ONNX, and one as LiteRT; conversion to LiteRT takes seconds."""
    return name in VARIANTS or (format == "litert" and name != "sentence encoder")


@pytest.mark.parametrize(
    ("format", "name"),
    [
        pytest.param(format, name, marks=pytest.mark.slow if is_slow(format, name) else ())
        for format in FORMATS
        for name in MODELS
    ],
)
def test_every_task_answers_as_in_python(format, name, answers_are_equal):
    answers_are_equal(format, name)


@pytest.mark.parametrize(
    ("format", "family", "name"),
    [pytest.param(*cell, marks=pytest.mark.slow if cell[:2] in SLOW_CELLS else ()) for cell in in_every_format(FEW)],
)
def test_every_family_answers_as_in_python(format, family, name, answers_are_equal):
    answers_are_equal(format, name, family)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "family", "name"), in_every_format(OTHERS))
def test_every_task_of_every_family_answers_as_in_python(format, family, name, answers_are_equal):
    answers_are_equal(format, name, family)


@pytest.mark.slow
def test_an_xlnet_answers_in_litert_as_in_python(answers_are_equal):
    answers_are_equal("litert", "classifier", "xlnet")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["longformer", "big_bird"])
def test_litert_names_the_operation_that_it_lacks(family, tmp_path):
    with pytest.raises(InputError, match="LiteRT cannot hold this SequenceClassifier: it has no operation 'tf.Strided"):
        write_portable(make_model("classifier", family), tmp_path / "export", "litert")


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """Function of the name and the family of a model -> the folder of its SavedModel, which is written once."""

    @functools.cache
    def export(name: str, family: str):
        folder = tmp_path_factory.mktemp("saved_model")
        options = {"text_pairs": True} if name == "pairs" else {}
        make_model(name, family).export_for_serving(folder, **options, **OPTIONS.get(name, {}))
        return folder

    return export


@pytest.mark.parametrize(
    "name",
    slow_except([KINDS_OF_ANSWERS[0]], [name for name in MODELS if name not in VARIANTS]),
)
def test_a_loaded_saved_model_answers_as_in_python(name, saved_model):
    assert_same_answers(ANSWERS[name](load(saved_model(name, "bert"))), ANSWERS[name](make_model(name, "bert")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name"), [("roberta", "masked words"), ("albert", "tagger"), ("distilbert", "pairs")]
)
def test_a_loaded_saved_model_of_a_family_answers_as_in_python(family, name, saved_model):
    assert_same_answers(ANSWERS[name](load(saved_model(name, family))), ANSWERS[name](make_model(name, family)))


def test_what_a_saved_model_does_not_hold_is_refused(tmp_path, saved_model):
    make_model("masked words").export_for_serving(tmp_path / "masked", top_k=2)
    model = load(tmp_path / "masked")
    assert len(model.predict(["[MASK]"])[0].masks[0].fills) == 2
    for options in ({"top_k": 3}, {"targets": ["fox"]}):
        with pytest.raises(InputError, match="exported with top_k=2 and has no probabilities of other tokens"):
            model.predict(["[MASK]"], **options)
    shutil.copytree(saved_model("classifier", "bert"), tmp_path / "single")
    with pytest.raises(InputError, match="takes single texts. Export the model with text_pairs=True"):
        load(tmp_path / "single").predict((["a"], ["b"]))
    with pytest.raises(InputError, match="num_threads is for LiteRT and ONNX"):
        load(tmp_path / "single", num_threads=2)
    (tmp_path / "single" / "1" / "assets" / "export.json").unlink()
    with pytest.raises(InputError, match="assets has no export.json"):
        load(tmp_path / "single")
    with pytest.raises(InputError, match="is no export: it has neither export.json .* nor a SavedModel"):
        load(pathlib.Path(__file__).parent)
