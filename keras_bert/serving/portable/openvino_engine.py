"""Runs an ONNX file with OpenVINO: features in, outputs of the model out. Needs the package openvino, no TensorFlow."""

import functools
import os
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.quiet_tensorflow import hidden_packages
from keras_bert.records.features import POSITION_IDS
from keras_bert.serving.portable.folder import PACKED_FILE, damaged_network
from keras_bert.serving.portable.onnx_engine import arrays_for, cannot_compute, named_outputs
from keras_bert.serving.portable.row_layouts import Layout

_DEVICE = "CPU"
PACKED, SORTED = Layout(rows=4, width=256), Layout(rows=8)
# OpenVINO's names. float16 is left out: it took three times as long as float32 where it was measured.
_PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


class OpenVinoEngine:
    """A network of `write_onnx`, used as an `OnnxEngine`. Threads may share it; each that computes has its own request.

    Args:
        file_path: the `.onnx` file. If there is a network for packed rows beside it, that one runs.
        num_threads: threads of all calls together; by default one for each core of the processor.
        precision: "float32"; "bfloat16", for processors that have it; or "auto": bfloat16 on those, else float32. The
            attribute `precision` says which.
        callers: how many threads call `run` at the same time. One gets all threads for its batch. With more, several
            batches are computed side by side.

    Raises:
        InputError: openvino is not installed, the processor has no bfloat16, or OpenVINO cannot open the file.
    """

    def __init__(
        self,
        file_path: str | os.PathLike,
        num_threads: int | None = None,
        precision: str = "float32",
        callers: int = 1,
    ):
        core = _core(_imported())
        self.precision = _checked_precision(core, precision)
        # Without the hint, OpenVINO computes in bfloat16 on processors that have it.
        options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": _PRECISIONS[self.precision]}
        options["PERFORMANCE_HINT"] = "LATENCY" if callers == 1 else "THROUGHPUT"
        if callers > 1:
            options["PERFORMANCE_HINT_NUM_REQUESTS"] = callers
        if num_threads is not None:
            options["INFERENCE_NUM_THREADS"] = num_threads
        path = os.fspath(file_path)
        packed = os.path.join(os.path.dirname(path), PACKED_FILE)
        path = packed if os.path.isfile(packed) else path
        try:
            network = core.read_model(path)
            # Compiling adds other names.
            self.feature_names = tuple(port.get_any_name() for port in network.inputs)
            self._outputs = tuple(port.get_any_name() for port in network.outputs)
            self._compiled = core.compile_model(network, _DEVICE, options)
        except Exception as error:
            raise damaged_network(path, error) from error
        self.layout = PACKED if POSITION_IDS in self.feature_names else SORTED
        # OpenVINO leaves out inputs that the network does not use.
        self._used = {name for port in self._compiled.inputs for name in port.get_names()}
        self._idle_requests: deque = deque()

    def run(self, features: Mapping[str, np.ndarray]):
        """Returns the outputs of the model for a batch, as `OnnxEngine.run`. Raises `InputError` as that does."""
        given = arrays_for(self.feature_names, features)
        try:
            request = self._idle_requests.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            # The outputs are copied, so the next call of the request does not change them.
            found = request.infer({name: given[name] for name in given if name in self._used}, share_inputs=True)
        except RuntimeError as error:
            raise cannot_compute(given, error) from error
        self._idle_requests.append(request)
        return named_outputs(self._outputs, found.values())


@functools.cache
def _core(openvino):
    """Returns the one `Core` of the package in this process, which is never freed.

    OpenVINO 2026.4 gives the thread that first compiles a stack for signals, and frees that stack with the core. If
    another thread freed the core, the next signal would end the process.
    """
    return openvino.Core()


def _imported():
    """Returns the package openvino, imported without its converter: that sends a message to a server when imported."""
    try:
        with hidden_packages("openvino.tools.ovc"):
            import openvino
    except ImportError as error:
        raise InputError(
            f"The runtime openvino needs a package that is not installed ({error}). {how_to_install('openvino')}"
        ) from error
    return openvino


def has_bfloat16() -> bool:
    """Returns whether OpenVINO computes in bfloat16 on this processor."""
    return "BF16" in _capabilities(_core(_imported()))


def _capabilities(core) -> list[str]:
    return core.get_property(_DEVICE, "OPTIMIZATION_CAPABILITIES")


def _checked_precision(core, precision: str) -> str:
    capabilities = _capabilities(core)
    if precision == "bfloat16" and "BF16" not in capabilities:
        raise InputError(
            f"This processor has no bfloat16; OpenVINO lists {', '.join(capabilities)}. Use precision='float32' or "
            "'auto'."
        )
    return ("bfloat16" if "BF16" in capabilities else "float32") if precision == "auto" else precision
