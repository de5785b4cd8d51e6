"""One device, several devices, several processes and several parts of a batch compute the same.

The reasons are in docs/decisions/one_step_for_all_devices.md.
"""

import functools
import json
import os
import pathlib
import socket
import subprocess
import sys

import distributed_runs
import numpy as np
import pytest
import tensorflow as tf
import tiny_models
from slow_parameters import slow_except

from keras_bert import registry
from keras_bert.models import distributed_model

PROGRAM = pathlib.Path(distributed_runs.__file__)


@pytest.fixture(scope="module")
def trained(on_four_devices):
    """Returns (setting, layout) -> the results of the run, which is made only once."""
    return functools.cache(lambda setting, layout: on_four_devices(distributed_runs.train, setting, layout))


def start(setting, folder, layout, **environment):
    command = [sys.executable, str(PROGRAM), f"--setting={setting}", f"--output={folder}", layout]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
    )


def finish(*processes):
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output[-3000:]


def result(folder, layout):
    with np.load(folder / f"{layout}.npz") as saved:
        arrays = {when: [saved[name] for name in saved.files if name.startswith(when)] for when in ("before", "after")}
        return {"logs": json.loads(str(saved["logs"])), **arrays}


def largest_difference(first, second):
    return max(np.abs(a.astype(np.float64) - b).max() for a, b in zip(first, second, strict=True))


def assert_all_are_as_one_device(one, others, tolerance):
    # Training must have an effect, otherwise equality would prove nothing.
    assert largest_difference(one["before"], one["after"]) > 1e-3
    for layout, other in others.items():
        assert largest_difference(one["before"], other["before"]) == 0
        assert largest_difference(one["after"], other["after"]) <= tolerance, layout
        assert other["logs"] == pytest.approx(one["logs"], rel=max(tolerance, 2e-7), abs=tolerance, nan_ok=True), layout


# Two devices that divide their rows into two parts each.
BOTH = ["mirrored2_parts2"]


@pytest.mark.parametrize(
    ("setting", "layouts"),
    [
        ("regularised", BOTH),
        *(
            pytest.param(setting, layouts, marks=pytest.mark.slow)
            for setting, layouts in [
                ("adamw", ["parts4", "mirrored2", "mirrored4"]),
                ("embedding", ["parts3", *BOTH]),
                ("tagging", ["parts3", *BOTH]),
                *((name, ["mirrored2"]) for name in ("memory", "metrics", "own_loop", "classifier_frozen")),
                *((name, BOTH) for name in ("electra_argmax", "deberta_argmax", "clipped", "keras_adam", "lamb")),
                *((name, BOTH) for name in ("xla", "text_to_text", "sparse", "multi_vector")),
                *((name, BOTH) for name in ("mixed_embedding", "mixed_ranking")),
                *((name, ["mirrored1", "mirrored2"]) for name in ("own_lora", "own_recomputed", "classifier_lora")),
            ]
        ),
    ],
)
def test_every_layout_computes_what_one_device_computes(trained, setting, layouts):
    others = {layout: trained(setting, layout) for layout in layouts}
    assert_all_are_as_one_device(trained(setting, "one"), others, tolerance=1e-6)


# A block that all layers share, a table of distances that they share, and layers of two kinds.
@pytest.mark.parametrize(
    "family",
    slow_except(["albert", "mpnet", "modernbert"], sorted(registry.FAMILIES.keys() - {"static", "transfo-xl"})),
)
def test_two_devices_compute_the_gradients_of_a_users_own_model(on_four_devices, family):
    largest, *differences = on_four_devices(distributed_runs.gradients_of_own_model, family)
    assert max(differences) <= 1e-6 * max(1, largest)
    assert largest > 1e-3


def test_each_device_keeps_the_memory_of_its_rows(on_four_devices):
    (vectors, mask), after = on_four_devices(distributed_runs.memory_of_two_devices)
    np.testing.assert_array_equal(vectors[:, 0, 0, 0], [0, 0, 2, 2])
    np.testing.assert_array_equal(mask[:, 0], [1, 2, 1, 2])  # that of a row that begins a stream is forgotten
    np.testing.assert_array_equal(after[0], np.flip(vectors, 0))
    np.testing.assert_array_equal(after[1], np.flip(mask, 0))


def free_ports(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def start_workers(setting, folder, count=2):
    addresses = [f"localhost:{port}" for port in free_ports(count)]
    workers = []
    for index in range(count):
        own_folder = folder / str(index)
        own_folder.mkdir(parents=True)
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        workers.append(start(setting, own_folder, "workers", TF_CONFIG=json.dumps(task)))
    return workers


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["adamw", "memory", "own_loop", "classifier_frozen"])
def test_two_processes_compute_what_one_device_computes(trained, tmp_path, setting):
    finish(*start_workers(setting, tmp_path))
    workers = {index: result(tmp_path / index, "workers") for index in ("0", "1")}
    assert_all_are_as_one_device(trained(setting, "one"), workers, tolerance=1e-6)


@pytest.mark.slow
def test_with_dropout_a_run_can_be_repeated_and_another_layout_draws_otherwise(trained, tmp_path):
    # In another process.
    finish(start("dropout", tmp_path, "mirrored2"))
    first, second = trained("dropout", "mirrored2")["after"], result(tmp_path, "mirrored2")["after"]
    assert largest_difference(first, second) == 0
    # Two devices and two parts draw the same numbers, which depend on the part's number only.
    assert largest_difference(first, trained("dropout", "parts2")["after"]) <= 1e-6
    # Parts are numbered through all devices, so no two parts of a batch draw the same numbers.
    parts_of_devices, parts = (trained("dropout", layout)["after"] for layout in ("mirrored2_parts2", "parts4"))
    assert largest_difference(parts_of_devices, parts) <= 1e-6


@pytest.mark.slow
def test_two_devices_draw_the_tokens_of_two_parts(trained):
    layouts = ("parts2", "mirrored2")
    parts, devices = (trained("electra_draws", layout)["after"] for layout in layouts)
    assert largest_difference(parts, devices) <= 1e-6
    # The draws matter: argmax trains something else.
    assert largest_difference(parts, trained("electra_argmax", "one")["after"]) > 1e-3


def test_a_strategy_with_one_device_sums_no_gradients(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("XLA cannot compile this on a GPU")

    monkeypatch.setattr(tf.distribute.ReplicaContext, "all_reduce", refuse)
    make_model, make_optimizer, make_data, _ = distributed_runs.SETTINGS["adamw"]
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = make_model()
        model.compile(make_optimizer(), jit_compile=False)
    model.fit(make_data().take(1), verbose=0)


def run_program(on_four_devices, program, tmp_path):
    """Runs a program with four logical devices; returns what it prints as JSON."""
    file = tmp_path / "program.py"
    file.write_text(PRELUDE + program)
    return json.loads(on_four_devices(distributed_runs.printed_by, str(file)).splitlines()[-1])


PRELUDE = """
import json
from distributed_runs import *
strategy, _ = strategy_and_parts("mirrored2")
"""


@pytest.mark.slow
def test_an_overflow_on_one_device_skips_the_step_on_all(on_four_devices, tmp_path):
    program = """
from keras_bert.models import distributed_model
with strategy.scope():
    keras.utils.set_random_seed(0)
    model = TokenClassifier(config(), labels=["a", "b"], dtype="mixed_float16")
    optimizer = keras.optimizers.LossScaleOptimizer(AdamW(1e-2), initial_scale=2.0**28)
    model.compile(optimizer, jit_compile=False)
x = {name: values[:BATCH] for name, values in features().items() if not name.startswith(("masked", "next"))}
# The rows of the second device have all the weight, so its gradients alone are too large for float16.
weights = np.array([1e-9] * (BATCH // 2) + [1.0] * (BATCH // 2), np.float32)
tags = np.ones(x["input_ids"].shape, np.int32)
data = tf.data.Dataset.from_tensors((x, tags, weights))

def is_finite_here(batch):
    parts = tf.distribute.get_replica_context()
    x, y, w = batch
    total = parts.all_reduce("SUM", distributed_model._loss_weights(model, batch, 0))
    values = [tf.convert_to_tensor(v.value) for v in model.trainable_variables]
    seeds, scale = distributed_model.seeds_of_part(model, 0), optimizer.scale_loss(tf.ones([]))
    gradients, _ = distributed_model._part_gradients(model, values, seeds, batch, total, scale)
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])

distributed_model._prepare_optimizer(model)
batch = next(iter(strategy.experimental_distribute_dataset(data.unbatch().batch(BATCH))))
finite = tf.function(lambda b: strategy.run(is_finite_here, args=(b,)))(batch)
finite = [bool(flag) for flag in strategy.experimental_local_results(finite)]
before = [v.numpy() for v in model.trainable_variables]
scales, moved = [], []
for _ in range(24):
    model.fit(data.unbatch().batch(BATCH), verbose=0)
    scales.append(float(optimizer.dynamic_scale.numpy()))
    moved.append(float(max(np.abs(v.numpy() - b).max() for v, b in zip(model.trainable_variables, before))))
copies = [strategy.experimental_local_results(v.value) for v in model.trainable_variables]
equal = all(np.array_equal(a.numpy(), b.numpy()) for a, b in copies)
print(json.dumps({"finite": finite, "scales": scales, "moved": moved, "equal": equal}))
"""
    found = run_program(on_four_devices, program, tmp_path)
    assert found["finite"] == [True, False]
    # The first step changes nothing but the scale, which is halved until the gradients are numbers; then it trains.
    assert found["scales"][0] == 2.0**27
    assert found["moved"][0] == 0
    assert found["scales"][-1] == found["scales"][-2]
    assert 0 < found["moved"][-1] < 1
    assert found["equal"]


def test_devices_and_parts_draw_different_dropout(on_four_devices, tmp_path):
    program = """
from keras_bert.models import distributed_model
with strategy.scope():
    keras.utils.set_random_seed(0)
    model = BertPretrainer(config(0.5))
    model.compile(AdamW(1e-3), jit_compile=False)
    distributed_model._prepare_optimizer(model)
part = {name: values[BATCH - 2 : BATCH] for name, values in features().items()}

def numerator(number):
    device = tf.distribute.get_replica_context().replica_id_in_sync_group
    values = [tf.convert_to_tensor(v.value) for v in model.trainable_variables]
    seeds = distributed_model.seeds_of_part(model, device * 2 + number)
    _, sums = distributed_model._part_gradients(model, values, seeds, part, tf.ones([2]), tf.ones([]))
    return sums["masked_lm_loss"][0]

run = tf.function(lambda number: strategy.run(numerator, args=(number,)))
losses = [strategy.experimental_local_results(run(tf.constant(number))) for number in (0, 1, 0)]
print(json.dumps([[float(loss) for loss in of_number] for of_number in losses]))
"""
    first, second, again = run_program(on_four_devices, program, tmp_path)
    assert len({*first, *second}) == 4
    assert first == again


def test_wrong_use_is_refused(on_four_devices, tmp_path):
    program = """
from keras_bert.program.errors import InputError
messages = []

def try_it(use):
    try:
        use()
        messages.append("nothing was refused")
    except InputError as error:
        messages.append(str(error))

optimizer = AdamW(1e-3)
with strategy.scope():
    model = BertPretrainer(config())
model.compile(optimizer, jit_compile=False)
try_it(lambda: model.fit(pretraining_data(), verbose=0))
with strategy.scope():
    model.compile(AdamW(1e-3), jit_compile=False)
try_it(lambda: model.train_on_batch({name: values[:BATCH] for name, values in features().items()}))
classifier = SequenceClassifier(config(), labels=["a", "b"])
try_it(lambda: classifier.compile(AdamW(1e-3), gradient_accumulation_steps=2, metrics=["accuracy"]))
try_it(lambda: classifier.compile(AdamW(1e-3), gradient_accumulation_steps=0))
print(json.dumps(messages))
"""
    messages = run_program(on_four_devices, program, tmp_path)
    assert "within the same `with strategy.scope():`" in messages[0]
    assert "Use fit and evaluate" in messages[1]
    assert "Leave metrics out" in messages[2]
    assert "must be a whole number of at least 1. Received: 0" in messages[3]


def test_predictions_of_several_devices_are_in_order(on_four_devices, tmp_path):
    program = """
predictions = []
for scope in (contextlib.nullcontext(), strategy.scope()):
    with scope:
        keras.utils.set_random_seed(0)
        model = TokenClassifier(config(), labels=["a", "b", "c"])
    predictions.append(model.predict(tagging_data(), verbose=0))
one, two = predictions
print(json.dumps([one.shape, two.shape, float(np.abs(one - two).max()), float(one.std())]))
"""
    one, two, difference, spread = run_program(on_four_devices, program, tmp_path)
    assert one == two == [157, 12, 3]
    assert difference < 1e-6 < spread


@pytest.mark.parametrize(
    "kind", ["pretrainer", "packed", "masked_lm", "classes", "many", "number", "tags", "span", "choice"]
)
def test_the_weights_of_a_loss_need_no_prediction(kind):
    """TensorFlow prunes the forward pass in `_loss_weights`, since its results are not used."""
    model, part = tiny_models.model_and_batch(kind)
    dynamic = tf.nest.map_structure(lambda v: tf.TensorSpec([None] * v.ndim, v.dtype), part)
    graph = (
        tf.function(lambda part: distributed_model._loss_weights(model, part, 0)).get_concrete_function(dynamic).graph
    )
    reached, open_tensors = set(), [graph.outputs[0]]
    while open_tensors:
        operation = open_tensors.pop().op
        if operation.name not in reached:
            reached.add(operation.name)
            open_tensors.extend(operation.inputs)
    kinds = {graph.get_operation_by_name(name).type for name in reached}
    assert not kinds & {"MatMul", "BatchMatMulV2", "ReadVariableOp", "ResourceGather"}
    assert "MatMul" in {operation.type for operation in graph.get_operations()}


@pytest.mark.slow
def test_a_step_of_fixed_shape_has_no_unknown_dimension_and_compiles():
    """Checks the requirements of TPUs, since none was available."""
    model, part = tiny_models.model_and_batch("pretrainer")
    model.compile("sgd", gradient_accumulation_steps=2)
    distributed_model._prepare_optimizer(model)
    values = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]

    @tf.function(jit_compile=True, autograph=False)
    def gradients(values, seeds, part, scale):
        def of_part(part, number):
            return distributed_model._part_gradients(model, values, seeds, part, weights, scale)

        parts = distributed_model.BatchParts(part, 2)
        weights = parts.sum(lambda part, number: distributed_model._loss_weights(model, part, number))
        return parts.sum(of_part)

    arguments = (
        values,
        distributed_model.seeds_of_part(model, 0),
        tf.nest.map_structure(tf.constant, part),
        tf.ones([]),
    )
    graph = gradients.get_concrete_function(*arguments).graph
    inner = [function.graph for function in graph._functions.values() if hasattr(function, "graph")]
    tensors = [output for one in (graph, *inner) for operation in one.get_operations() for output in operation.outputs]
    assert len(tensors) > 500
    # The condition of a while loop also receives the values for its body, but does not use them.
    used = [tensor for tensor in tensors if tensor.op.type != "Placeholder" or tensor.consumers()]
    unknown = [tensor.name for tensor in used if not tensor.shape.is_fully_defined()]
    assert not unknown
    found, sums = gradients(*arguments)
    assert all(np.isfinite(gradient.numpy()).all() for gradient in found)
    assert float(sums["masked_lm_loss"][1]) == part["masked_lm_weights"].sum()


@pytest.mark.slow
def test_fit_on_texts_works_within_a_scope(on_four_devices, tmp_path):
    program = """
from keras_bert.models import distributed_model
from keras_bert.tasks.fitting import compile_for_texts
from keras_bert.tokenization.vocabulary import Vocabulary
words = ["good", "bad", "the", "film", "was", "very"]
vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
texts = ["the film was good", "bad", "a very good film", "the very bad film was bad", "good"] * 5
labels = ["yes", "no", "yes", "no", "yes"] * 5
answers = []
for scope in (contextlib.nullcontext(), strategy.scope()):
    with scope:
        keras.utils.set_random_seed(0)
        model = SequenceClassifier(config().replace(vocab_size=len(vocabulary)), labels=["no", "yes"])
        model.vocabulary = vocabulary
        model.compile(AdamW(1e-2), jit_compile=False)
        model.fit(texts, labels, batch_size=8, epochs=12, seed=1, verbose=0)
        answers.append([answer.probabilities["yes"] for answer in model.predict(texts[:5])])
with strategy.scope():
    other = SequenceClassifier(model.config, labels=["no", "yes"])
compile_for_texts(other, num_batches=3, epochs=1)  # outside of the scope, as `fit` on texts does it
distributed_model._prepare_optimizer(other)
other._check_learning_rate()
print(json.dumps([*answers, other.is_compiled_for_one_fit]))
"""
    one, two, is_compiled = run_program(on_four_devices, program, tmp_path)
    assert two == pytest.approx(one, abs=1e-5)
    assert max(one) - min(one) > 0.1
    assert is_compiled
