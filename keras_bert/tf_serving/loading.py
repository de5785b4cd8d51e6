"""Loads SavedModels into this process, with the operations of TensorFlow Text."""

import glob
import importlib.util
import os
from typing import Any

from keras_bert.program.errors import InputError


def load_saved_model(folder: str | os.PathLike) -> Any:
    """Returns the loaded SavedModel of a version; its `signatures` work only as long as it exists.

    Raises `InputError` if it is damaged, or needs TensorFlow Text, which is not installed.
    """
    import tensorflow as tf

    load_text_operations()
    try:
        return tf.saved_model.load(os.fspath(folder))
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise InputError(f"Cannot load the SavedModel {os.fspath(folder)}: {_reason(error)}") from error


def load_text_operations() -> None:
    """Registers TensorFlow Text's operations, if it is there, without `import tensorflow_text`, which needs Keras."""
    import tensorflow as tf

    specification = importlib.util.find_spec("tensorflow_text")
    for folder in (specification and specification.submodule_search_locations) or ():
        for library in sorted(glob.glob(os.path.join(folder, "python", "ops", "*.so"))):
            tf.load_op_library(library)


def _reason(error: Exception) -> str:
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if "Op type not registered" in line and importlib.util.find_spec("tensorflow_text") is None:
        return f"{line} Its tokenizer needs TensorFlow Text, which is not installed. Or export it with core_operations."
    return line[:300]
