"""Keras' callbacks and kinds of data work with the models' own metrics and default optimizer."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from slow_parameters import slow_except
from tasks.test_keras_keywords import TASKS, made, part

from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.recipe import LEARNING_RATE

pytestmark = pytest.mark.usefixtures("without_graphs")

KINDS = ("classes", "tags", "questions", "choices", "vectors", "masks")
X = {
    "input_ids": np.array([[2, 5, 3], [2, 7, 3]] * 4),
    "input_mask": np.ones((8, 3), int),
    "segment_ids": np.zeros((8, 3), int),
}
Y = np.array([0, 1] * 4)


@pytest.mark.parametrize("name", slow_except(["classes"], KINDS))
def test_callbacks_without_a_mode_know_the_direction_of_all_that_fit_logs(name, eagerly, tmp_path):
    _, x, y = TASKS[name]
    x, y = part(x, 0, 8), y and y[:8]
    args, held_out = ((x, y), (x, y)) if y else ((x,), x)
    model = made(name)
    logged = model.fit(*args, validation_data=held_out, batch_size=4, verbose=0).history
    assert "val_loss" in logged
    stops = [keras.callbacks.EarlyStopping(monitor=name, patience=9) for name in logged]
    saves = [keras.callbacks.ModelCheckpoint(tmp_path / "a.keras", name, save_best_only=True) for name in logged]
    model.fit(*args, validation_data=held_out, batch_size=4, verbose=0, callbacks=[*stops, *saves])
    for callback in (*stops, *saves):
        is_less = callback.monitor.endswith(("loss", "error", "perplexity"))
        assert callback.monitor_op is (keras.ops.less if is_less else keras.ops.greater)


def test_a_regression_stops_when_its_error_no_longer_falls(eagerly):
    model = SequenceClassifier(made("classes").config, labels=["score"], problem_type="regression")
    model.compile(AdamW(0.0))
    stop = keras.callbacks.EarlyStopping(monitor="mean_absolute_error", patience=2)
    history = model.fit(X, Y.astype("float32"), epochs=9, verbose=0, callbacks=stop).history
    assert len(history["loss"]) == 3
    assert stop.monitor_op is keras.ops.less


def test_reduce_on_plateau_sets_the_rate_of_the_default_optimizer(eagerly):
    _, x, y = TASKS["classes"]
    for fit in (
        lambda model, **options: model.fit(x, y, **options),
        lambda model, **options: model.fit(X, Y, **options),
    ):
        model = made("classes", compiled=False)
        plateau = keras.callbacks.ReduceLROnPlateau(monitor="accuracy", factor=0.5, patience=1, min_delta=2.0)
        for _ in range(2):  # each fit begins with a new optimizer
            rates = fit(model, epochs=3, callbacks=[plateau], verbose=0).history["learning_rate"]
            np.testing.assert_allclose(rates, np.array([1, 1, 0.5]) * LEARNING_RATE, rtol=1e-6)


def test_a_callback_that_sets_the_rate_is_refused_with_a_schedule_of_the_user():
    model = made("classes", compiled=False)
    model.compile(AdamW(WarmupLinearDecay(1e-3, 4)))
    for callback in (keras.callbacks.ReduceLROnPlateau(), keras.callbacks.LearningRateScheduler(lambda epoch: 1e-3)):
        with pytest.raises(InputError, match=r"has a schedule, WarmupLinearDecay. Call compile with .* a number"):
            model.fit(X, Y, callbacks=[callback])


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        rows = slice(4 * number, 4 * number + 4)
        return {name: values[rows] for name, values in X.items()}, Y[rows]


def generator():
    while True:
        yield from (Batches()[number] for number in range(2))


# Kind -> the arguments of a `fit` of two epochs with two updates each.
DATA = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": 4},
    "split": lambda: {"x": X, "y": Y, "batch_size": 3, "validation_split": 0.25},
    "dataset": lambda: {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)},
    "PyDataset": lambda: {"x": Batches()},
    "generator": lambda: {"x": generator(), "steps_per_epoch": 2},
}


@pytest.mark.parametrize("kind", slow_except(["arrays", "generator"], DATA))
def test_a_fit_on_features_without_compile_has_the_default_optimizer(kind, eagerly):
    model = made("classes", compiled=False)
    for _ in range(2):
        model.fit(**DATA[kind](), epochs=2, verbose=0)
        assert model.is_compiled_for_one_fit
        assert model.optimizer._learning_rate.num_train_steps == int(model.optimizer.iterations) == 4


def test_an_unknown_number_of_batches_or_a_model_for_pretraining_needs_compile():
    with pytest.raises(InputError, match="Give steps_per_epoch, or call compile"):
        made("classes", compiled=False).fit(generator())
    with pytest.raises(InputError, match=r"BertPretrainer has no default learning rate. Call compile\(optimizer"):
        BertPretrainer(made("classes").config).fit(X)
