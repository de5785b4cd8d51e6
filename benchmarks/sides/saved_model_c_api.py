"""The sides that are exports of ours: SavedModels in TensorFlow's C API, as TensorFlow Serving runs them, without XLA.

This process has no TensorFlow for Python. Requests, each an object with one of these keys:

* `load`: the folder of a SavedModel, with `inputs` and `outputs`, the names of the tensors of a signature by their
  names on the wire. Replies with the `side`.
* `calls`: so many calls with a batch, an object of lists of strings or of int32 `[B]` or `[B, S]` by name in `batch`.
  Replies with the `milliseconds` of every call and the first output's `values` of the last one.
"""

import ctypes
import glob
import importlib.util
import json
import os
import sys
import time

import numpy as np

_FLOAT, _INT32, _STRING = 1, 3, 7


class _Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class _String(ctypes.Structure):
    """TF_TString in its third form, a view of bytes that belong to somebody else."""

    _fields_ = [("size", ctypes.c_size_t), ("pointer", ctypes.c_char_p), ("unused", ctypes.c_size_t)]


def _folder_of(package: str) -> str:
    [folder] = importlib.util.find_spec(package).submodule_search_locations  # without importing it
    return folder


class CApi:
    """The functions of the C API that a server needs, with their errors as exceptions."""

    def __init__(self):
        folder = _folder_of("tensorflow")
        names = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
        self._libraries = [ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL) for name in names]
        self.status = ctypes.c_void_p(self.call("TF_NewStatus"))
        self.call("_ZN10tensorflow21DisableXlaCompilationEv", result=None)
        for name in ("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"):
            [library] = glob.glob(f"{_folder_of('tensorflow_text')}/python/ops/{name}.so")
            self.call("TF_LoadLibrary", library.encode(), self.status)
            self.check()
        self.version = self.call("TF_Version", result=ctypes.c_char_p).decode()

    def call(self, name: str, *arguments, result=ctypes.c_void_p):
        function = next(filter(None, (getattr(library, name, None) for library in self._libraries)))
        function.restype = result
        return function(*arguments)

    def check(self) -> None:
        if self.call("TF_GetCode", self.status, result=ctypes.c_int):
            sys.exit(self.call("TF_Message", self.status, result=ctypes.c_char_p).decode())


class Session:
    """A loaded SavedModel, and one of its signatures."""

    def __init__(self, api: CApi, folder: str, inputs: dict[str, str], outputs: dict[str, str]):
        self._api, self._inputs, self._kept = api, inputs, []
        self._graph = ctypes.c_void_p(api.call("TF_NewGraph"))
        options = ctypes.c_void_p(api.call("TF_NewSessionOptions"))
        tags = (ctypes.c_char_p * 1)(b"serve")
        arguments = (options, None, folder.encode(), tags, 1, self._graph, None, api.status)
        self._session = ctypes.c_void_p(api.call("TF_LoadSessionFromSavedModel", *arguments))
        api.check()
        self._fetches = (_Output * len(outputs))(*map(self._output, outputs.values()))

    def _output(self, tensor: str) -> _Output:
        name, _, index = tensor.partition(":")
        return _Output(self._api.call("TF_GraphOperationByName", self._graph, name.encode()), int(index))

    def _tensor(self, values):
        if isinstance(values[0], str):
            texts = [text.encode() for text in values]
            data = (_String * len(texts))(*(_String(len(text) << 2 | 3, text, 0) for text in texts))
            self._kept += [texts, data]
            kind, shape = _STRING, [len(texts)]
        else:
            array = np.array(values, np.int32)
            data, kind, shape = array.ctypes.data_as(ctypes.c_void_p), _INT32, array.shape
            self._kept.append(array)
        size = ctypes.sizeof(data) if kind == _STRING else array.nbytes
        dimensions = (ctypes.c_int64 * len(shape))(*shape)
        tensor = self._api.call("TF_AllocateTensor", kind, dimensions, len(shape), ctypes.c_size_t(size))
        ctypes.memmove(self._api.call("TF_TensorData", ctypes.c_void_p(tensor)), data, size)
        return tensor

    def time(self, batch: dict, calls: int) -> tuple[list[float], list]:
        """Returns the milliseconds of every call, and the first output of the last, float32, as lists."""
        feeds = (_Output * len(batch))(*(self._output(self._inputs[name]) for name in batch))
        given = (ctypes.c_void_p * len(batch))(*map(self._tensor, batch.values()))
        taken = (ctypes.c_void_p * len(self._fetches))()
        milliseconds = []
        for number in range(calls):
            sizes = (len(feeds), self._fetches, taken, len(taken))
            begin = time.perf_counter()
            self._api.call(
                "TF_SessionRun", self._session, None, feeds, given, *sizes, None, 0, None, self._api.status, result=None
            )
            milliseconds.append(1000 * (time.perf_counter() - begin))
            self._api.check()
            values = self._values(taken[0]) if number == calls - 1 else None
            for tensor in taken:
                self._api.call("TF_DeleteTensor", ctypes.c_void_p(tensor), result=None)
        for tensor in given:
            self._api.call("TF_DeleteTensor", ctypes.c_void_p(tensor), result=None)
        self._kept.clear()
        return milliseconds, values

    def _values(self, address: int) -> list:
        tensor = ctypes.c_void_p(address)
        rank = self._api.call("TF_NumDims", tensor, result=ctypes.c_int)
        shape = [self._api.call("TF_Dim", tensor, axis, result=ctypes.c_int64) for axis in range(rank)]
        data = (ctypes.c_float * int(np.prod(shape))).from_address(self._api.call("TF_TensorData", tensor))
        return np.array(data).reshape(shape).tolist()


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")  # what libraries print goes to standard error
    os.dup2(2, 1)
    api, session = CApi(), None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            session = Session(api, request["load"], request["inputs"], request["outputs"])
            report = {"side": f"TensorFlow {api.version}, C API"}
        else:
            milliseconds, values = session.time(request["batch"], request["calls"])
            report = {"milliseconds": milliseconds, "values": values}
        print(json.dumps(report), file=replies, flush=True)


if __name__ == "__main__":
    main()
