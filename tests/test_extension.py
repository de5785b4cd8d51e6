"""A task and a family from outside of the package do all that its own do: the library is not touched for them.

They are in `toys/`, and docs/extending.md shows them.
"""

import functools
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import urllib.request

import keras
import numpy as np
import pytest
import tiny
from encoder_contract import check_encoder
from numpy_bert import scatter_weights
from on_jax import needs_jax, output_on_jax
from toys.distance import entry as distance_entry
from toys.distance.config import DistanceConfig
from toys.distance.encoder import DistanceEncoder
from toys.distance.entry import FAMILY
from toys.distance.entry import weights as distance_weights
from toys.urgency.answers import Urgency
from toys.urgency.entry import URGENCY
from toys.urgency.model import UrgencyModel

from keras_bert import BertConfig, BertEncoder, Encoder, MaskedLM, SequenceClassifier, registry, serving
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.model_classes import class_for, find_class
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.checkpoints.pretrained import checkpoint_of
from keras_bert.checkpoints.tensor_checks import check_tensors
from keras_bert.checkpoints.weight_list import encoder_shapes, head_shapes
from keras_bert.models.encoder_base import make_encoder
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client import RestClient
from keras_bert.tf_serving.server.request_limits import ServerOptions
from keras_bert.tf_serving.server.run_server import background_server

TESTS = pathlib.Path(__file__).resolve().parent
PAGE = (TESTS.parent / "docs" / "extending.md").read_text("utf-8")
VOCABULARY = tiny.vocabulary("the server is down now please read this when you have time help fire lunch menu")
URGENT, CALM = "help the server is down now", "please read this when you have time"
TEXTS = [URGENT, CALM, "fire now", "lunch menu", "the fire is down", "read the menu"]
URGENCIES = [0.9, 0.1, 1.0, 0.0, 0.8, 0.2]
FORMATS = ["saved_model", "litert", "onnx"]


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The toys in the registry, as long as these tests run."""
    registry.register_task("UrgencyModel", URGENCY)
    registry.register_family("distance", FAMILY)
    yield
    del registry.TASKS["UrgencyModel"], registry.FAMILIES["distance"]


def config_of_toys():
    values = {"model_type": "distance", "furthest": 3}
    return BertConfig.from_dict({**tiny.config(VOCABULARY, dropout=0.0, num_hidden_layers=2).to_dict(), **values})


@pytest.fixture(scope="module")
def trained(registered):
    """An `UrgencyModel` of the toy family that has learned the texts, and its scores before and after."""
    keras.utils.set_random_seed(1)
    model = UrgencyModel(config_of_toys())
    model.vocabulary = VOCABULARY
    model.compile(AdamW(5e-3))
    before = model.evaluate(TEXTS, URGENCIES, verbose=0)
    model.fit(TEXTS, URGENCIES, epochs=40, batch_size=3, verbose=0)
    return model, before, model.evaluate(TEXTS, URGENCIES, verbose=0)


@pytest.fixture
def model(trained):
    return trained[0]


def numbers(answers) -> np.ndarray:
    assert all(type(answer) is Urgency for answer in answers)
    return np.array([answer.urgency for answer in answers])


def test_the_toy_task_learns_from_texts(trained):
    _, before, after = trained
    assert after["mean_absolute_error"] < 0.5 * before["mean_absolute_error"]
    assert after["within_a_tenth"] > 0.5 > before["within_a_tenth"]


def test_the_weights_of_toys_are_what_their_entries_list(model):
    listed = encoder_shapes(model.config) | head_shapes(model.config, "urgency_head", 0)
    assert {name: tuple(weight.shape) for name, weight in model_weights(model).items()} == listed


@pytest.mark.parametrize("way", ["model folder", "keras file", "pickle"])
def test_a_saved_toy_gives_equal_answers(model, way, tmp_path):
    if way == "model folder":
        model.save_pretrained(tmp_path / "folder")
        again = UrgencyModel.from_pretrained(tmp_path / "folder")
    elif way == "keras file":
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
    else:
        again = pickle.loads(pickle.dumps(model))
    assert type(again) is UrgencyModel
    assert again.config == model.config
    assert again.predict(TEXTS, verbose=0) == model.predict(TEXTS, verbose=0)


def test_a_toy_folder_has_a_model_card(model, tmp_path):
    model.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text("utf-8")
    assert f"pipeline_tag: text-classification\ntags:\n- {model.config.model_type}\n" in card
    (script,) = re.findall(r"```python\n(.*?)```", card, re.S)
    exec(script.replace("path/of/this/folder", str(tmp_path)), {"print": lambda answers: numbers(answers)})


def test_a_folder_of_the_toy_task_becomes_its_class_by_the_head_alone(model, tmp_path):
    model.save_pretrained(tmp_path)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.heads == ("urgency_head",)
    assert class_for(checkpoint) == (UrgencyModel, {})


def test_a_folder_is_read_before_the_classes_of_the_toys_are_imported(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path)
    monkeypatch.delitem(sys.modules, "toys.urgency.model")
    monkeypatch.delitem(keras.saving.get_custom_objects(), "toys>UrgencyModel")
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.model_class.__name__ == "UrgencyModel"
    assert checkpoint.model_class is not UrgencyModel  # it was imported again
    with pytest.raises(InputError, match="'others>UrgencyModel', which is unknown. Import the module"):
        find_class("others>UrgencyModel", "folder")


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """Function of a format -> the path of the export, which is written once."""

    @functools.cache
    def export(format):
        return trained[0].export_for_serving(tmp_path_factory.mktemp("export") / "urgency", format=format)

    return export


@pytest.mark.parametrize("format", FORMATS)
def test_an_exported_toy_gives_the_answers_of_the_model(model, exported, format):
    loaded = serving.load(exported(format))
    np.testing.assert_allclose(numbers(loaded.predict(TEXTS)), numbers(model.predict(TEXTS, verbose=0)), atol=1e-5)
    expected = model.evaluate(TEXTS, URGENCIES, verbose=0)
    assert loaded.evaluate(TEXTS, URGENCIES) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("format", ["litert", "onnx"])
def test_an_export_of_a_toy_needs_neither_keras_nor_tensorflow(model, exported, format):
    path = exported(format)
    program = f"""
import sys
from keras_bert import registry, serving
from toys.distance.entry import FAMILY
from toys.urgency.entry import URGENCY
registry.register_task("UrgencyModel", URGENCY)
registry.register_family("distance", FAMILY)
(answer,) = serving.load({str(path)!r}).predict([{URGENT!r}])
print(answer.urgency, [name for name in ("keras", "tensorflow") if name in sys.modules])
"""
    folders = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folders}
    )
    assert result.returncode == 0, result.stderr
    urgency, loaded = result.stdout.split(maxsplit=1)
    assert loaded == "[]\n"
    assert float(urgency) == pytest.approx(model.predict([URGENT], verbose=0)[0].urgency, abs=1e-5)


def test_the_development_server_and_a_client_answer(model, exported):
    folder = pathlib.Path(exported("saved_model")).parent
    expected = numbers(model.predict(TEXTS, verbose=0))
    with background_server({"urgency": serving.load(folder)}, ServerOptions(port=0)) as address:
        url = f"http://127.0.0.1:{address.port}"
        with RestClient(url, "urgency") as client:
            client.wait_until_available()
            np.testing.assert_allclose(numbers(client.answers(text=TEXTS)), expected, atol=1e-5)
        body = json.dumps({"instances": [{"text": text} for text in TEXTS]}).encode()
        with urllib.request.urlopen(f"{url}/v1/models/urgency:predict", body) as answer:
            np.testing.assert_allclose(json.load(answer)["predictions"], expected, atol=1e-5)


def test_a_toy_is_explained(model):
    (explanation,) = model.explain([URGENT])
    assert explanation.target == "urgency"
    assert [token.word for token in explanation.tokens[1:-1]] == URGENT.split()
    assert abs(explanation.completeness_error) < 0.05 * abs(explanation.output - explanation.baseline_output)
    (explanation,) = model.explain([URGENT], method="attention_rollout")
    assert sum(token.score for token in explanation.tokens) == pytest.approx(1, abs=1e-5)


def test_the_toy_family_keeps_the_contract_of_encoders():
    config = DistanceConfig(**{**tiny.micro_config(dropout=0.0).to_dict(), "model_type": "distance", "furthest": 3})
    encoder = DistanceEncoder(config)
    scatter_weights(encoder)
    check_encoder(encoder)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (
            {"ours": "encoder/layer_*/attention/sharp"},
            r"missing: encoder/layer_0/attention/sharp, .* It has others: encoder/layer_0/attention/sharpness, .* ",
        ),
        ({"shape": (7,)}, r"sharpness has the shape \[2\], but its config requires \[7\]\. "),
    ],
)
def test_an_entry_that_lists_other_weights_than_the_model_has_is_named(monkeypatch, tmp_path, listed, message):
    def weights(config):
        rows = distance_weights(config)
        return [row if "sharpness" not in row.ours else row._replace(**listed) for row in rows]

    model = make_encoder(config_of_toys())
    monkeypatch.setattr(distance_entry, "weights", weights)
    with pytest.raises(InputError, match=message + "Correct `weights` in the entry of 'distance'"):
        model.save_pretrained(tmp_path / "model", VOCABULARY)


@pytest.mark.parametrize("register", [registry.register_task, registry.register_family])
def test_only_new_entries_are_registered(register):
    with pytest.raises(ValueError, match="The entry of 'mine' must be a (Task|Family). Received: <class '.*Distance"):
        register("mine", DistanceConfig)
    name, entry = ("Encoder", URGENCY) if register is registry.register_task else ("bert", FAMILY)
    with pytest.raises(ValueError, match=f"The library has a (Task|Family) '{name}'. Register yours by another name"):
        register(name, entry)


LONG_ROWS = """
import numpy as np
from keras_bert import BertConfig, registry
from keras_bert.models.encoder_base import make_encoder
from toys.distance.entry import FAMILY

registry.register_family("distance", FAMILY)
small = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16}
encoder = make_encoder(BertConfig.from_size("distance-tiny", vocab_size=30, **small))
ids = np.ones((1, 512), "int32")
print(encoder({"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids})["sequence_output"].shape)
"""


@pytest.mark.slow
@needs_jax
def test_long_rows_of_the_toy_family_are_computed_on_jax():
    assert output_on_jax(LONG_ROWS).strip() == "(1, 512, 16)"


def test_the_toy_family_reads_and_writes_folders_of_transformers(tmp_path):
    model = SequenceClassifier(config_of_toys(), labels=["calm", "urgent"])
    model.vocabulary = VOCABULARY
    scatter_weights(model)
    model.save_pretrained(tmp_path, format="huggingface")
    values = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert (values["model_type"], values["furthest"]) == ("distance", 3)
    assert values["architectures"] == ["DistanceForSequenceClassification"]
    (tmp_path / "config.json").write_text(json.dumps({**values, "tokenizer_class": "DistanceTokenizer"}))
    again = SequenceClassifier.from_pretrained(tmp_path)
    assert type(again.encoder) is DistanceEncoder
    assert again.predict(TEXTS, verbose=0) == model.predict(TEXTS, verbose=0)


def test_the_toy_family_starts_other_tasks_and_the_toy_task(tmp_path, capsys):
    masked_lm = MaskedLM(BertConfig.from_size("distance-tiny", len(VOCABULARY)))
    masked_lm.save_pretrained(tmp_path, VOCABULARY)
    assert type(Encoder.from_pretrained(tmp_path)) is DistanceEncoder
    started = UrgencyModel.from_pretrained(tmp_path)
    assert "urgency_head" in capsys.readouterr().out
    sharpness = started.encoder.blocks[1].attention.sharpness
    np.testing.assert_array_equal(sharpness, masked_lm.encoder.blocks[1].attention.sharpness)


def test_the_page_on_extending_shows_the_toys():
    shown = set(re.findall(r"```{literalinclude} \.\./tests/(toys/\S+)\n", PAGE))
    assert shown == set(re.findall(r"\(\.\./tests/(toys/\S+?)\)", PAGE))  # GitHub shows the links only
    files = {str(path.relative_to(TESTS)) for path in (TESTS / "toys").glob("*/*.py") if path.stem != "__init__"}
    assert files - shown == {"toys/distance/onnx.py"}  # named on the page


def checked_with_another_bias(model):
    checkpoint = checkpoint_of(model)
    bias = checkpoint.tensors["encoder/pooler/dense/bias"]
    check_tensors(checkpoint.replace(tensors={**checkpoint.tensors, "urgency_head/bias": bias}))


def write_for_google(model):
    make_encoder(config_of_toys()).save_pretrained("encoder", VOCABULARY, format="google")


URGENT_BUT = "^the examples: an urgency must be a number from 0 to 1. Received: "


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: model.fit(TEXTS, [7] * 6), f"{URGENT_BUT}7$"),
        (lambda model: model.fit(TEXTS, ["high"] * 6), f"{URGENT_BUT}'high'$"),
        (lambda model: model.explain([URGENT], ["calm"]), "A target of explain must be a score of the model: urgency"),
        (checked_with_another_bias, r"urgency_head/bias has the shape \[16\], but its config requires \[1\]"),
        (lambda model: registry.Head("stars", weights=list, hugging_face=("A",)), "'stars' lists other weights, so"),
        (write_for_google, "model of the family distance.* Write it with format='keras_bert'"),
        (lambda model: tiny.config(VOCABULARY).replace(model_type="distance"), "needs a DistanceConfig.*a BertConfig"),
        (lambda model: config_of_toys().replace(hidden_size=0), "hidden_size must be a whole number of at least"),
        (
            lambda model: BertEncoder(config_of_toys()),
            "does not compute .* of the family 'distance'. Use Distance",
        ),
        (lambda model: DistanceConfig(vocab_size=20), "model_type must be 'distance'. Received: 'bert'"),
    ],
)
def test_what_toys_cannot_use_is_refused(model, tmp_path, monkeypatch, use, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        use(model)
