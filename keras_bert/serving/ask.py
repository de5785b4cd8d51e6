"""Asks an exported model. It needs TensorFlow and the text operations, no model code: as a server does."""

import dataclasses
import glob
import importlib.util
import os
from collections.abc import Sequence

from keras_bert.errors import InputError
from keras_bert.serving.versions import find_version_folder

TEXT, TEXT_B = "text", "text_b"


@dataclasses.dataclass(frozen=True)
class Classification:
    """The answer of a classifier: (label, probability), the likeliest first."""

    probabilities: list[tuple[str, float]]

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self.probabilities)
        return "\n".join(f"  {label:<{width}}  {probability:.4f}" for label, probability in self.probabilities)


@dataclasses.dataclass(frozen=True)
class FilledMasks:
    """The answer of a pre-trained model: for each [MASK], (token, probability), the likeliest first."""

    masks: list[list[tuple[str, float]]]

    def __str__(self) -> str:
        if not self.masks:
            return "  (no [MASK] to fill)"
        return "\n".join(
            f"  [MASK] {number}:  " + "   ".join(f"{token} {probability:.4f}" for token, probability in tokens)
            for number, tokens in enumerate(self.masks, start=1)
        )


class SavedModel:
    """A model that `export_for_serving` wrote, loaded for asking.

    Args:
        path: a SavedModel, or the folder of its versions, of which the highest is taken.

    Attributes:
        folder: what was loaded.
        takes_pairs: whether the model was exported for pairs of texts.

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
        self.takes_pairs = TEXT_B in inputs
        if inputs not in ({TEXT}, {TEXT, TEXT_B}) or not ({"labels"} <= outputs or {"tokens"} <= outputs):
            raise InputError(
                f"{self.folder} is a SavedModel, but not one that takes text and was written by export_for_serving. "
                f"Its serving_default takes {_listed(inputs)} and gives {_listed(outputs)}."
            )

    def ask(
        self, texts: Sequence[str | bytes], texts_b: Sequence[str | bytes] | None = None
    ) -> list[Classification | FilledMasks]:
        """Returns one answer for each text, or for each pair; an empty second text means a single text.

        Args:
            texts, texts_b: strings, or bytes that need not be UTF-8.

        Raises:
            InputError: second texts are given to a model of single texts, or are not as many as the first ones.
        """
        import tensorflow as tf

        if texts_b is not None and not self.takes_pairs:
            raise InputError(f"{self.folder} takes single texts, and a second text was given.")
        texts_b = [""] * len(texts) if texts_b is None else texts_b
        if len(texts) != len(texts_b):
            raise InputError(f"There are {len(texts)} first and {len(texts_b)} second texts. Give as many of each.")
        inputs = {TEXT: tf.constant(_bytes(texts), tf.string, shape=[len(texts)])}
        if self.takes_pairs:
            inputs[TEXT_B] = tf.constant(_bytes(texts_b), tf.string, shape=[len(texts)])
        answers = {name: values.numpy() for name, values in self._signature(**inputs).items()}
        if "labels" in answers:
            rows = zip(answers["labels"], answers["probabilities"], strict=True)
            return [Classification(sorted(_pairs(*row), key=lambda pair: -pair[1])) for row in rows]
        rows = zip(answers["tokens"], answers["probabilities"], answers["positions"] >= 0, strict=True)
        return [
            FilledMasks(list(map(_pairs, tokens[is_mask], probabilities[is_mask])))
            for tokens, probabilities, is_mask in rows
        ]

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


def _bytes(texts: Sequence[str | bytes]) -> list[bytes]:
    # Python has the bytes of a command line that are not UTF-8 as surrogates.
    return [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts]


def _pairs(names, probabilities) -> list[tuple[str, float]]:
    return [(name.decode(), float(number)) for name, number in zip(names, probabilities, strict=True)]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
