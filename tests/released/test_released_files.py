"""What a released version wrote loads in every later one, and answers the same. `record.py` wrote the files."""

import json

import keras
import pytest
from places import TESTS
from recorded_folders import recorded_folder
from released.record import ask

from keras_bert import registry, serving
from keras_bert.checkpoints.pretrained import from_pretrained

RECORDED = {path.stem: json.loads(path.read_text("utf-8")) for path in (TESTS / "released").glob("*.json")}
CASES = [(version, kind) for version, kinds in RECORDED.items() for kind in kinds]
EXPORTS = [(version, kind, "export") for version, kind in CASES if registry.task(kind).export]
EXPORTS += [(version, "SequenceClassifier", "saved_model") for version in RECORDED]

pytestmark = pytest.mark.filterwarnings("ignore::keras_bert.program.errors.UntrainedWarning")


def assert_same(model, version, kind):
    case = RECORDED[version][kind]
    found = ask(model, case["how"], case["question"])
    assert keras.tree.map_structure(type, found) == keras.tree.map_structure(type, case["answers"])
    assert keras.tree.flatten(found) == [
        pytest.approx(one, abs=1e-4) if isinstance(one, float) else one for one in keras.tree.flatten(case["answers"])
    ]


def folder_of(version, kind):
    return recorded_folder(kind, archive=TESTS / "released" / f"{version}.tar.xz")


def test_every_task_is_recorded():
    assert "0.2.0" in RECORDED
    assert set(RECORDED["0.2.0"]) == set(registry.TASKS)


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_model_folders_and_files_of_keras_load(version, kind, without_graphs):
    folder = folder_of(version, kind)
    assert_same(from_pretrained(None, folder / "folder"), version, kind)
    assert_same(keras.models.load_model(folder / "model.keras"), version, kind)


@pytest.mark.parametrize(("version", "kind", "name"), EXPORTS)
def test_exports_load(version, kind, name):
    assert_same(serving.load(folder_of(version, kind) / name), version, kind)
