"""Asks an exported model as a server does: with TensorFlow and the text operations, without model code."""

import glob
import importlib.util
import os
from collections.abc import Sequence

import numpy as np

from keras_bert.program.columns import checked_column
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.answers import can_read, read_answers
from keras_bert.tf_serving.versions import find_version_folder
from keras_bert.tf_serving.wire.strings import string_to_bytes

# The inputs of our exports, each in the order in which people give them.
QUESTIONS = (("text",), ("text", "text_b"), ("question", "context"), ("prompt", "choices"))
# The column that holds several strings for each row.
CHOICES = "choices"
_MAY_BE_LEFT_OUT = "text_b"


class SavedModel:
    """A loaded model that `export_for_serving` wrote.

    Args:
        path: a SavedModel, or a folder of versions, of which the highest is loaded.

    Attributes:
        folder: the folder of the loaded SavedModel.
        columns: its inputs: `text`, or `text` and `text_b`, `question` and `context`, `prompt` and `choices`.

    Raises:
        InputError: there is no SavedModel, it is damaged, or `export_for_serving` did not write it.

    Example:
        model = SavedModel("saved_models/sentiment")
        print(model.ask(["a wonderful film"])[0])
        # positive  0.9312
        # negative  0.0688
    """

    def __init__(self, path: str | os.PathLike):
        self.folder = find_version_folder(path)
        # Imported here because it takes seconds.
        import tensorflow as tf

        load_text_operations()
        try:
            # A signature works only as long as the loaded object exists, so keep the object.
            self._loaded = tf.saved_model.load(self.folder)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(f"Cannot load the SavedModel {self.folder}: {_reason(error)}") from error
        self._signature = self._loaded.signatures.get("serving_default")
        inputs, outputs = self._names()
        self.columns: Sequence[str] = next((columns for columns in QUESTIONS if set(columns) == inputs), ())
        if not self.columns or not can_read(outputs):
            raise InputError(
                f"{self.folder} is a SavedModel, but not one that takes text and was written by export_for_serving. "
                f"Its serving_default takes {_listed(inputs)} and gives {_listed(outputs)}."
            )

    def ask(self, *columns: Sequence) -> list:
        """Returns one answer for each row; see `answers.py`.

        Args:
            *columns: the inputs named by the attribute `columns`, N strings each (`choices`: N lists of strings). Bytes
                need not be UTF-8. `text_b` may be missing, None or empty for a single text. A single string is a list
                of one.

        Raises:
            InputError: the model takes other columns, their lengths differ, or a value is not a string.
        """
        import tensorflow as tf

        if len(columns) == 2 and columns[1] is None:
            columns = columns[:1]
        columns = [list(checked_column(column, "texts")) for column in columns]
        if len(columns) == 2 and len(self.columns) == 1:
            raise InputError(f"{self.folder} takes single texts, and a second text was given.")
        if len(columns) == 1 and self.columns[-1] == _MAY_BE_LEFT_OUT:
            columns = [columns[0], [""] * len(columns[0])]
        if len(columns) != len(self.columns):
            raise InputError(f"{self.folder} takes {_listed(self.columns)}. Received {len(columns)} column(s).")
        first, last = len(columns[0]), len(columns[-1])
        if first != last:
            raise InputError(f"There are {first} first and {last} second texts. Give as many of each.")
        asked = dict(zip(self.columns, columns, strict=True))
        outputs = self._signature(**{name: tf.constant(_as_array(name, values)) for name, values in asked.items()})
        return read_answers({name: values.numpy() for name, values in outputs.items()}, asked)

    def _names(self) -> tuple[set[str], set[str]]:
        if self._signature is None:
            return set(), set()
        return set(self._signature.structured_input_signature[1]), set(self._signature.structured_outputs)


def load_text_operations() -> None:
    """Registers the text operations with TensorFlow, without importing `tensorflow_text`, which needs Keras.

    Without TensorFlow Text it does nothing: models of `core_operations` work, and others do not load.
    """
    import tensorflow as tf

    specification = importlib.util.find_spec("tensorflow_text")
    for folder in (specification and specification.submodule_search_locations) or ():
        for library in sorted(glob.glob(os.path.join(folder, "python", "ops", "*.so"))):
            tf.load_op_library(library)


def _as_array(name: str, values: Sequence) -> np.ndarray:
    """Returns bytes `[N]`, or for choices `[N, C]`, padded with empty strings."""
    if name != CHOICES:
        return np.array([string_to_bytes(value) for value in values], object)
    wrong = next((row for row in values if isinstance(row, (str, bytes))), None)
    if wrong is not None:
        raise InputError(f"Choices are a list of strings for each prompt. Received: {wrong!r:.100}")
    most = max((len(row) for row in values), default=0)
    rows = [[string_to_bytes(text) for text in row] + [b""] * (most - len(row)) for row in values]
    return np.array(rows, object).reshape(len(rows), most)


def _listed(names) -> str:
    return ", ".join(sorted(names) if isinstance(names, set) else names) or "nothing"


def _reason(error: Exception) -> str:
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if "Op type not registered" in line and importlib.util.find_spec("tensorflow_text") is None:
        return f"{line} Its tokenizer needs TensorFlow Text, which is not installed. Or export it with core_operations."
    return line
