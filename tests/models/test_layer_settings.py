"""Frozen, LoRA and quantised models come back as they were from `.keras` files, pickles and copies."""

import copy
import json
import pickle

import keras
import numpy as np
import pytest
from models.test_trainable_parts import INPUTS, LABELS, new_model
from tiny_models import MODELS, make_model

from keras_bert.models.layer_settings import settings_of
from keras_bert.models.trainable_parts import enable_lora, freeze
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.model import MaskedLM


def in_file(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def within_functional(model, folder):
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in INPUTS}
    return in_file(keras.Model(inputs, model(inputs)), folder).layers[-1]


COPIES = {
    ".keras": in_file,
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "functional": within_functional,
}


def freeze_one_bias(model):
    model.encoder.blocks[1].attention.query.bias.trainable = False


CHANGES = {
    "layers": lambda model: freeze(model, num_layers=1),
    "encoder": lambda model: freeze(model, whole_encoder=True),
    "bias": freeze_one_bias,
    "lora": lambda model: enable_lora(model, rank=2, alpha=6),
}


def train(model, epochs=1):
    model.fit(INPUTS, LABELS, epochs=epochs, verbose=0)


def trainable_paths(model):
    return [weight.path.partition("/")[2] for weight in model.trainable_weights]


@pytest.mark.parametrize(
    ("copied", "change"),
    [*((".keras", change) for change in CHANGES), *((copied, "lora") for copied in COPIES if copied != ".keras")],
)
def test_what_is_trained_is_the_same_after_copying(copied, change, tmp_path):
    model = new_model()
    CHANGES[change](model)
    if change == "lora":
        for layer in (model.encoder.blocks[0].attention.query, model.encoder.blocks[1].attention.value):
            layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    twin = COPIES[copied](model, tmp_path)
    assert [path.split("/")[-3:] for path in trainable_paths(twin)] == [
        p.split("/")[-3:] for p in trainable_paths(model)
    ]
    assert settings_of(twin) == settings_of(model)
    for one, other in zip(model.weights, twin.weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("change", ["layers", pytest.param("lora", marks=pytest.mark.slow)])
def test_training_goes_on_as_if_it_had_not_been_saved(change, tmp_path):
    model = new_model()
    CHANGES[change](model)
    model.compile(AdamW(0.01), run_eagerly=True)
    train(model)
    twin = in_file(model, tmp_path)
    for one, other in zip(model.optimizer.variables, twin.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(twin.optimizer.slots()) == len(model.trainable_weights)
    train(twin)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
@pytest.mark.parametrize("mode", ["int8", pytest.param("int4", marks=pytest.mark.slow)])
def test_a_model_that_keras_quantised_can_be_saved_and_loaded(mode, tmp_path):
    model = new_model()
    model.quantize(mode)
    expected = model.predict(INPUTS, verbose=0)
    for copied in (".keras", "deepcopy"):
        np.testing.assert_array_equal(COPIES[copied](model, tmp_path).predict(INPUTS, verbose=0), expected)
    with pytest.raises(InputError, match="was quantised by Keras, and a checkpoint folder holds ordinary weights"):
        model.save_pretrained(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_hdf5_files_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        InputError, match=r'Keras cannot load a SequenceClassifier from HDF5.* model.save\("model.keras"'
    ):
        new_model().save(tmp_path / "model.h5")
    assert not list(tmp_path.iterdir())


def test_weights_of_lora_fit_a_plain_model_and_plain_weights_leave_lora_trainable(tmp_path):
    model, plain = new_model(), new_model()
    plain.save_weights(tmp_path / "plain.weights.h5")
    enable_lora(model, rank=2)
    query = model.encoder.blocks[0].attention.query
    query.lora_kernel_b.assign(np.ones(query.lora_kernel_b.shape))
    model.save_weights(tmp_path / "lora.weights.h5")
    plain.load_weights(tmp_path / "lora.weights.h5")
    np.testing.assert_allclose(plain.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0), atol=1e-6)
    model.load_weights(tmp_path / "plain.weights.h5")  # after a prediction, whose trace is not part of the model
    assert np.abs(query.lora_kernel_a).min() > 0
    assert np.abs(query.lora_kernel_b).max() == 0


def test_models_as_their_class_builds_them_have_no_settings():
    for model in (new_model(), MaskedLM(new_model().config)):
        assert "layer_settings" not in model.get_config()
    assert isinstance(keras.models.clone_model(new_model()), SequenceClassifier)


@pytest.mark.parametrize("kind", MODELS)
def test_a_clone_has_the_vocabulary_of_the_model(kind):
    model = make_model(kind)
    clone = keras.models.clone_model(model)
    assert clone.vocabulary is model.vocabulary
    assert type(model).from_config(model.get_config()).vocabulary is model.vocabulary
    assert json.dumps(clone.get_config()) == json.dumps(model.get_config())


def test_a_clone_of_a_functional_model_has_the_vocabulary_of_its_encoder():
    encoder = make_model("encoder")
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in INPUTS}
    model = keras.Model(inputs, encoder(inputs))
    assert keras.models.clone_model(model).layers[-1].vocabulary is encoder.vocabulary
