"""`keras_bert.serving.load`: an export in any format -> a model with `predict(texts)`."""

import os
from collections.abc import Sequence
from typing import Any

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.serving.portable.folder import EXPORT_FILE, SAVED_MODEL, PortableFolder, read_portable
from keras_bert.serving.portable.loaded_models import LoadedModel, loaded_class
from keras_bert.serving.portable.runtimes import AUTO, RUNTIMES, Runtime, Wanted, check_runtime, open_engine
from keras_bert.tf_serving.versions import find_version_folder


def load(
    path: str | os.PathLike,
    runtime: str = AUTO,
    precision: str = "float32",
    num_threads: int | None = None,
    callers: int = 1,
) -> LoadedModel:
    """Returns the model of an export; `predict(texts)` answers like the Keras model that was exported.

    LiteRT and ONNX exports are run without TensorFlow and Keras: with NumPy, the tokenizer in Python, and a runtime.
    `model.runtime` says which one, and why. An export is a program: load exports of people whom you trust.

        model = keras_bert.serving.load("exports/sentiment")
        model.predict(["a wonderful film"])[0].label

    Args:
        path: the folder of an export; of a SavedModel also the folder of its versions, of which the highest is loaded.
        runtime: "tensorflow" for SavedModels, "onnxruntime" or "openvino" for `--format=onnx`, "litert" for
            `--format=litert`. "auto" takes OpenVINO if it is installed, but ONNX Runtime for 8-bit files, and for
            several callers in float32.
        precision: "float32" gives the answers of the exported model to 1e-5. "bfloat16" is faster on processors that
            have it, in OpenVINO; numbers of vectors differ by about 1e-3. "auto" takes it where the processor has it.
        num_threads: threads for one batch; None for the default of the runtime.
        callers: how many threads will call `predict` at the same time. With more than one, OpenVINO computes several
            batches side by side. Threads may share the model in any case.

    Raises:
        InputError: there is no export, its files are damaged, its format or model is unknown, an argument is not
            valid, the runtime or the processor does not have the precision, or the package of the runtime is not
            installed.
    """
    wanted = Wanted(runtime, precision, num_threads, callers)
    folder = _described(os.fspath(path))
    kind = _class_of(folder)
    return kind(folder, *_opened(os.fspath(path), folder, wanted))


def export_class(path: str | os.PathLike) -> type[LoadedModel]:
    """Returns the class of the model that `load` returns, from the description only. Raises `InputError` as `load`."""
    return _class_of(_described(os.fspath(path)))


def load_kind(kinds: Sequence[str], path: str | os.PathLike, **options: Any) -> LoadedModel:
    """Returns the model of an export, see `load`. Raises `InputError` unless it is one of these kinds."""
    model = load(path, **options)
    if model.kind not in kinds:
        raise InputError(f"{os.fspath(path)} is the export of a {model.kind}. Expected: {' or '.join(kinds)}.")
    return model


def is_export(path: str | os.PathLike) -> bool:
    """Returns whether a path is a folder that `load` takes. No file of it is read."""
    if os.path.isfile(os.path.join(path, EXPORT_FILE)):
        return True
    try:
        return os.path.isfile(os.path.join(find_version_folder(path), "assets", EXPORT_FILE))
    except InputError:
        return False


def _is_loaded(kind: str) -> bool:
    export = registry.task(kind).export
    return export is not None and export.stored_as is None


def _class_of(folder: PortableFolder) -> type[LoadedModel]:
    if folder.model not in registry.TASKS or not _is_loaded(folder.model):
        known = filter(_is_loaded, registry.TASKS)
        raise InputError(
            f"{os.path.join(folder.path, EXPORT_FILE)}: unknown model {folder.model!r:.50}. This version loads: "
            f"{', '.join(known)}. Import the package of a task of your own before you load its export."
        )
    return loaded_class(folder.model)


def _described(path: str) -> PortableFolder:
    """Returns the description of an export."""
    if not os.path.isdir(path):
        raise InputError(f"There is no folder {path}. Give the folder of an export.")
    if os.path.isfile(os.path.join(path, EXPORT_FILE)):
        folder = read_portable(path)
        if folder.format != SAVED_MODEL:
            return folder
    try:
        version = find_version_folder(path)
    except InputError as error:
        raise InputError(
            f"{path} is no export: it has neither {EXPORT_FILE} (LiteRT, ONNX) nor a SavedModel. {error}"
        ) from error
    return read_portable(os.path.join(version, "assets"))


def _opened(path: str, folder: PortableFolder, wanted: Wanted) -> tuple[Any, Runtime]:
    """Returns the engine of an export, and its runtime."""
    check_runtime(folder, wanted)
    if folder.format != SAVED_MODEL:
        return open_engine(folder, wanted)
    if wanted.num_threads is not None:
        raise InputError("num_threads is for LiteRT and ONNX. For a SavedModel call tf.config.threading.")
    if not RUNTIMES["tensorflow"].is_installed():
        raise InputError(f"{path} is a SavedModel, which needs TensorFlow. Install it, or export with --format=onnx.")
    from keras_bert.serving.portable.saved_model_engine import SavedModelEngine

    runtime = Runtime("tensorflow", folder.weights, None, "tensorflow is the only runtime of SavedModels")
    return SavedModelEngine(os.path.dirname(folder.path)), runtime
