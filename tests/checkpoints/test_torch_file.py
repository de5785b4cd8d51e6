"""Files in torch's format, written by this test like torch.save; tests/parity uses files of torch itself."""

import io
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
from keras_bert.checkpoints.tensor_pickle import TensorUnpickler
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.program.errors import InputError


@pytest.fixture
def hugging_face(tmp_path):
    write_checkpoint(random_checkpoint(form.MASKED_LM), tmp_path / "hf", "huggingface")
    return tmp_path / "hf"


class Storage:
    def __init__(self, name, array):
        self.name, self.array = name, array


@pytest.fixture
def torch_stub(monkeypatch):
    """A module with the names in pickles of tensors, for writing such pickles."""
    torch, utilities = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
    utilities._rebuild_tensor_v2 = types.FunctionType((lambda *_: None).__code__, {}, "_rebuild_tensor_v2")
    utilities._rebuild_tensor_v2.__module__ = "torch._utils"
    utilities._rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    torch._utils = utilities
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utilities)
    return torch


class Crafted:
    """A tensor on a storage, with any start, shape and strides."""

    def __init__(self, array, *arguments):
        self.array, self.arguments = array, arguments


class TorchPickler(pickle.Pickler):
    def __init__(self, file, torch):
        super().__init__(file, protocol=2)
        self.torch = torch

    def persistent_id(self, value):
        if isinstance(value, Storage):
            return ("storage", self.torch.FloatStorage, value.name, "cpu", value.array.size)
        return None

    def reducer_override(self, value):
        if isinstance(value, Crafted):
            storage = Storage(str(id(value.array)), value.array)
            return self.torch._utils._rebuild_tensor_v2, (storage, *value.arguments, False, {})
        if isinstance(value, np.ndarray):
            strides = tuple(stride // value.itemsize for stride in value.strides)
            storage = Storage(str(id(value)), value)
            return self.torch._utils._rebuild_tensor_v2, (storage, 0, value.shape, strides, False, {})
        return NotImplemented


def torch_save(path, state, torch, stream):
    """Writes a state dictionary of float32 arrays as torch.save does; `stream` is the format before version 1.6."""
    arrays = [getattr(value, "array", value) for value in state.values()]
    arrays = {str(id(array)): array for array in arrays if isinstance(array, np.ndarray)}
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
    # The memory order of a tensor can differ from its shape.
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
    with pytest.raises(InputError, match="imports .*exec, which is not part of a tensor .* it was not run"):
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


NUMBERS = np.arange(6, dtype="float32")


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
@pytest.mark.parametrize(
    ("first", "shape", "strides"),
    [
        (0, (2, 3), (-3, -1)),  # reads the memory before the numbers
        (-1, (2,), (1,)),
        (0, (7,), (1,)),
        (1, (2, 3), (3, 1)),
        (0, (2,), (6,)),
        (0, (2, 2), (2**62, 1)),
        (7, (0,), (1,)),
        (0, (10**6, 10**6), (0, 0)),  # 3.6 TiB out of one number
        (0, (10**6, 0), (0, 0)),
        (0, (2, 3), (3,)),
        (0, (1,) * 40, (1,) * 40),
        (0.0, (2,), (1,)),
        (0, (True, 2), (1, 1)),
        (0, (2,), ((1,),)),
        (0, (10**30,), (1,)),
        (0, [2], (1,)),
    ],
)
def test_a_tensor_that_reaches_out_of_its_storage_is_refused(first, shape, strides, stream, torch_stub, tmp_path):
    file = tmp_path / "pytorch_model.bin"
    torch_save(file, {"weight": Crafted(NUMBERS, first, shape, strides)}, torch_stub, stream)
    if shape == (10**6, 0):  # has no elements, so it is harmless
        assert read_torch_file(file)["weight"].read().shape == shape
        return
    with pytest.raises(InputError, match="pytorch_model.bin is damaged[^\n]*$"):
        read_torch_file(file)


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_tensors_in_any_part_and_order_of_a_storage_are_read(stream, torch_stub, tmp_path):
    file, shared = tmp_path / "pytorch_model.bin", np.arange(12, dtype="float32")
    state = {
        "middle": Crafted(shared, 3, (2, 2), (3, 1)),
        "transposed": Crafted(shared, 0, (3, 4), (1, 3)),
        "repeated": Crafted(shared, 5, (4,), (0,)),
        "scalar": Crafted(shared, 11, (), ()),
        "one row": Crafted(shared, 0, (1, 4), (10**12, 3)),
    }
    torch_save(file, state, torch_stub, stream)
    found = {name: tensor.read().tolist() for name, tensor in read_torch_file(file).items()}
    assert found == {
        "middle": [[3, 4], [6, 7]],
        "transposed": [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]],
        "repeated": [5, 5, 5, 5],
        "scalar": 11,
        "one row": [[0, 3, 6, 9]],
    }


GLOBAL_DICTIONARY = b"ccollections\nOrderedDict\n"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
DEEP_TUPLE = b")" + b"\x85" * 300_000
CALL, NOT_RUN = b"X\4\0\0\0exit\x85R.", "was not run. Use the model.safetensors"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (b"}" + DEEP_TUPLE + b"Ns.", "a tuple as the key of a dictionary"),  # hashing it ends the process
        (GLOBAL_DICTIONARY + b"}b.", "instead of a dict"),  # the attributes of a class of Python
        (GLOBAL_DICTIONARY + b")\x81.", "the opcode NEWOBJ"),
        (b"(icollections\nOrderedDict\n.", "the opcode INST"),
        (b"\x96\xff\xff\xff\xff\xff\0\0\0.", "the opcode BYTEARRAY8"),  # Python allocates as much as it says
        (b"\x82\1.", "the opcode EXT1"),
        (b"\x8d\xff\xff\xff\xff\xff\0\0\0a.", "."),  # a text of 1 PB
        (REBUILD + b"}X\x0c\0\0\0__defaults__)sb.", "a function instead of a dict"),
        (b"}K\x01)R.", "'int' object is not callable"),
        (b"}\x8b\x04\0\0\0\xff", "."),
        (b"}r\xff\xff\xff\x7f.", None),  # the largest memo index: Python's unpickler allocates 32 GB for it
        (b"}(" + DEEP_TUPLE + b"X\1\0\0\0a\x86R.", "."),
        (b"(X\7\0\0\0storageX\6\0\0\0objectX\1\0\0\0ak\0tQ.", "."),
        # Other names are refused before anything is called.
        (b"cbuiltins\neval\n" + CALL, NOT_RUN),
        (b"X\2\0\0\0osX\6\0\0\0system\x93" + CALL, NOT_RUN),
        (b"ccollections\nOrderedDict.update\n" + CALL, NOT_RUN),
    ],
)
def test_a_pickle_cannot_end_or_fill_the_process(steps, message, tmp_path):
    file = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\2" + steps)
    if message is None:
        assert read_torch_file(file) == {}
        return
    start = "is a pickle that imports" if message == NOT_RUN else "is not a file that torch.save wrote"
    with pytest.raises(InputError, match=f"{start} [^\n]*{message}[^\n]*$"):
        read_torch_file(file)


def test_a_list_is_made_into_one_dictionary_only():
    """A long list and many OrderedDicts would fill any memory."""
    pairs = b"]q\0(" + b"".join(b"K%cN\x86" % number for number in range(200)) + b"e"
    make = GLOBAL_DICTIONARY + b"h\0\x85R"
    for content, size in ((pairs + make + b".", 200), (pairs + make + make + b".", 0)):
        found = TensorUnpickler(io.BytesIO(content), "a test").load()
        assert len(found) == size


@pytest.mark.parametrize(
    ("names", "compression", "message"),
    [
        (["a/data.pkl", "a/data.pkl"], zipfile.ZIP_STORED, "two files of one name"),
        (["a/data.pkl", "b/data.pkl"], zipfile.ZIP_STORED, "two files of one name"),
        (["a/data.pkl", "a/data/0", "a/data/0"], zipfile.ZIP_STORED, "two files of one name"),
        (["a/data.pkl"], zipfile.ZIP_DEFLATED, "data.pkl is compressed"),
        (["a/data.pkl.txt"], zipfile.ZIP_STORED, "without data.pkl"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_file_that_torch_does_not_write_is_refused(names, compression, message, tmp_path):
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", compression) as archive:
        for name in names:
            archive.writestr(name, b"\x80\2}." * 100)
    with pytest.raises(InputError, match=message):
        read_torch_file(tmp_path / "pytorch_model.bin")


def test_a_pickle_that_is_longer_than_any_list_of_tensors_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\2}" + b"N0" * (3 << 20) + b".")
    with pytest.raises(InputError, match="its data.pkl has 6,291,460 bytes, which is too long for a list of tensors"):
        read_torch_file(tmp_path / "pytorch_model.bin")
