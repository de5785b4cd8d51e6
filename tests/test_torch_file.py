"""Files of torch, written here as torch.save writes them; tests/parity has those of torch itself."""

import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest
from tiny_checkpoints import assert_same_tensors, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.safetensors_file import read_safetensors
from keras_bert.errors import InputError


@pytest.fixture
def hugging_face(tmp_path):
    write_checkpoint(random_checkpoint(form.MASKED_LM), tmp_path / "hf", "huggingface")
    return tmp_path / "hf"


class Storage:
    def __init__(self, name, array):
        self.name, self.array = name, array


@pytest.fixture
def torch_stub(monkeypatch):
    """A module with the names that a pickle of tensors has in it, for writing such pickles."""
    torch, utilities = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
    utilities._rebuild_tensor_v2 = types.FunctionType((lambda *_: None).__code__, {}, "_rebuild_tensor_v2")
    utilities._rebuild_tensor_v2.__module__ = "torch._utils"
    utilities._rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    torch._utils = utilities
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utilities)
    return torch


class TorchPickler(pickle.Pickler):
    def __init__(self, file, torch):
        super().__init__(file, protocol=2)
        self.torch = torch

    def persistent_id(self, value):
        if isinstance(value, Storage):
            return ("storage", self.torch.FloatStorage, value.name, "cpu", value.array.size)
        return None

    def reducer_override(self, value):
        if isinstance(value, np.ndarray):
            strides = tuple(stride // value.itemsize for stride in value.strides)
            storage = Storage(str(id(value)), value)
            return self.torch._utils._rebuild_tensor_v2, (storage, 0, value.shape, strides, False, {})
        return NotImplemented


def torch_save(path, state, torch, stream):
    """Writes a state dictionary of float32 arrays as torch.save does; `stream` is the format before version 1.6."""
    arrays = {str(id(array)): array for array in state.values() if isinstance(array, np.ndarray)}
    if stream:
        with open(path, "wb") as file:
            for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
                pickle.dump(value, file, protocol=2)
            TorchPickler(file, torch).dump(state)
            pickle.dump(list(arrays), file, protocol=2)
            for array in arrays.values():
                file.write(struct.pack("<q", array.size) + array.tobytes(order="A"))
        return
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("archive/data.pkl", "w") as file:
            TorchPickler(file, torch).dump(state)
        for name, array in arrays.items():
            archive.writestr(f"archive/data/{name}", array.tobytes(order="A"))


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_a_torch_file_gives_the_same_tensors_without_torch(stream, hugging_face, torch_stub):
    expected = read_checkpoint(hugging_face)
    stored = read_safetensors(hugging_face / "model.safetensors")
    state = {name: tensor.read() for name, tensor in stored.items()}
    # Tensors can lie in another order than their shape says.
    state["bert.pooler.dense.weight"] = np.asfortranarray(state["bert.pooler.dense.weight"])
    torch_save(hugging_face / "pytorch_model.bin", state, torch_stub, stream)
    expected = expected.replace(tensors={name: StoredTensor.of(t.read()) for name, t in expected.tensors.items()})
    (hugging_face / "model.safetensors").unlink()
    assert_same_tensors(expected, read_checkpoint(hugging_face))


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
@pytest.mark.parametrize("kept", [0.01, 0.3, 0.99])
def test_a_torch_file_that_is_cut_off_is_called_that(kept, stream, hugging_face, torch_stub, tmp_path):
    stored = read_safetensors(hugging_face / "model.safetensors")
    file = hugging_face / "pytorch_model.bin"
    torch_save(file, {name: tensor.read() for name, tensor in stored.items()}, torch_stub, stream)
    (hugging_face / "model.safetensors").unlink()
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match="pytorch_model.bin[^\n]*$"):
        convert_checkpoint(hugging_face, tmp_path / "output", "google")
    assert [file.name for file in tmp_path.iterdir()] == ["hf"]


class Evil:
    def __reduce__(self):
        return exec, ("import builtins; builtins.was_run = True",)


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_a_pickle_that_does_more_than_tensors_is_refused_and_not_run(stream, hugging_face, torch_stub):
    import builtins

    stored = read_safetensors(hugging_face / "model.safetensors")
    state = {**{name: tensor.read() for name, tensor in stored.items()}, "extra": Evil()}
    torch_save(hugging_face / "pytorch_model.bin", state, torch_stub, stream)
    (hugging_face / "model.safetensors").unlink()
    with pytest.raises(InputError, match="asks for .*exec, which is not a tensor .* nothing of it was run"):
        read_checkpoint(hugging_face)
    assert not hasattr(builtins, "was_run")
    try:
        assert len(read_checkpoint(hugging_face, trust_pickle=True).tensors) == 44
        assert builtins.was_run
    finally:
        del builtins.was_run


@pytest.mark.parametrize("content", [b"not a pickle", pickle.dumps({"a": 1}), pickle.dumps([1, 2])])
def test_what_torch_did_not_write_is_refused(content, hugging_face):
    (hugging_face / "pytorch_model.bin").write_bytes(content)
    (hugging_face / "model.safetensors").unlink()
    with pytest.raises(InputError, match="torch.save (wrote|did not write)"):
        read_checkpoint(hugging_face)
