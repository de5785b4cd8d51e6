"""docs/keras_scripts.md is correct: its scripts run as they stand, in their order, and compute what they should."""

import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from places import DOCS

from keras_bert import BertEncoder, text_features

SECTIONS = re.split(r"^##? ", (DOCS / "keras_scripts.md").read_text("utf-8"), flags=re.M)[1:]
# Headings and scripts, in the order of the page.
SCRIPTS = [
    (part.split("\n", 1)[0], script) for part in SECTIONS for script in re.findall(r"```python\n(.*?)```", part, re.S)
]
pytestmark = pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly")
VOCABULARY = tiny.vocabulary(*tiny.pieces())
CONFIG = tiny.config(VOCABULARY, dropout=0.0, hidden_size=8, max_position_embeddings=64)
FITS = "Several devices, 16 bits and callbacks"
SEED = 3  # before each script
# Two logical devices of one CPU replace two devices.
TWO_DEVICES = """
import tensorflow as tf
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Function of a heading -> the names after its script, for which the scripts up to it run, on one device and
    without graphs."""
    folder, names, found, scripts = tmp_path_factory.mktemp("page"), {}, {}, iter(SCRIPTS)
    tiny.made(BertEncoder, CONFIG, VOCABULARY, seed=1).save_pretrained(folder / "my_bert")

    def names_after(wanted):
        tf.config.run_functions_eagerly(True)
        while wanted not in found:
            heading, script = next(scripts)
            keras.utils.set_random_seed(SEED)
            exec(compile(script, f"docs/keras_scripts.md, {heading}", "exec"), names)
            found[heading] = dict(names)
        return found[wanted]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield names_after
    tf.config.run_functions_eagerly(False)


def outputs(model, features):
    return keras.ops.convert_to_numpy(model(features))


def test_a_frozen_encoder_stays_and_the_layer_on_it_learns(page):
    names = page("Your own Keras script")
    frozen = BertEncoder.from_pretrained("my_bert")
    for weight, before in zip(names["encoder"].weights, frozen.weights, strict=True):
        np.testing.assert_array_equal(weight, before)
    losses = names["model"].history.history["loss"]
    assert losses[-1] < losses[0]
    assert len(names["model"].trainable_weights) == 2


def test_a_file_of_keras_has_lora_vocabulary_and_optimizer(page):
    names = page("A subclassed model with LoRA")
    loaded = keras.models.load_model("x.keras")  # the page trains the first one further
    np.testing.assert_array_equal(outputs(loaded, names["features"]), outputs(names["classifier"], names["features"]))
    assert loaded.encoder.vocabulary.tokens == VOCABULARY.tokens
    assert len(loaded.trainable_weights) == len(names["classifier"].trainable_weights) == 2 * 4 + 2 + 2
    assert int(loaded.optimizer.iterations) == 1


def test_ones_own_loop_trains_lora_and_the_head_only(page):
    names, before = page("Your own loop"), keras.models.load_model("x.keras")
    pairs = zip(names["loaded"].get_weights(), before.get_weights(), strict=True)
    changed = [bool((one != other).any()) for one, other in pairs]
    assert changed == [weight.trainable for weight in before.weights]


@pytest.mark.slow
def test_16_bits_are_near_32(page):
    names = page(FITS)
    whole, half = names["compiled"](), names["compiled"]("mixed_bfloat16")
    expected = outputs(whole, names["features"])
    half.set_weights(whole.get_weights())
    assert {weight.dtype for weight in half.weights} == {"float32"}
    found = outputs(half, names["features"])
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert (found != expected).any()


@pytest.mark.slow
def test_a_restored_fit_ends_as_an_undisturbed_one(page):
    names = page(FITS)

    class Killed(Exception):
        pass

    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise Killed

    def fit(folder, *further):
        keras.utils.set_random_seed(3)
        model = names["compiled"]()
        callbacks = [keras.callbacks.BackupAndRestore(folder), *further]
        model.fit(names["features"], names["labels"], epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
        return model.get_weights()

    whole = fit("whole")
    with pytest.raises(Killed):
        fit("killed", Kill())
    for one, other in zip(fit("killed"), whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_batches_of_ones_own_have_the_numbers_of_the_labels(page):
    names = page("Batches that you make")
    made = text_features(names["sentiment"], names["texts"], names["names"])
    np.testing.assert_array_equal(made["label_ids"], names["labels"])
    assert int(names["model"].optimizer.iterations) == 3 * 1 + 2 * 4 + 4 + 1


@pytest.mark.slow
def test_a_copy_and_an_export_compute_the_same(page):
    names = page("Copies and exports")
    expected = outputs(names["best"], names["features"])
    np.testing.assert_array_equal(outputs(names["copy"], names["features"]), expected)
    np.testing.assert_allclose(names["served"], expected, atol=1e-5)
    assert names["copy"].encoder.vocabulary.tokens == VOCABULARY.tokens


@pytest.mark.slow  # a minute: all graphs, compiled in a new process
def test_the_page_runs_with_graphs_and_two_devices_compute_as_one(page, tmp_path):
    program = [f"{TWO_DEVICES}import keras, numpy as np"]
    for heading, script in SCRIPTS:
        program += [f"keras.utils.set_random_seed({SEED})", script]
        if heading == FITS:
            program.append("assert strategy.num_replicas_in_sync == 2; np.savez('two', *spread.get_weights())")
    shutil.copytree("my_bert", tmp_path / "my_bert")
    done = subprocess.run([sys.executable, "-c", "\n".join(program)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(tmp_path / "two.npz") as two:
        expected = page(FITS)["spread"].get_weights()
        for name, weight in zip(two.files, expected, strict=True):
            np.testing.assert_allclose(two[name], weight, atol=1e-5)
