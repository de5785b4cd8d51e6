"""Each task as a model, on texts, and exported: one table, and one test for each of these scenarios.

Special cases of a task are in `tests/tasks/`, of a format in `tests/serving/`. Commands are in `tests/run_scripts/`.
"""

import contextlib
import dataclasses
import functools
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import TESTS
from portable_answers import ANSWERS
from small_install import small_environment
from tiny_families import LABELS, TEXTS, fewest_layers
from tiny_models import MODELS, NOT_PORTABLE, OPTIONS, assert_same_answers, make_model, new_model

from keras_bert import AdamW, InputError
from keras_bert.serving import load
from keras_bert.tasks.base import text_task

SAVED_MODEL, LITERT, ONNX = "saved_model", "litert", "onnx"
FORMATS = (SAVED_MODEL, LITERT, ONNX)
RUNTIMES_OF = {LITERT: ["litert"], ONNX: ["onnxruntime", "openvino"]}
OTHERS = TEXTS[::-1]
PAIR = (TEXTS, OTHERS)
WORDS = [["the", "fox", ",", "dog"], ["a", "dog"], ["fox"]]
TAGS = [["O", "B-PER", "O", "B-LOC"], ["O", "B-LOC"], ["B-PER"]]
CONTEXTS = ["the dog, the fox who a dog", "a dog", "fox fox fox"]
SPANS = [{"text": "fox", "answer_start": 13}, {"text": "dog", "answer_start": 2}, {"text": "fox", "answer_start": 4}]
CHOICES = [["dog", "fox"], ["the", "a dog"], ["fox", "the dog"]]


@dataclasses.dataclass(frozen=True)
class Row:
    """What a task learns, and its exports.

    Attributes:
        x, y: the arguments of `fit` on texts.
        fast: the formats of its exports in `make test`; the others are slow.
        formats: the formats that can hold it.
    """

    x: object
    y: object = None
    fast: tuple = (ONNX,)
    formats: tuple = FORMATS


# Name of a model in tiny_models.py -> what it learns.
TASKS = {
    "classifier": Row(TEXTS, ["animal", "none", "größer", "none"], (ONNX, SAVED_MODEL)),
    "pairs": Row(PAIR, ["a", "b", "a", "b"], ()),
    "several labels": Row(TEXTS, [["a", "c"], ["b"], ["a"], []]),
    "regression": Row(TEXTS, [0.0, 1.0, 0.5, 2.0]),
    "sentence encoder": Row(PAIR, None, (ONNX, LITERT, SAVED_MODEL)),
    "cross-encoder": Row(PAIR, [1, 0, 1, 0]),
    "tagger": Row(WORDS, TAGS, (ONNX, SAVED_MODEL)),
    "span": Row((["who?"] * 3, CONTEXTS), SPANS, (ONNX, SAVED_MODEL)),
    "choice": Row((TEXTS[:3], CHOICES), [1, 0, 1], (ONNX, SAVED_MODEL)),
    "masked words": Row(TEXTS, None),
    "writer": Row(TEXTS, OTHERS, (SAVED_MODEL,), (SAVED_MODEL,)),
    "sparse encoder": Row(PAIR, None, (SAVED_MODEL,), (SAVED_MODEL,)),
    "multi-vector encoder": Row((*PAIR, LABELS), [[5.0, 0.0]] * 4, (SAVED_MODEL,), (SAVED_MODEL,)),
}
# Models that differ from one of these in their settings or in their class only: they are exported.
VARIANTS = {
    "windows": Row(TEXTS),
    "few-shot classifier": Row(TEXTS, fast=()),
    "pretrainer": Row(TEXTS, fast=()),
    "all poolings": Row(TEXTS, fast=()),
    "first token": Row(TEXTS, fast=()),
    "encoder": Row(TEXTS),
}
ROWS = {**TASKS, **VARIANTS}
# Name of a model -> that of its SavedModel in SAVED_MODELS, which the tests of tests/serving share.
SHARED = {"classifier": "single", "sentence encoder": "sentence", "tagger": "tagger", "span": "answerer"}
SHARED |= {"choice": "choice"}
# The path of these is that of "classifier", so `make test` has them on texts and exported only.
LIKE_CLASSIFIERS = ("pairs", "several labels", "regression")
# BERT's relatives -> the formats that can hold them, the task of the ONNX file, and whether it is in `make test`.
FAMILIES = {
    "roberta": (FORMATS, "classifier", True),
    "xlm-roberta": (FORMATS, "tagger", False),
    "camembert": (FORMATS, "classifier", False),
    "mpnet": (FORMATS, "masked words", True),
    "deberta-v2": (FORMATS, "tagger", True),
    "albert": (FORMATS, "masked words", True),
    "distilbert": (FORMATS, "tagger", True),
    "electra": (FORMATS, "sentence encoder", True),
    "mobilebert": ((SAVED_MODEL, LITERT), None, False),
    "modernbert": (FORMATS, "masked words", True),
    "nomic_bert": (FORMATS, "span", False),
    "gte": (FORMATS, "choice", False),
    "jina_embeddings_v3": (FORMATS, "cross-encoder", False),
    "neobert": (FORMATS, "pretrainer", False),
    "eurobert": (FORMATS, "classifier", True),
    "gemma3_text": (FORMATS, "masked words", True),
    "longformer": ((SAVED_MODEL,), None, False),
    "big_bird": ((SAVED_MODEL,), None, False),
    "xlnet": ((SAVED_MODEL, LITERT), None, False),
}
# Here exports of families show their tokens and heads; test_onnx_exports.py and test_packed_rows.py have more layers.
LAYERS = {"bert": {}} | {family: fewest_layers(family) for family in FAMILIES}


def slow(*values, unless: bool):
    return pytest.param(*values, marks=() if unless else pytest.mark.slow)


def exports_of_families():
    """One export of each format for each family. A classifier reads ids of tokens, a tagger their offsets too."""
    for number, (family, (formats, in_onnx, is_fast)) in enumerate(FAMILIES.items()):
        for format in formats:
            name = in_onnx if format == ONNX else ("classifier", "tagger")[number % 2]
            yield slow(format, name, family, unless=is_fast and format == ONNX)


@contextlib.contextmanager
def without_graphs():
    """Lets models answer operation by operation: making a graph takes longer than a few answers."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@functools.cache
def trained(name: str):
    """Returns a model that has learned the texts of its row without graphs, and its losses."""
    model, row = new_model(name), TASKS[name]
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    model.compile(AdamW(3e-3), run_eagerly=True, jit_compile=False)
    return model, model.fit(row.x, row.y, epochs=4, batch_size=4, verbose=0).history["loss"]


@pytest.mark.parametrize("name", TASKS)
def test_a_model_learns_from_texts(name):
    _, losses = trained(name)
    assert losses[-1] < 0.95 * losses[0]


def features_of(name):
    """Returns a data set with the features of the texts of a row, in one batch."""
    task, row = text_task(make_model(name)), TASKS[name]
    if name == "masked words":
        return tf.data.Dataset.from_tensors(next(task.batches(task.rows(row.x).rows, 4, None, 0)))
    rows = task.rows(task.examples(row.x, row.y)).rows
    return tf.data.Dataset.from_tensors(rows.batch(np.arange(len(rows))))


def trained_and_asked(name):
    """Returns the losses of two updates and of an evaluation, and the answers after the last update."""
    model, dataset = new_model(name), features_of(name)
    model.compile(AdamW(1e-4), jit_compile=False)
    losses = model.fit(dataset, epochs=2, verbose=0).history["loss"]
    losses.append(model.evaluate(dataset, return_dict=True, verbose=0)["loss"])
    return losses, ANSWERS[name](model)


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize("name", [slow(name, unless=name not in LIKE_CLASSIFIERS) for name in TASKS])
def test_graphs_on_features_compute_what_single_operations_compute(name):
    losses, found = trained_and_asked(name)
    assert losses[1] != losses[0]
    with without_graphs():
        expected_losses, expected = trained_and_asked(name)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    assert_same_answers(found, expected, 1e-3)


@pytest.mark.parametrize("name", [slow(name, unless=name not in LIKE_CLASSIFIERS) for name in TASKS])
def test_a_saved_model_gives_the_same_answers(name, tmp_path):
    model, _ = trained(name)
    model.save_pretrained(tmp_path / "folder")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
    with without_graphs():
        expected = ANSWERS[name](model)
        for loaded in (type(model).from_pretrained(tmp_path / "folder"), again):
            assert type(loaded) is type(model)
            assert_same_answers(ANSWERS[name](loaded), expected)


@pytest.mark.parametrize("name", [*LIKE_CLASSIFIERS, "classifier", "tagger", "span", "choice", "writer"])
def test_an_evaluation_without_labels_is_refused(name):
    with pytest.raises(InputError, match=r"There are no labels to compare with: give evaluate\(texts, labels\)"):
        make_model(name).evaluate(TASKS[name].x, verbose=0)


@pytest.fixture(scope="module")
def other_process():
    """Function of the name of a model, the folder of its export and a runtime -> answers of the small install, in a
    process without TensorFlow."""
    command = {"args": [sys.executable, TESTS / "portable_answers.py"], "env": small_environment()}
    with subprocess.Popen(**command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def answers(name: str, folder, runtime: str):
            pickle.dump((name, str(folder), runtime), process.stdin)
            process.stdin.flush()
            found = pickle.load(process.stdout)
            assert not isinstance(found, str), found
            return found

        yield answers
        process.kill()


@pytest.mark.parametrize(
    ("format", "name", "family"),
    [
        *(
            slow(format, name, "bert", unless=format in row.fast)
            for name, row in ROWS.items()
            for format in row.formats
        ),
        *exports_of_families(),
    ],
)
def test_an_export_answers_as_the_model(format, name, family, other_process, served, tmp_path):
    model, folder = make_model(name, family, **LAYERS[family]), tmp_path / "export"
    options = OPTIONS.get(name, {})
    if (format, family) == (SAVED_MODEL, "bert") and name in SHARED:
        found = [ANSWERS[name](load(served[1][SHARED[name]]))]
    elif format == SAVED_MODEL:
        model.export_for_serving(folder, **options, **({"text_pairs": True} if name == "pairs" else {}))
        found = [ANSWERS[name](load(folder))]
    else:
        model.export_for_serving(folder, format=format, **options)
        found = [other_process(name, folder, runtime) for runtime in RUNTIMES_OF[format]]
    expected = ANSWERS[name](model)
    for answers in found:
        assert_same_answers(answers, expected)


def test_every_model_has_a_row():
    assert set(ROWS) == set(ANSWERS) == {*MODELS, *NOT_PORTABLE}
