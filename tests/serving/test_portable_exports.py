"""Exports of every task in every format give the answers of Python; LiteRT and ONNX in a process without TensorFlow."""

import functools
import pickle
import shutil
import subprocess
import sys

import pytest
from places import TESTS
from portable_answers import ANSWERS
from slow_parameters import slow_except
from tiny_models import MODELS, OPTIONS, assert_same_answers, make_model

from keras_bert import InputError
from keras_bert.serving import load
from keras_bert.serving.portable import saved_model_engine
from keras_bert.serving.portable.folder import write_portable

FORMATS = ["litert", "onnx"]
SAVED_MODEL = "saved_model"
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
    program = TESTS / "portable_answers.py"
    with subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def answers(name: str, folder):
            pickle.dump((name, str(folder)), process.stdin)
            process.stdin.flush()
            found = pickle.load(process.stdout)
            assert not isinstance(found, str), found
            return found

        yield answers
        process.kill()


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


@pytest.fixture
def answers_are_equal(other_process, saved_model, tmp_path):
    """Function that exports a model, and compares the answers of the export with those of the model."""

    def compare(format: str, name: str, family: str = "bert") -> None:
        model = make_model(name, family)
        if format == SAVED_MODEL:
            answers = ANSWERS[name](load(saved_model(name, family)))
        else:
            write_portable(model, tmp_path / "export", format, **OPTIONS.get(name, {}))
            answers = other_process(name, tmp_path / "export")
        assert_same_answers(answers, ANSWERS[name](model))

    return compare


def test_there_are_questions_for_every_model():
    assert list(ANSWERS) == list(MODELS)


def is_slow(format: str, name: str) -> bool:
    """The short run tests each kind of answer as ONNX, and one in each other format, whose exports take seconds."""
    fast = {"litert": "sentence encoder", SAVED_MODEL: "classifier"}
    return name in VARIANTS or (format != "onnx" and name != fast[format])


@pytest.mark.parametrize(
    ("format", "name"),
    [
        pytest.param(format, name, marks=pytest.mark.slow if is_slow(format, name) else ())
        for format in (*FORMATS, SAVED_MODEL)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name"), [("roberta", "masked words"), ("albert", "tagger"), ("distilbert", "pairs")]
)
def test_a_loaded_saved_model_of_a_family_answers_as_in_python(family, name, answers_are_equal):
    answers_are_equal(SAVED_MODEL, name, family)


@pytest.mark.parametrize(
    "name", slow_except(["classifier"], ["classifier", "several labels", "tagger", "choice", "masked words"])
)
def test_a_saved_model_of_an_earlier_version_answers_as_in_python(name, saved_model, monkeypatch):
    """Exports of commit 975f940 have no signature `raw_outputs`: their probabilities become logits again."""
    monkeypatch.setattr(saved_model_engine, "RAW_OUTPUTS", "not there")
    model, loaded = make_model(name), load(saved_model(name, "bert"))
    if name != "masked words":
        return assert_same_answers(ANSWERS[name](loaded), ANSWERS[name](model))
    assert_same_answers(loaded.predict("a [MASK] fox"), model.predict("a [MASK] fox"))
    for options in ({"top_k": 6}, {"targets": ["fox"]}):
        with pytest.raises(InputError, match="top_k=5 by an earlier version and has no probabilities of other tokens"):
            loaded.predict("[MASK]", **options)
    with pytest.raises(InputError, match="of an earlier version has the probabilities of few tokens only"):
        loaded.evaluate(["the fox"])


def test_a_saved_model_of_a_masked_lm_knows_all_tokens(tmp_path):
    model = make_model("masked words")
    model.export_for_serving(tmp_path / "masked", top_k=2)
    loaded = load(tmp_path / "masked")
    assert len(loaded.predict("a [MASK]")[0].masks[0].fills) == 2
    for options in ({"top_k": 12}, {"targets": ["fox", "the"]}):
        texts = ["a [MASK] fox", "[MASK] [MASK]"]
        assert_same_answers(loaded.predict(texts, **options), model.predict(texts, **options))
    assert_same_answers(loaded.evaluate(["the fox is", "a"]), model.evaluate(["the fox is", "a"]))


def test_what_a_saved_model_does_not_hold_is_refused(tmp_path, saved_model):
    shutil.copytree(saved_model("classifier", "bert"), tmp_path / "single")
    with pytest.raises(InputError, match="takes single texts. Export the model with text_pairs=True"):
        load(tmp_path / "single").predict((["a"], ["b"]))
    with pytest.raises(InputError, match="num_threads is for LiteRT and ONNX"):
        load(tmp_path / "single", num_threads=2)
    (tmp_path / "single" / "1" / "assets" / "export.json").unlink()
    with pytest.raises(InputError, match="assets has no export.json"):
        load(tmp_path / "single")
    with pytest.raises(InputError, match="is no export: it has neither export.json .* nor a SavedModel"):
        load(TESTS)
