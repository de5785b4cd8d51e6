"""Asks an exported model. It needs TensorFlow and the text operations, no model code: as a server does."""

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

# What exports of ours take: the columns of a question, in the order in which people give them.
QUESTIONS = (("text",), ("text", "text_b"), ("question", "context"), ("prompt", "choices"))
# The column that holds several strings for each row.
CHOICES = "choices"
_MAY_BE_LEFT_OUT = "text_b"


class SavedModel:
    """A model that `export_for_serving` wrote, loaded for asking.

    Args:
        path: a SavedModel, or the folder of its versions, of which the highest is taken.

    Attributes:
        folder: what was loaded.
        columns: what it takes: `text`, or `text` and `text_b`, `question` and `context`, `prompt` and `choices`.

    Raises:
        InputError: there is no SavedModel, it is damaged, or it answers other questions than ours do.

    Example:
        >>> model = SavedModel("saved_models/sentiment")
        >>> print(model.ask(["a wonderful film"])[0])
          positive  0.9312
          negative  0.0688
    """

    def __init__(self, path: str | os.PathLike):
        self.folder = find_version_folder(path)
        # Only now, because it takes seconds.
        import tensorflow as tf

        load_text_operations()
        try:
            # The signature dies with the object that it belongs to, so that is kept.
            self._loaded = tf.saved_model.load(self.folder)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(f"Cannot load the SavedModel {self.folder}: {_first_line(error)}") from error
        self._signature = self._loaded.signatures.get("serving_default")
        inputs, outputs = self._names()
        self.columns = next((columns for columns in QUESTIONS if set(columns) == inputs), ())
        if not self.columns or not can_read(outputs):
            raise InputError(
                f"{self.folder} is a SavedModel, but not one that takes text and was written by export_for_serving. "
                f"Its serving_default takes {_listed(inputs)} and gives {_listed(outputs)}."
            )

    def ask(self, *columns: Sequence) -> list:
        """Returns one answer for each row; see `answers.py`.

        Args:
            *columns: those of `columns`, N strings each, which may be bytes that need not be UTF-8; of choices, N lists
                of strings. `text_b` may be left out, or None; an empty second text means a single text. A single string
                is a list of one.

        Raises:
            InputError: the model takes other columns, they are not equally long, or something is no string.
        """
        import tensorflow as tf

        if len(columns) == 2 and columns[1] is None:
            columns = columns[:1]
        columns = [list(checked_column(column, "texts")) for column in columns]
        if len(columns) == 2 and len(self.columns) == 1:
            raise InputError(f"{self.folder} takes single texts, and a second text was given.")
        if len(columns) == 1 and self.columns[-1] == _MAY_BE_LEFT_OUT:
            columns = (columns[0], [""] * len(columns[0]))
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
    """Registers the text operations with TensorFlow.

    Importing `tensorflow_text` does it too, but needs Keras.

    Raises:
        InputError: TensorFlow Text is not installed.
    """
    import tensorflow as tf

    specification = importlib.util.find_spec("tensorflow_text")
    if specification is None:
        raise InputError("TensorFlow Text is not installed; the tokenizer inside the model needs its operations.")
    for folder in specification.submodule_search_locations:
        for library in sorted(glob.glob(os.path.join(folder, "python", "ops", "*.so"))):
            tf.load_op_library(library)


def _as_array(name: str, values: Sequence) -> np.ndarray:
    """Returns bytes `[N]`, or of choices `[N, C]`, filled up with empty ones."""
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


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
