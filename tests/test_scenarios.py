"""Each task as a model, on texts, as a command, and exported: one table, and one test for each of these scenarios.

Special cases of a task are in `tests/tasks/`, of a command in `tests/run_scripts/`, of a format in `tests/serving/`.
"""

import contextlib
import dataclasses
import functools
import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
from documented_results import undocumented_keys
from places import TESTS
from portable_answers import ANSWERS
from tiny_families import LABELS, TEXTS, fewest_layers
from tiny_models import CONFIG, MODELS, NOT_PORTABLE, OPTIONS, VOCABULARY, assert_same_answers, make_model, new_model

from keras_bert import AdamW, InputError, MaskedLM
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
CONLL = "\n\n".join("\n".join(map(" ".join, zip(*row, strict=True))) for row in zip(WORDS, TAGS, strict=True)) + "\n"


def table(*columns) -> str:
    """Columns, each with its name first -> the text of a file of tab-separated values."""
    return "".join("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def squad() -> str:
    rows = enumerate(zip(CONTEXTS, SPANS, strict=True))
    paragraphs = [
        {"context": text, "qas": [{"id": f"{n}", "question": "who?", "answers": [a]}]} for n, (text, a) in rows
    ]
    return json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]})


def numbers(name: str):
    """Function of an output folder -> the numbers in this file."""
    return lambda folder: np.load(folder / name) if name.endswith("npy") else np.loadtxt(folder / name)


def columns(name: str, number: int, separator: str, skip: int = 0):
    """Function of an output folder -> a column of this file, without its header and its empty lines."""

    def read(folder):
        lines = (folder / name).read_text("utf-8").splitlines()[skip:]
        return [line.split(separator)[number] for line in lines if line]

    return read


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


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command reads and writes.

    Attributes:
        module: its name in `run_scripts`.
        flags: its flags, with spaces between, less those of every command.
        file: the content of the training file, which is the dev and the test file too.
        written: function of the output folder -> what the command has predicted.
        predicted: function of the model in the output folder -> the same.
        page: the page in `docs/` that names all results, if one does.
    """

    module: str
    flags: str
    file: str
    written: Callable
    predicted: Callable
    page: str | None


# Name of a model in tiny_models.py -> what it learns.
TASKS = {
    "classifier": Row(TEXTS, ["animal", "none", "größer", "none"], (ONNX, SAVED_MODEL)),
    "pairs": Row(PAIR, ["a", "b", "a", "b"], ()),
    "several labels": Row(TEXTS, [["a", "c"], ["b"], ["a"], []]),
    "regression": Row(TEXTS, [0.0, 1.0, 0.5, 2.0], (ONNX, SAVED_MODEL)),
    "sentence encoder": Row(PAIR, None, (ONNX, LITERT, SAVED_MODEL)),
    "cross-encoder": Row(PAIR, [1, 0, 1, 0], (ONNX, SAVED_MODEL)),
    "tagger": Row(WORDS, TAGS, (ONNX, SAVED_MODEL)),
    "span": Row((["who?"] * 3, CONTEXTS), SPANS, (ONNX, SAVED_MODEL)),
    "choice": Row((TEXTS[:3], CHOICES), [1, 0, 1], (ONNX, SAVED_MODEL)),
    "masked words": Row(TEXTS, None, (ONNX, SAVED_MODEL)),
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
# The path of these is that of "classifier", so `make test` has them on texts and exported only.
LIKE_CLASSIFIERS = ("pairs", "several labels", "regression")
CLASSIFIER = ("run_classifier", "--text_column=a --label_column=b", "classification.md")


def classifying(labels, flags="", predicted=lambda model: [[*one.probabilities.values()] for one in answers(model)]):
    module, columns, page = CLASSIFIER
    file = table(["a", *TEXTS], ["b", *labels])
    return Command(module, f"{columns} {flags}", file, numbers("test_results.tsv"), predicted, page)


# Name of a model -> the command that trains it.
COMMANDS = {
    "classifier": classifying(LABELS),
    "several labels": classifying(["a,c", "b", "a", ""], "--problem_type=multi_label"),
    "regression": classifying(
        [0, 1, 0.5, 2], "--problem_type=regression", lambda model: [one.score for one in model.predict(TEXTS)]
    ),
    "sentence encoder": Command(
        "run_embeddings",
        "--text_columns=a,b",
        table(["a", *TEXTS], ["b", *OTHERS]),
        numbers("test_vectors.npy"),
        lambda model: np.stack([model.encode(texts) for texts in PAIR], axis=1),
        None,
    ),
    "cross-encoder": Command(
        "run_embeddings",
        "--text_columns=a,b,c --cross_encoder",
        table(["a", *TEXTS], ["b", *OTHERS], ["c", *LABELS]),
        numbers("test_results.tsv"),
        lambda model: model.predict((*PAIR, LABELS)),
        None,
    ),
    "tagger": Command(
        "run_ner",
        "",
        CONLL,
        columns("test_predictions.conll", 2, " "),
        lambda model: [tag for answer in model.predict(WORDS) for tag in answer.tags],
        "tagging.md",
    ),
    "span": Command(
        "run_squad",
        "--doc_stride=8",
        squad(),
        lambda folder: [*json.loads((folder / "predictions.json").read_text("utf-8")).values()],
        lambda model: [answer.text for answer in model.predict(TASKS["span"].x)],
        "question_answering.md",
    ),
    "choice": Command(
        "run_multiple_choice",
        "--text_column=a --choice_columns=b,c --label_column=d",
        table(["a", *TEXTS[:3]], *zip("bc", *CHOICES, strict=True), ["d", 1, 0, 1]),
        numbers("test_results.tsv"),
        lambda model: [answer.probabilities for answer in model.predict(TASKS["choice"].x)],
        "multiple_choice.md",
    ),
    "writer": Command(
        "run_text_to_text",
        "--source_column=a --target_column=b --num_beams=2 --max_new_tokens=3",
        table(["a", *TEXTS], ["b", *OTHERS]),
        columns("test_predictions.tsv", 1, "\t", skip=1),
        lambda model: [answer.text for answer in model.predict(TEXTS, num_beams=2, max_new_tokens=3)],
        None,
    ),
}
# BERT's relatives -> the formats that can hold them, and their cells in `make test`: the other cells are slow.
FAMILIES = {
    "roberta": (FORMATS, {(ONNX, "classifier")}),
    "xlm-roberta": (FORMATS, set()),
    "camembert": (FORMATS, set()),
    "mpnet": (FORMATS, {(ONNX, "masked words")}),
    "deberta-v2": (FORMATS, {(ONNX, "tagger")}),
    "albert": (FORMATS, {(ONNX, "masked words")}),
    "distilbert": (FORMATS, {(ONNX, "tagger")}),
    "electra": (FORMATS, {(ONNX, "sentence encoder")}),
    "mobilebert": ((SAVED_MODEL, LITERT), set()),
    "modernbert": (FORMATS, {(ONNX, "masked words")}),
    "nomic_bert": (FORMATS, set()),
    "gte": (FORMATS, set()),
    "jina_embeddings_v3": (FORMATS, set()),
    "neobert": (FORMATS, set()),
    "eurobert": (FORMATS, {(ONNX, "classifier")}),
    "gemma3_text": (FORMATS, {(ONNX, "masked words")}),
    "longformer": ((SAVED_MODEL,), set()),
    "big_bird": ((SAVED_MODEL,), set()),
    "xlnet": ((SAVED_MODEL, LITERT), set()),
}
# Here exports of families show their tokens and heads; test_onnx_exports.py and test_packed_rows.py have more layers.
LAYERS = {"bert": {}} | {family: fewest_layers(family) for family in FAMILIES}
# These learn more slowly than the others, with few tokens and gates.
EPOCHS = {"nomic_bert": 8, "eurobert": 8}
# RoBERTas with other tokenizers: a classifier reads their ids, a tagger their offsets too.
OTHER_TOKENS = ("xlm-roberta", "camembert")
OTHER_TOKENS_IN = ("classifier", "tagger")
# Conversion to LiteRT takes seconds, so a family has one of these, the next family the other. A decoder is a BERT's.
IN_LITERT = ("classifier", "tagger")
OF_FAMILIES = [name for name in ROWS if name not in ("writer", "multi-vector encoder")]
NOT_OF_FAMILIES = {("sparse encoder", "xlnet")}


def slow(*values, unless: bool):
    return pytest.param(*values, marks=() if unless else pytest.mark.slow)


def exports_of_families():
    # The heads of a task are those of BERT's export, and the part of an encoder is the same in all of its exports. A
    # SavedModel takes five times as long as an ONNX file. So a family has an eighth of the tasks as SavedModels,
    # another eighth than the family before it.
    for start, (family, (formats, fast)) in enumerate(FAMILIES.items()):
        for number, name in enumerate(OF_FAMILIES, start):
            held = {*formats} & {*ROWS[name].formats}
            if number % 8 and (SAVED_MODEL, name) not in fast:
                held.discard(SAVED_MODEL)
            if name != IN_LITERT[start % 2]:
                held.discard(LITERT)
            is_known = family in OTHER_TOKENS and name not in OTHER_TOKENS_IN
            if (name, family) not in NOT_OF_FAMILIES and not is_known:
                yield from (slow(format, name, family, unless=(format, name) in fast) for format in sorted(held))


def answers(model):
    return model.predict(TEXTS)


@contextlib.contextmanager
def without_graphs():
    """Lets models answer operation by operation: making a graph takes longer than a few answers."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def compiled(name: str, family: str = "bert", run_eagerly: bool = True):
    """Returns a new model, to be trained without graphs by default."""
    model = new_model(name, family)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    model.compile(AdamW(3e-3), run_eagerly=run_eagerly, jit_compile=False)
    return model


@functools.cache
def trained(name: str, family: str = "bert"):
    """Returns a model that has learned the texts of its row, and its losses."""
    model, row = compiled(name, family), TASKS[name]
    epochs = EPOCHS.get(family, 4)
    return model, model.fit(row.x, row.y, epochs=epochs, batch_size=4, verbose=0).history["loss"]


@pytest.mark.parametrize("name", TASKS)
def test_a_model_learns_from_texts(name):
    _, losses = trained(name)
    assert losses[-1] < 0.95 * losses[0]


# test_family_capabilities.py trains classifiers of all families.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family"),
    [
        (name, family)
        for number, family in enumerate(FAMILIES)
        for name in ("masked words", ("tagger", "span")[number % 2])
    ],
)
def test_a_model_of_every_family_learns_from_texts(name, family):
    _, losses = trained.__wrapped__(name, family)
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.parametrize("name", [slow(name, unless=name not in LIKE_CLASSIFIERS) for name in TASKS])
def test_a_model_learns_from_features_in_graphs(name):
    model, row = compiled(name, run_eagerly=False), TASKS[name]
    task = text_task(model)
    if name == "masked words":
        batch = next(task.batches(task.rows(row.x).rows, 4, None, 0))
    else:
        rows = task.rows(task.examples(row.x, row.y)).rows
        batch = rows.batch(np.arange(len(rows)))
    dataset = tf.data.Dataset.from_tensors(batch)
    losses = model.fit(dataset, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert model.evaluate(dataset, return_dict=True, verbose=0)["loss"] < losses[-1]


def trained_and_asked(name):
    """Returns the losses of two updates, and the answers after the last one."""
    model, row = new_model(name), TASKS[name]
    model.compile(AdamW(1e-4), jit_compile=False)
    losses = model.fit(row.x, row.y, batch_size=8, epochs=2, verbose=0).history["loss"]
    return losses, ANSWERS[name](model)


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize("name", TASKS)
def test_graphs_compute_what_single_operations_compute(name):
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


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
@pytest.mark.parametrize("name", [slow(name, unless=name not in LIKE_CLASSIFIERS) for name in COMMANDS])
def test_a_command_trains_evaluates_and_predicts(name, tmp_path, run_here, eagerly):
    command, output = COMMANDS[name], tmp_path / "out"
    MaskedLM(CONFIG).save_pretrained(tmp_path / "start", VOCABULARY)
    suffix = {"run_ner": "conll", "run_squad": "json"}.get(command.module, "tsv")
    (tmp_path / f"texts.{suffix}").write_text(command.file, "utf-8")
    kinds = ("train", "predict") if command.module == "run_squad" else ("train", "dev", "test")
    files = [f"--{kind}_file={tmp_path}/texts.{suffix}" for kind in kinds]
    parts = [f"--do_{part}" for part in ("train", "eval", "predict")[:: 2 if len(kinds) == 2 else 1]]
    run = [f"--init_checkpoint={tmp_path}/start", f"--output_dir={output}", "--max_seq_length=32"]
    module = importlib.import_module(f"run_scripts.{command.module}")
    arguments = [*files, *parts, *run, "--num_train_epochs=1", "--train_batch_size=4", *command.flags.split()]
    with without_graphs():
        code, printed = run_here(module, *arguments)
    assert code == 0, printed.err
    assert {"checkpoints", "eval_results.txt", "history.jsonl", "model", "run.json"} <= set(os.listdir(output))
    assert command.page is None or not undocumented_keys(output / "eval_results.txt", command.page)
    model = type(make_model(name)).from_pretrained(output / "model")
    with without_graphs():
        found, expected = command.written(output), command.predicted(model)
    if isinstance(found, np.ndarray):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        assert found == expected


@pytest.mark.parametrize("name", [*LIKE_CLASSIFIERS, "classifier", "tagger", "span", "choice", "writer"])
def test_an_evaluation_without_labels_is_refused(name):
    with pytest.raises(InputError, match=r"There are no labels to compare with: give evaluate\(texts, labels\)"):
        make_model(name).evaluate(TASKS[name].x, verbose=0)


@pytest.fixture(scope="module")
def other_process():
    """Function of the name of a model, the folder of its export and a runtime -> answers of a process without
    TensorFlow."""
    program = TESTS / "portable_answers.py"
    with subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

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
def test_an_export_answers_as_the_model(format, name, family, other_process, tmp_path):
    model, folder = make_model(name, family, **LAYERS[family]), tmp_path / "export"
    options = OPTIONS.get(name, {})
    if format == SAVED_MODEL:
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
    assert set(COMMANDS) < set(TASKS)
