"""Layers that are computed again in the backward pass give what layers give whose insides are kept."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_tasks
from distributed_runs import config, pretraining_data
from test_distributed_model import in_process, largest_difference

from keras_bert import tensorflow_kernels, trainable_parts
from keras_bert.models.distiller import Distiller
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.sequence_classifier import BertSequenceClassifier
from keras_bert.optimization import AdamW


def trained(gradient_checkpointing, steps=2, layers=1, prepare=None, **arguments):
    """Returns all variables after some steps of pre-training, the states of the random generators among them."""
    keras.utils.set_random_seed(3)
    model = BertPretrainer(config(0.3).replace(num_hidden_layers=layers), dtype="float64")
    if prepare:
        prepare(model)
    model.compile(AdamW(1e-2), gradient_checkpointing=gradient_checkpointing, jit_compile=False, **arguments)
    if steps:
        model.fit(pretraining_data().take(steps), verbose=0)
    return [np.asarray(variable) for variable in model.variables]


@pytest.mark.parametrize(
    "arguments",
    [
        {"layers": 2},
        {"gradient_accumulation_steps": 3},
        {"run_eagerly": True, "steps": 1},
        {"prepare": lambda model: trainable_parts.enable_lora(model, 2)},  # all but these and the head is frozen
    ],
    ids=["dropout", "parts", "eager", "lora"],
)
def test_training_is_the_same_with_recomputed_layers(arguments):
    kept, recomputed = (trained(choice, **arguments) for choice in (False, True))
    assert largest_difference(kept, recomputed) <= 1e-12
    # Training did something, or equality would mean nothing.
    assert largest_difference(kept, trained(False, **arguments | {"steps": 0})) > 1e-3


def test_two_devices_compute_the_same_with_recomputed_layers(tmp_path):
    program = """
ends = []
for choice in (False, True):
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = BertPretrainer(config(0.3), dtype="float64")
        before = [variable.numpy() for variable in model.weights]
        model.compile(AdamW(1e-2), gradient_checkpointing=choice, jit_compile=False)
    model.fit(pretraining_data().take(1), verbose=0)
    ends.append([variable.numpy() for variable in model.weights])
differences = [max(float(np.abs(a - b).max()) for a, b in zip(*pair)) for pair in (ends, (before, ends[0]))]
print(json.dumps(differences))
"""
    between_both, by_training = in_process(program, tmp_path)
    assert between_both <= 1e-12
    assert by_training > 1e-3


def gradients_of_encoder(gradient_checkpointing, jit_compile):
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(config(0.3), dtype="float64")
    encoder.gradient_checkpointing = gradient_checkpointing
    ids = np.arange(24, dtype="int32").reshape(2, 12) + 5

    @tf.function(autograph=False, jit_compile=jit_compile)
    def gradients():
        with tf.GradientTape() as tape:
            vectors = encoder({"input_ids": ids, "input_mask": ids // ids, "segment_ids": 0 * ids}, training=True)
            loss = tf.reduce_sum(vectors["sequence_output"][:, 3] ** 3)
        return tape.gradient(loss, [block.attention.key.kernel.value for block in encoder.blocks])

    return gradients()


def test_with_xla_gradients_are_the_same():
    kept, recomputed = gradients_of_encoder(False, False), gradients_of_encoder(True, True)
    assert np.abs(kept[0]).max() > 1e-3
    assert largest_difference([x.numpy() for x in kept], [x.numpy() for x in recomputed]) <= 1e-12


def operations_that_run(function):
    """Returns the types of all operations that a session runs, after Grappler, for the gradients of a function."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        hidden, seed, weight = (
            v1.placeholder("float32", [4, 4]),
            v1.placeholder("int32", [2]),
            v1.placeholder("float32"),
        )
        (output,), _ = function(hidden, [seed], [weight])
        gradients = tf.gradients(tf.reduce_sum(output**2), [hidden, weight])
        report, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
        given = {hidden: np.ones((4, 4)), seed: [1, 2], weight: np.ones((4, 4))}
        session.run(gradients, given, options, report)
    return [node.op for graph in report.partition_graphs for node in graph.node]


def test_the_second_computation_is_not_optimised_away():
    def function(hidden, seeds, weights):
        noise = tf.random.stateless_normal([4, 4], seeds[0])
        return [tf.tanh(tf.tanh(hidden @ weights[0]) * noise)], seeds

    once, twice = (operations_that_run(computed) for computed in (function, tensorflow_kernels.recomputed(function)))
    assert once.count("Tanh") == 2
    # The last one is not needed again: its gradient follows from its output, which is computed anew all the same.
    assert twice.count("Tanh") == 4
    assert twice.count("StatelessRandomNormalV2") == 2 * once.count("StatelessRandomNormalV2") == 2


@pytest.mark.parametrize("kind", ["pretrainer", "masked_lm", "classes", "tags", "span", "choice"])
def test_every_model_can_be_told_to_recompute(kind):
    model, batch = tiny_tasks.model_and_batch(kind)
    model.compile(AdamW(1e-3), gradient_checkpointing=True, jit_compile=False)
    assert model.encoder.gradient_checkpointing
    assert "gradient_checkpointing" not in str(model.get_config())
    model.compile(AdamW(1e-3))
    assert not model.encoder.gradient_checkpointing


def test_a_distiller_recomputes_the_layers_of_its_student():
    student = BertSequenceClassifier(config(), labels=["a", "b"])
    Distiller(student).compile(AdamW(1e-3), gradient_checkpointing=True)
    assert student.encoder.gradient_checkpointing


def test_attentions_and_hidden_states_are_given_by_recomputed_layers():
    ids = np.full((2, 5), 7, "int32")
    outputs = []
    for gradient_checkpointing in (False, True):
        keras.utils.set_random_seed(1)
        encoder = BertEncoder(config(0.3), output_attentions=True, output_hidden_states=True)
        encoder.gradient_checkpointing = gradient_checkpointing
        outputs.append(encoder({"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids}, training=True))
    for name in ("sequence_output", "hidden_states", "attentions"):
        for kept, recomputed in zip(*(tf.nest.flatten(output[name]) for output in outputs), strict=True):
            np.testing.assert_array_equal(kept, recomputed)
