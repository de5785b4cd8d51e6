"""Malicious files of weights, which would fill the memory when they are read, are rejected with one clear line."""

import json
import struct
import zipfile

import h5py
import keras
import numpy as np
import pytest
from bounded_memory import memory_below
from checkpoints.test_crafted_checkpoints import index_of, stored
from tiny_checkpoints import change_json, random_checkpoint
from tiny_models import make_model

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import pretrained
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.tensorflow_checkpoint import read_tensorflow_checkpoint
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.program.errors import InputError
from keras_bert.records import index
from keras_bert.training.run_folder import read_arrays


@pytest.fixture
def folder(tmp_path):
    """A model folder with a small classifier."""
    write_checkpoint(random_checkpoint(form.CLASSIFIER, labels=("no", "yes")), tmp_path / "model", "keras_bert")
    return tmp_path / "model"


# Tensors that lie over each other, and settings that ask for more than the files have


def test_tensors_of_a_weights_file_that_lie_over_each_other_are_refused(tmp_path):
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        for number in range(3):
            file[f"kernel_{number}"] = np.full(50_000, number, "f4")
        offsets = [file[f"kernel_{number}"].id.get_offset() for number in range(3)]
    content = path.read_bytes()
    for offset in offsets[1:]:
        content = content.replace(struct.pack("<Q", offset), struct.pack("<Q", offsets[0]))
    path.write_bytes(content[: offsets[0] + 200_000])
    with pytest.raises(InputError, match="model.weights.h5 is damaged"):
        read_keras_weights(path)


def test_tensors_of_a_torch_file_that_lie_over_each_other_are_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    write_torch_zip(path, {f"layer.{number}.weight": (100,) for number in range(20)}, b"\0" * 400)
    assert read_torch_file(write_torch_zip(path, dict.fromkeys("ab", (100,)), b"\0" * 400))["b"].shape == (100,)
    write_torch_zip(path, {f"layer.{number}.weight": (25_000,) for number in range(20)}, b"\0" * 100_000)
    with pytest.raises(InputError, match="its tensors have 2,000,000 bytes in all"):
        read_torch_file(path)


def write_torch_zip(path, shapes, data):
    """Writes a file of torch whose tensors share one storage."""
    steps = [b"\x80\x02}("]
    for name, shape in shapes.items():
        count = struct.pack("<I", shape[0])
        storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0" + b"0X\x03\0\0\0cpuJ" + count + b"tQ"
        steps.append(b"X" + struct.pack("<I", len(name)) + name.encode() + b"ctorch._utils\n_rebuild_tensor_v2\n(")
        steps.append(storage + b"K\0(J" + count + b"t(K\x01t\x89Nt" + b"R")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"".join(steps) + b"u.")
        archive.writestr("archive/data/0", data)
    return path


def test_a_large_index_of_tensors_that_are_not_there_is_refused_before_memory_is_taken(tmp_path):
    content = index_of(*((b"%050d" % number, stored(4 << 30, [1 << 30])) for number in range(20_000)))
    assert len(content) > 1_000_000
    (tmp_path / "model.ckpt.index").write_bytes(content)
    (tmp_path / "model.ckpt.data-00000-of-00001").write_bytes(b"\0" * 100)
    message = "has fewer bytes than its index says.*Copy it again"
    with memory_below(25_000_000), pytest.raises(InputError, match=message):
        read_tensorflow_checkpoint(str(tmp_path / "model.ckpt"))


@pytest.mark.parametrize(
    "changes", [{"num_hidden_layers": 9000, "num_hidden_groups": 9000, "inner_group_num": 90}, {"cutoffs": [1] * 15}]
)
def test_a_config_whose_names_alone_would_fill_the_memory_is_refused(changes, folder):
    if "cutoffs" in changes:
        shape = {"model_type": "transfo-xl", "vocab_size": 2**30, "hidden_size": 2**30, "embedding_size": 2**30}
        changes = {**shape, "type_vocab_size": 0, "cutoffs": list(range(1, 16)), "div_val": 4, "intermediate_size": 8}
    change_json(folder / "bert_config.json", **changes)
    with pytest.raises(InputError, match="blocks at most|at most 8 cutoffs"):
        read_checkpoint(folder)


def test_labels_of_a_folder_without_weights_for_them_do_not_fill_the_memory(folder, monkeypatch):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        del file["classifier"]
    entry = json.loads((folder / "bert_config.json").read_text())["keras_bert"]
    assert pretrained._MOST_NEW_NUMBERS < 5_000_000
    monkeypatch.setattr(pretrained, "_MOST_NEW_NUMBERS", 50_000)
    labels = [f"{number:x}" for number in range(7_000)]
    change_json(folder / "bert_config.json", keras_bert={**entry, "labels": labels})
    with pytest.raises(InputError, match="its settings require [0-9,]+ numbers for classifier, which its files do not"):
        pretrained.from_pretrained(None, folder)


def test_compressed_arrays_of_a_run_are_refused_before_they_expand(tmp_path):
    names = {name: np.zeros(1) for name in ("paths", "stamps", "counts", "places")}
    np.savez_compressed(tmp_path / "state.npz", **names)
    with pytest.raises(ValueError, match="it is compressed"):
        read_arrays(tmp_path / "state.npz")
    names |= {
        "paths": np.array(["a"]),
        "stamps": np.zeros((1, 2)),
        "counts": np.ones(1, int),
        "places": np.zeros(1, int),
    }
    np.savez_compressed(tmp_path / "index.npz", **names)
    assert index._read(tmp_path / "index.npz", ["a"], [(0, 0)]) is None


def test_a_weights_file_that_expands_is_refused_by_load_weights(tmp_path):
    model, path = make_model("classifier"), tmp_path / "model.weights.h5"
    model.save_weights(path)
    model.load_weights(path)
    with h5py.File(path, "a") as file:
        del file["classifier/vars/0"]
        file.create_dataset("classifier/vars/0", (30_000, 30_000), "f4", chunks=(1, 1000))
    with pytest.raises(InputError, match=r"classifier/vars/0 has the shape \[30000, 30000\], but is not stored"):
        model.load_weights(path)


def test_the_code_in_a_keras_file_is_not_run(tmp_path):
    """A `.keras` file is a program from people whom one trusts. Keras' safe mode is on all the same."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in make_model("classifier").feature_names}
    outputs = keras.layers.Lambda(lambda logits: 2 * logits)(make_model("classifier")(inputs))
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="(?i)safe.mode"):
        keras.models.load_model(tmp_path / "model.keras")


def test_a_keras_file_of_a_network_around_a_model_is_read(tmp_path):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in make_model("classifier").feature_names}
    joined = keras.Model(inputs, keras.layers.Dense(1)(make_model("classifier")(inputs)))
    joined.save(tmp_path / "joined.keras")
    assert len(keras.models.load_model(tmp_path / "joined.keras").weights) == len(joined.weights)
