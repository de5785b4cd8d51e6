"""Which versions are loaded and when, with fake models that only have names."""

import asyncio
import os

import pytest

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.server.model_config import ModelConfig, model_config_of_argument, read_model_configs
from keras_bert.tf_serving.server.model_store import ModelStore
from keras_bert.tf_serving.server.status import Code, StatusError


class Loader:
    """Loads folders that have a file `good`, and records all calls."""

    def __init__(self):
        self.events = []

    def __call__(self, folder):
        version = os.path.basename(folder)
        if not os.path.exists(os.path.join(folder, "good")):
            self.events.append(f"failed {version}")
            raise StatusError(Code.DATA_LOSS, f"{version} is damaged")
        self.events.append(f"loaded {version}")
        loader = self

        class Model:
            def close(self):
                loader.events.append(f"closed {version}")

        return Model()


def add(folder, version, good=True):
    (folder / str(version)).mkdir(parents=True, exist_ok=True)
    if good:
        (folder / str(version) / "good").touch()


async def polled(store):
    await store.poll()
    await store.settle()
    return {version.number: version.state for version in store.versions("m")}


def store_of(folder, **config):
    loader = Loader()
    return ModelStore([ModelConfig("m", str(folder), **config)], load=loader), loader


def test_the_highest_version_is_served_and_the_old_one_goes_when_the_new_one_is_there(tmp_path):
    async def go():
        store, loader = store_of(tmp_path)
        assert await polled(store) == {}
        for name in ("1", "007", "x", "-3", ".tmp-9", str(2**63), "1.5"):
            add(tmp_path, name)
        assert await polled(store) == {7: "AVAILABLE"}
        assert store.is_ready
        add(tmp_path, 12)
        assert await polled(store) == {12: "AVAILABLE", 7: "END"}
        assert loader.events == ["loaded 007", "loaded 12", "closed 007"]
        assert store.find("m").number == 12

    asyncio.run(go())


def test_a_damaged_version_leaves_the_old_one_and_is_tried_again_when_it_changes(tmp_path):
    async def go():
        store, loader = store_of(tmp_path)
        add(tmp_path, 1)
        await polled(store)
        add(tmp_path, 2, good=False)
        assert await polled(store) == {2: "END", 1: "AVAILABLE"}
        assert await polled(store) == {2: "END", 1: "AVAILABLE"}
        assert loader.events == ["loaded 1", "failed 2"], "nothing has changed, so it is not tried again"
        assert (store.versions("m")[0].error.code, store.versions("m")[0].error.message) == (
            Code.DATA_LOSS,
            "2 is damaged",
        )
        assert store.find("m").number == 1
        (tmp_path / "2" / "more").touch()
        await polled(store)
        assert loader.events[-1] == "failed 2"
        add(tmp_path, 2)
        assert await polled(store) == {2: "AVAILABLE", 1: "END"}
        assert store.versions("m")[0].error is None

    asyncio.run(go())


def test_a_damaged_version_is_tried_again_after_a_while_and_forgotten_when_it_is_gone(tmp_path):
    async def go():
        loader = Loader()
        store = ModelStore([ModelConfig("m", str(tmp_path))], load=loader, retry_seconds=0)
        add(tmp_path, 1)
        add(tmp_path, 2, good=False)
        await polled(store)
        await polled(store)
        assert loader.events == ["failed 2", "failed 2"]
        (tmp_path / "2").rmdir()
        assert await polled(store) == {1: "AVAILABLE"}

    asyncio.run(go())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [({}, [3]), ({"num_latest": 2}, [3, 2]), ({"all_versions": True}, [3, 2, 1]), ({"specific": (1, 3, 9)}, [3, 1])],
)
def test_the_policy_says_which_versions_are_served(tmp_path, policy, expected):
    async def go():
        for version in (1, 2, 3):
            add(tmp_path, version)
        store, _ = store_of(tmp_path, **policy)
        assert await polled(store) == dict.fromkeys(expected, "AVAILABLE")
        with pytest.raises(StatusError, match=r"Servable not found for request: Specific\(m, 9\)"):
            store.find("m", 9)

    asyncio.run(go())


def test_a_version_in_use_stays_until_it_is_released(tmp_path):
    async def go():
        store, loader = store_of(tmp_path)
        add(tmp_path, 1)
        await polled(store)
        version = store.find("m")
        with version.in_use():
            add(tmp_path, 2)
            await store.poll()
            for _ in range(200):
                await asyncio.sleep(0.01)
                if store.find("m").number == 2:
                    break
            await asyncio.sleep(0.05)
            assert version.state == "UNLOADING"
            assert version.model is not None
            assert "closed 1" not in loader.events
        await store.settle()
        assert loader.events == ["loaded 1", "loaded 2", "closed 1"]

    asyncio.run(go())


def test_a_folder_that_cannot_be_read_for_a_moment_unloads_nothing(tmp_path):
    async def go():
        store, _ = store_of(tmp_path / "models")
        add(tmp_path / "models", 1)
        await polled(store)
        (tmp_path / "models").rename(tmp_path / "away")
        assert await polled(store) == {1: "AVAILABLE"}
        (tmp_path / "models").mkdir()
        assert await polled(store) == {1: "END"}

    asyncio.run(go())


def test_models_come_and_go_and_labels_name_what_is_available(tmp_path):
    async def go():
        store, loader = store_of(tmp_path / "m")
        add(tmp_path / "m", 1)
        add(tmp_path / "n", 5)
        await polled(store)
        new = ModelConfig("m", str(tmp_path / "m"), labels={"stable": 1})
        await store.configure([new, ModelConfig("n", str(tmp_path / "n"))])
        assert store.find("m", label="stable").number == 1
        assert store.find("n").number == 5
        wrong = ModelConfig("m", str(tmp_path / "m"), labels={"stable": 2})
        with pytest.raises(
            StatusError, match="Request to assign label to version 2 of model m, which is not currently"
        ):
            await store.configure([wrong])
        assert store.find("n").number == 5, "a wrong configuration changes nothing"
        await store.configure([ModelConfig("n", str(tmp_path / "n"))])
        assert loader.events[-1] == "closed 1"
        with pytest.raises(StatusError, match=r"Latest\(m\)"):
            store.find("m")

    asyncio.run(go())


def test_a_config_file_is_read(tmp_path):
    path = tmp_path / "models.config"
    path.write_text(
        'model_config_list { config { name: "a" base_path: "/x/a" model_platform: "tensorflow"'
        ' model_version_policy { specific { versions: 2 versions: 3 } } version_labels { key: "stable" value: 2 } }'
        ' config { name: "b" base_path: "/x/b" model_platform: "tensorflow" model_version_policy { all {} } } }'
    )
    a, b = read_model_configs(str(path))
    assert (a.name, a.base_path, a.specific, dict(a.labels)) == ("a", "/x/a", (2, 3), {"stable": 2})
    assert b.all_versions


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (
            'name: "a" base_path: "x" model_platform: "tensorflow"',
            "base_path of a must be an absolute path. .*'x'",
        ),
        (
            'name: "a" base_path: "/x" model_platform: "other"',
            "model_platform of a must be .*: 'other'",
        ),
        ('name: "a/b" base_path: "/x" model_platform: "tensorflow"', "A model needs a name without / and :"),
        ('nam: "a"', "is not a ModelServerConfig in protobuf's text format"),
    ],
)
def test_a_wrong_config_file_is_one_line(tmp_path, config, error):
    path = tmp_path / "models.config"
    path.write_text(f"model_config_list {{ config {{ {config} }} }}")
    with pytest.raises(InputError, match=error):
        read_model_configs(str(path))


def test_a_folder_on_the_command_line_has_its_own_name_or_another(tmp_path):
    add(tmp_path / "film", 1)
    assert model_config_of_argument(str(tmp_path / "film")).name == "film"
    assert model_config_of_argument(f"x={tmp_path / 'film'}") == ModelConfig("x", str(tmp_path / "film"))
    for argument in (str(tmp_path / "none"), f"a/b={tmp_path}", f"={tmp_path}"):
        with pytest.raises(InputError):
            model_config_of_argument(argument)
    (tmp_path / "film" / "saved_model.pb").touch()
    with pytest.raises(InputError, match="is one version of a SavedModel"):
        model_config_of_argument(str(tmp_path / "film"))
