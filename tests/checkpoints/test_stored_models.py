"""Model folders and `.keras` files of commit 314faad can be loaded and give its recorded outputs."""

import importlib
import pickle

import keras
import numpy as np
import pytest
from places import TESTS

import keras_bert
from keras_bert.checkpoints.model_classes import find_class
from keras_bert.program.earlier_names import CLASSES as EARLIER_NAMES
from keras_bert.program.earlier_names import MODULES as EARLIER_MODULES

STORED = TESTS / "stored_models"
# Folder of tests/stored_models -> its current class.
CLASSES = {
    "encoder": keras_bert.BertEncoder,
    "masked_lm": keras_bert.MaskedLM,
    "multi_label": keras_bert.SequenceClassifier,
    "multiple_choice": keras_bert.MultipleChoice,
    "pretrainer": keras_bert.BertPretrainer,
    "regression": keras_bert.SequenceClassifier,
    "sequence_classifier": keras_bert.SequenceClassifier,
    "span_classifier": keras_bert.SpanClassifier,
    "token_classifier": keras_bert.TokenClassifier,
}


def check_outputs(model, name):
    with np.load(STORED / name / "outputs.npz") as stored:
        arrays = dict(stored)
    inputs = {key.removeprefix("input."): value for key, value in arrays.items() if key.startswith("input.")}
    expected = {key.removeprefix("output."): value for key, value in arrays.items() if key.startswith("output.")}
    assert type(model) is CLASSES[name]
    outputs = model(inputs, training=False)
    outputs = outputs if isinstance(outputs, dict) else {"outputs": outputs}
    assert outputs.keys() == expected.keys()
    for key, value in expected.items():
        assert value.std() > 0.01, "weights that are nearly 0 would prove little"
        np.testing.assert_allclose(np.asarray(outputs[key]), value, rtol=1e-5, atol=1e-6)


def test_every_stored_class_is_tried():
    assert {path.name for path in STORED.iterdir()} == set(CLASSES)
    assert {cls.__name__ for cls in CLASSES.values()} == {"BertEncoder", "BertPretrainer", *EARLIER_NAMES.values()}


@pytest.mark.parametrize("name", CLASSES)
def test_an_earlier_model_folder_gives_its_recorded_outputs(name):
    check_outputs(CLASSES[name].from_pretrained(STORED / name / "folder"), name)


@pytest.mark.parametrize("name", CLASSES)
def test_an_earlier_keras_file_gives_its_recorded_outputs(name):
    check_outputs(keras.models.load_model(STORED / name / "model.keras"), name)


def test_an_earlier_keras_file_trains_on_with_its_optimizer():
    model = keras.models.load_model(STORED / "sequence_classifier" / "model.keras")
    assert type(model.optimizer) is keras_bert.AdamW
    assert int(model.optimizer.iterations) == 1


@pytest.mark.parametrize(("earlier", "name"), EARLIER_NAMES.items())
def test_folders_are_written_under_the_new_name_only(earlier, name, tmp_path):
    folder = next(folder for folder, cls in CLASSES.items() if cls.__name__ == name)
    model = CLASSES[folder].from_pretrained(STORED / folder / "folder")
    model.save_pretrained(tmp_path / "again")
    text = (tmp_path / "again" / "bert_config.json").read_text()
    assert f'"{name}"' in text
    assert earlier not in text
    assert find_class(earlier, "a test") is type(model)
    assert not hasattr(keras_bert, earlier), "there is no public alias"


@pytest.mark.parametrize(("earlier", "today"), EARLIER_MODULES.items())
def test_a_module_is_found_under_its_earlier_name(earlier, today):
    module, earlier_module = (importlib.import_module(f"keras_bert.{name}") for name in (today, earlier))
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    assert own
    for value in own:
        assert getattr(earlier_module, value.__name__) is value


def test_a_pickle_that_names_an_earlier_module_is_read():
    config = keras_bert.BertConfig.from_size("xlnet-base")
    today, earlier = b"keras_bert.encoders.xlnet.config", b"keras_bert.config.xlnet_config"
    written = pickle.dumps(config, protocol=0)
    assert today in written
    assert pickle.loads(written.replace(today, earlier)) == config


# The modules with the classes of models and configs that commit 975f940 had: pickles and `.keras` files name them.
MODULES_OF_CLASSES = """
    models.cross_encoder models.distiller models.electra_pretrainer models.encoder models.long_encoder models.masked_lm
    models.mobile_bert_encoder models.modern_bert_encoder models.multiple_choice models.pretrainer
    models.replaced_token_detector models.sentence_classifier models.sentence_encoder models.sequence_classifier
    models.span_classifier models.span_pretrainer models.static_encoder models.text_to_text models.token_classifier
    models.transformer_xl models.xlnet_encoder config.bert_config config.long_config config.mobile_bert_config
    config.modern_bert_config config.transformer_xl_config config.xlnet_config
"""


@pytest.mark.parametrize("name", MODULES_OF_CLASSES.split())
def test_modules_that_stored_files_name_can_be_imported(name):
    importlib.import_module(f"keras_bert.{name}")
