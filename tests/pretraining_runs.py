"""Starts pre-training runs in tests, with the starting point and all options as keywords; kills and compares them."""

import contextlib
import dataclasses
import pathlib

import keras
import numpy as np
import pytest
from tiny_pretraining import CONFIG, VOCABULARY

from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training.pretraining import train_pretrainer
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.resumable_fit import resumable_fit
from keras_bert.training.run_folder import read_arrays
from keras_bert.training.starting_point import StartingPoint

RUN = {
    "config": CONFIG,
    "vocabulary": VOCABULARY,
    "train_batch_size": 16,
    "learning_rate": 1e-2,
    "num_train_steps": 12,
    "num_warmup_steps": 2,
    "save_checkpoints_steps": 4,
    "seed": 7,
}


def pretrain(path, train_files, config=None, vocabulary=None, init_checkpoint=None, **options) -> BertPretrainer:
    start = StartingPoint(config, vocabulary, init_checkpoint)
    return train_pretrainer(path, train_files, start, PretrainingRunOptions(**options))


def weights_of(model_folder):
    return [weight.value.numpy() for weight in BertPretrainer.from_pretrained(model_folder).weights]


def assert_same_weights(left, right):
    for one, other in zip(weights_of(left), weights_of(right), strict=True):
        np.testing.assert_array_equal(one, other)


def state_of(run, step):
    """Returns the arrays of a checkpoint."""
    return read_arrays(pathlib.Path(run) / "checkpoints" / f"step-{step:08d}" / "state.npz")


def assert_same_states(left, right, step):
    """Checks that weights, optimiser and random states of two runs are equal, array by array."""
    one, other = (state_of(run, step) for run in (left, right))
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


class At(keras.callbacks.Callback):
    """Calls a function after this number of updates of a `fit`."""

    def __init__(self, step, call):
        super().__init__()
        self._step, self._call = step, call

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self._step:
            self._call()


class Killed(Exception):
    pass


def kill():
    raise Killed


@contextlib.contextmanager
def callbacks_in_runs(monkeypatch, *added, module="pretraining", when="callbacks"):
    """Adds callbacks to the runs of a module; as "first_callbacks", they are called before a checkpoint is saved."""

    def fit(model, make_dataset, folder, options, **named):
        if when == "callbacks":
            options = dataclasses.replace(options, callbacks=(*options.callbacks, *added))
        else:
            named |= {when: [*named.get(when, ()), *added]}
        resumable_fit(model, make_dataset, folder, options, **named)

    with monkeypatch.context() as patch:
        patch.setattr(f"keras_bert.training.{module}.resumable_fit", fit)
        yield


def train_until_killed(monkeypatch, at_step, *arguments, **named):
    """Runs as if the process had been killed just after `at_step`, between two checkpoints."""
    with callbacks_in_runs(monkeypatch, At(at_step, kill)), pytest.raises(Killed):
        pretrain(*arguments, **named)
