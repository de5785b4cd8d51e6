"""The runtimes of exports: which can run a folder on this machine, and which one is taken."""

import dataclasses
import importlib.util
import warnings
from typing import Any

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, option
from keras_bert.serving.portable.folder import SAVED_MODEL, PortableFolder, network_file

AUTO = "auto"
PRECISIONS = ("float32", "bfloat16", AUTO)
_PORTABLE = "keras_bert.serving.portable"
_SLOW_IN_OPENVINO = "openvino takes longer for int8 files than for float32"


@dataclasses.dataclass(frozen=True)
class Runtime:
    """What computes the answers of a loaded export.

    Attributes:
        name: a key of `RUNTIMES`.
        precision: "float32" or "bfloat16"; "int8" for exports with 8-bit weights.
        threads: threads for one batch; None for the runtime's own choice.
        reason: a sentence that says why this runtime was taken.
    """

    name: str
    precision: str
    threads: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A runtime: the format that it runs, its Python package, and the import path of its engine."""

    format: str
    package: str
    engine: str = ""

    def is_installed(self) -> bool:
        found = importlib.util.find_spec(self.package)
        return found is not None and found.origin is not None  # a mere folder has no origin


RUNTIMES = {
    "tensorflow": _Kind(SAVED_MODEL, "tensorflow"),
    "onnxruntime": _Kind("onnx", "onnxruntime", f"{_PORTABLE}.onnx_engine.OnnxEngine"),
    "openvino": _Kind("onnx", "openvino", f"{_PORTABLE}.openvino_engine.OpenVinoEngine"),
    "litert": _Kind("litert", "ai_edge_litert", f"{_PORTABLE}.litert_engine.LiteRTEngine"),
}


@dataclasses.dataclass(frozen=True)
class Wanted(Options):
    """The arguments of `keras_bert.serving.load` about runtimes."""

    runtime: str = option(AUTO, choices=(AUTO, *RUNTIMES))
    precision: str = option("float32", choices=PRECISIONS)
    num_threads: int | None = option(None, at_least=1)
    callers: int = option(1, at_least=1)


def open_engine(folder: PortableFolder, wanted: Wanted) -> tuple[Any, Runtime]:
    """Returns the engine that runs the network of a LiteRT or ONNX folder, and the choice of the runtime.

    Raises `InputError` if the network is missing, too large or damaged, or no runtime for it is installed.
    """
    path = network_file(folder)
    name, reason = _chosen(folder, wanted)
    options = {"precision": wanted.precision, "callers": wanted.callers} if name == "openvino" else {}
    engine = registry.imported(RUNTIMES[name].engine)(path, wanted.num_threads, **options)
    if name == "openvino" and folder.weights == "int8":
        warnings.warn(f"{folder.path}: {_SLOW_IN_OPENVINO}. Use runtime='onnxruntime'.", stacklevel=5)
    precision = "int8" if folder.weights == "int8" else getattr(engine, "precision", "float32")
    return engine, Runtime(name, precision, wanted.num_threads, reason)


def check_runtime(folder: PortableFolder, wanted: Wanted) -> None:
    """Raises `InputError` if the runtime is for another format, or does not have the precision."""
    of_format = _runtimes_of(folder)
    if wanted.runtime not in (AUTO, *of_format):
        format = RUNTIMES[wanted.runtime].format
        raise InputError(
            f"{folder.path} is an export for {' or '.join(of_format)}. Received: runtime={wanted.runtime!r}. For that, "
            f"export the model again: python -m run_scripts.export_model --format={format}"
        )
    can = folder.weights == "bfloat16" or "openvino" in (of_format if wanted.runtime == AUTO else (wanted.runtime,))
    if wanted.precision == "bfloat16" and not can:
        advice = "--dtype=bfloat16" if folder.format == SAVED_MODEL else "--format=onnx and use runtime='openvino'"
        raise InputError(
            f"{wanted.runtime if wanted.runtime != AUTO else of_format[0]} has no bfloat16 for {folder.path}. Use "
            f"precision='float32', or export the model with {advice}."
        )


def _runtimes_of(folder: PortableFolder) -> list[str]:
    return [name for name, kind in RUNTIMES.items() if kind.format == folder.format]


def _chosen(folder: PortableFolder, wanted: Wanted) -> tuple[str, str]:
    """Returns the runtime of a folder, and the reason why. See docs/decisions/runtime_is_a_rule.md."""
    if wanted.runtime != AUTO:
        return wanted.runtime, f"{wanted.runtime} was asked for"
    of_format = _runtimes_of(folder)
    if wanted.precision == "bfloat16":
        return "openvino", "openvino is the only runtime that computes such exports in bfloat16"
    installed = [name for name in of_format if RUNTIMES[name].is_installed()]
    if len(installed) < 2:
        name = (installed or of_format)[0]  # without any, the engine says how to install its package
        only = "only installed" if len(of_format) > 1 else "only"
        return name, f"{name} is the {only} runtime of exports with --format={folder.format}"
    if folder.weights == "int8":
        return "onnxruntime", f"onnxruntime: {_SLOW_IN_OPENVINO}"
    if wanted.callers > 1 and not _computes_in_bfloat16(wanted):
        return "onnxruntime", "onnxruntime is faster for several callers in float32"
    return "openvino", "openvino is installed, and faster in most cases"


def _computes_in_bfloat16(wanted: Wanted) -> bool:
    if wanted.precision != AUTO:
        return False
    from keras_bert.serving.portable.openvino_engine import has_bfloat16

    return has_bfloat16()
