"""What the page shows of a model before anybody asks it."""

import json

import pytest
import tensorflow as tf
from small_saved_models import HttpClient, wait_until_ready

from keras_bert.tf_serving.kit.warm_up import write_warm_up
from keras_bert.tf_serving.server.loaded_model import ServedModel
from keras_bert.tf_serving.server.model_config import ModelConfig
from keras_bert.tf_serving.server.page_examples import about_model
from keras_bert.tf_serving.server.run_server import background_server
from keras_bert.tf_serving.server.server_options import ServerOptions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A SavedModel of two texts that tells the lengths of both."""
    folder = tmp_path_factory.mktemp("lengths") / "1"
    spec = [tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_b")]
    lengths = tf.function(lambda text, text_b: {"y": tf.strings.length(text + text_b)}, input_signature=spec)
    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": lengths})
    return folder


def test_labels_are_those_of_the_export_and_examples_those_of_the_kit(folder):
    (folder / "assets" / "export.json").write_text(json.dumps({"settings": {"labels": ["spam", 7]}}))
    examples = [{"text": text, "text_b": "offen"} for text in ("Rechnung", "Mahnung", "x" * 2000, "Größe", "mehr")]
    write_warm_up(folder, examples)
    with background_server([ModelConfig("lengths", str(folder.parent))], ServerOptions(port=0)) as address:
        wait_until_ready(address.port)
        with HttpClient(address.port) as client:
            status, answer = client.raw("GET", "/models/lengths")
            assert status == 200
            status, error = client.raw("GET", "/models/other")
            assert status == 404
            assert b"other" in error
    assert json.loads(answer) == {"labels": ["spam", "7"], "examples": [examples[number] for number in (0, 1, 3)]}


@pytest.mark.parametrize("settings", ["[]", "{", '{"settings": 3}', '{"settings": {"labels": {"a": 1}}}'])
def test_made_up_requests_are_no_examples_and_damaged_files_say_nothing(folder, settings):
    (folder / "assets" / "export.json").write_text(settings)
    write_warm_up(folder)
    if settings == "{":
        (folder / "assets.extra" / "tf_serving_warmup_requests").unlink()
    model = ServedModel(str(folder))
    assert about_model(model) == {"labels": [], "examples": []}
    model.close()
