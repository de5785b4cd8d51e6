"""Layers that share one trace compute the same as layers that are traced one by one."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from distributed_runs import config, pretraining_data
from models.test_distributed_model import largest_difference

from keras_bert.accelerate import block_runner
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.layers.transformer_block import TransformerBlock
from keras_bert.optimization import AdamW
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

LAYERS = 3
IDS = np.arange(24, dtype="int32").reshape(2, 12) + 5
ROWS = {"input_ids": IDS, "input_mask": IDS // IDS, "segment_ids": 0 * IDS}


@pytest.fixture
def shared(monkeypatch):
    """A function that switches sharing on or off."""

    def switch(is_shared: bool):
        monkeypatch.setattr(block_runner, "FEWEST_SHARING", LAYERS if is_shared else LAYERS + 1)

    return switch


@pytest.fixture
def calls(monkeypatch):
    """The names of the layers whose `call` has run in Python during training."""
    names, call = [], TransformerBlock.call

    @functools.wraps(call)
    def counted(layer, *inputs, training, **arguments):
        names.extend([layer.name] if training else [])
        return call(layer, *inputs, training=training, **arguments)

    monkeypatch.setattr(TransformerBlock, "call", counted)
    return names


def trained():
    """Returns all variables before and after a step, including the states of the random generators."""
    keras.utils.set_random_seed(3)
    model = BertPretrainer(config(0.3).replace(num_hidden_layers=LAYERS), dtype="float64")
    model.compile(AdamW(1e-2), jit_compile=False)
    before = [np.asarray(variable) for variable in model.variables]
    model.fit(pretraining_data().take(1), verbose=0)
    return before, [np.asarray(variable) for variable in model.variables]


def test_training_is_the_same_with_a_shared_trace(shared, calls):
    shared(False)
    before, alone = trained()
    assert set(calls) == {"layer_0", "layer_1", "layer_2"}
    calls.clear()
    shared(True)
    _, together = trained()
    assert set(calls) == {"layer_0"}
    assert largest_difference(alone, together) <= 1e-12
    assert largest_difference(before, alone) > 1e-3  # otherwise the equality would prove nothing


def freeze(layer):
    layer.trainable = False


def enable_lora(layer):
    layer.attention.query.enable_lora(2)


def change_dropout(layer):
    layer.attention.dropout.rate = 0.6


@pytest.mark.parametrize("change", [freeze, enable_lora, change_dropout])
def test_layers_that_differ_are_traced_on_their_own(shared, calls, change):
    shared(True)
    model = BertEncoder(config(0.3).replace(num_hidden_layers=LAYERS))
    change(model.blocks[1])
    tf.function(lambda: model(ROWS, training=True)["sequence_output"], autograph=False)()
    assert calls == ["layer_0", "layer_1"]
    calls.clear()
    for layer in (model.blocks[0], model.blocks[2]):
        change(layer)
    tf.function(lambda: model(ROWS, training=True)["sequence_output"], autograph=False)()
    assert calls == ["layer_0"]


def test_hidden_states_and_attentions_are_those_of_each_layer(shared):
    outputs = []
    for is_shared in (False, True):
        shared(is_shared)
        keras.utils.set_random_seed(1)
        model = BertEncoder(
            config(0.3).replace(num_hidden_layers=LAYERS), output_attentions=True, output_hidden_states=True
        )
        outputs.append(tf.function(lambda rows, model=model: model(rows, training=True), autograph=False)(ROWS))
    for name in ("sequence_output", "hidden_states", "attentions"):
        for alone, together in zip(*(tf.nest.flatten(output[name]) for output in outputs), strict=True):
            np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)
    assert np.abs(outputs[0]["hidden_states"][2] - outputs[0]["hidden_states"][3]).max() > 1e-3


@pytest.mark.parametrize("program", [pytest.param("xla", marks=pytest.mark.slow), "inside xla", "eager"])
def test_without_a_benefit_every_layer_is_called(shared, calls, program):
    shared(True)
    model = BertEncoder(config(0.3).replace(num_hidden_layers=LAYERS))
    run = tf.function(lambda: model(ROWS, training=True)["pooled_output"], autograph=False)
    if program == "xla":
        run = tf.function(run.python_function, jit_compile=True, autograph=False)
    elif program == "inside xla":
        run = tf.function(lambda inner=run: inner(), jit_compile=True, autograph=False)
    elif program == "eager":
        run = run.python_function
    run()
    assert calls == [f"layer_{number}" for number in range(LAYERS)]
