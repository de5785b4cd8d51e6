"""Layers that are recomputed in the backward pass give the same results as layers that keep everything."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_models
from distributed_runs import config, pretraining_data
from models.test_distributed_model import largest_difference
from numpy_bert import scatter_weights
from slow_parameters import slow_except

from keras_bert.accelerate import tensorflow_functions
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models.distiller import Distiller
from keras_bert.models.encoder_base import make_encoder
from keras_bert.optimization import AdamW
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer


def trained(gradient_checkpointing, steps=1):
    """Returns all variables after some steps of pre-training, including the states of the random generators."""
    keras.utils.set_random_seed(3)
    model = BertPretrainer(config(0.3), dtype="float64")
    model.compile(AdamW(1e-2), gradient_checkpointing=gradient_checkpointing, run_eagerly=True)
    if steps:
        model.fit(pretraining_data().take(steps), verbose=0)
    return [np.asarray(variable) for variable in model.variables]


def test_training_is_the_same_with_recomputed_layers():
    kept, recomputed = trained(False), trained(True)
    assert largest_difference(kept, recomputed) <= 1e-12
    # Training changed something, otherwise the equality would prove nothing.
    assert largest_difference(kept, trained(False, steps=0)) > 1e-3


def gradients_of_encoder(gradient_checkpointing, jit_compile):
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(config(0.3), dtype="float64")
    draw = np.random.default_rng(5)
    for weight in encoder.trainable_variables:  # by default biases are 0 and LayerNorm multiplies by 1
        weight.assign(np.asarray(weight) + 0.1 * draw.normal(size=weight.shape))
    encoder.gradient_checkpointing = gradient_checkpointing
    ids = np.arange(24, dtype="int32").reshape(2, 12) + 5

    @tf.function(autograph=False, jit_compile=jit_compile)
    def gradients():
        with tf.GradientTape() as tape:
            vectors = encoder({"input_ids": ids, "input_mask": ids // ids, "segment_ids": 0 * ids}, training=True)
            loss = tf.reduce_sum(vectors["sequence_output"][:, 3] ** 3)
        return tape.gradient(loss, [block.attention.key.kernel.value for block in encoder.blocks])

    return gradients()


@pytest.mark.slow
def test_with_xla_gradients_are_the_same():
    kept, recomputed = gradients_of_encoder(False, False), gradients_of_encoder(True, True)
    assert np.abs(kept[0]).max() > 1e-3
    assert largest_difference([x.numpy() for x in kept], [x.numpy() for x in recomputed]) <= 1e-12


def test_the_second_computation_is_not_optimised_away():
    def function(inputs, seeds, weights):
        noise = tf.cast(tf.tile([seeds[0]], [4, 2]), "float32")  # [4, 4]
        return [tf.sin(inputs[0] @ weights[0]) * (noise @ noise)], seeds

    def count_products(computed):
        """Counts the matrix products in the code that XLA compiles for the gradients; it merges equal ones."""

        @tf.function(autograph=False, jit_compile=True)
        def gradients(hidden, seed, weight):
            with tf.GradientTape() as tape:
                tape.watch([hidden, weight])
                (output,), _ = computed([hidden], [seed], [weight])
                loss = tf.reduce_sum(output**2)
            return tape.gradient(loss, [hidden, weight])

        program = gradients.experimental_get_compiler_ir(tf.ones((4, 4)), tf.constant([1, 2]), tf.ones((4, 4)))
        return program("optimized_hlo").count(" dot(")

    assert count_products(function) == 2 + 2  # two, and two for the gradients
    assert count_products(tensorflow_functions.recomputed(function)) == 2 + 2 + 2


def gradient_of_shared_table(family, gradient_checkpointing, in_graph):
    keras.utils.set_random_seed(1)
    encoder = make_encoder(config(0.3, family=family).replace(num_hidden_layers=3), dtype="float64")
    scatter_weights(encoder)
    encoder.gradient_checkpointing = gradient_checkpointing
    ids = np.arange(24, dtype="int32").reshape(2, 12) + 5
    inputs = {"input_ids": ids, "input_mask": np.array([[1] * 12, [1] * 9 + [0] * 3])}

    def gradient():
        with tf.GradientTape() as tape:
            # The last layer runs for these tokens only.
            vectors = encoder.vectors_at(inputs, np.array([[3, 7], [1, 5]]), training=True)["sequence_output"]
            loss = tf.reduce_sum(vectors**3)
        table = (encoder.distance_bias if family == "mpnet" else encoder.distances).table
        return tf.convert_to_tensor(tape.gradient(loss, table.value))

    return (tf.function(gradient, autograph=False) if in_graph else gradient)().numpy()


@pytest.mark.parametrize("in_graph", slow_except([True], [False, True]))
@pytest.mark.parametrize("family", slow_except(["mpnet"], ["mpnet", "deberta-v2"]))
def test_a_table_that_all_layers_share_gets_its_gradient_from_recomputed_layers(family, in_graph):
    kept, recomputed = (gradient_of_shared_table(family, choice, in_graph) for choice in (False, True))
    assert np.abs(kept).max() > 1e-2
    np.testing.assert_allclose(recomputed, kept, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["pretrainer", "masked_lm", "classes", "tags", "span", "choice"])
def test_every_model_can_be_told_to_recompute(kind):
    model, batch = tiny_models.model_and_batch(kind)
    model.compile(AdamW(1e-3), gradient_checkpointing=True, jit_compile=False)
    assert model.encoder.gradient_checkpointing
    assert "gradient_checkpointing" not in str(model.get_config())
    model.compile(AdamW(1e-3))
    assert not model.encoder.gradient_checkpointing


def test_a_distiller_recomputes_the_layers_of_its_student():
    student = SequenceClassifier(config(), labels=["a", "b"])
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
