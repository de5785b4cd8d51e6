"""The texts that show an export the ranges of its values: reads and checks them, and makes rows of tokens."""

from collections.abc import Sequence

import numpy as np

from keras_bert.embeddings.vector_files import read_texts
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.segment_rows import join_segments
from keras_bert.tokenization.token_lists import PythonForm

_FEWEST, _MOST = 32, 256
_WANTED = f"Give {_FEWEST} or more different texts, like those that the model will get; 100 are better."


def read_calibration_file(path: str) -> list[str | list[str]]:
    """Returns the text of each line; a tab separates the two texts of a pair.

    Raises:
        InputError: the file cannot be read.
    """
    return [line.split("\t") if "\t" in line else line for line in read_texts(path)]


def check_calibration(format: str, weights: str | None, texts: Sequence | None) -> None:
    """Raises `InputError` if texts are given for other exports, or are too few, empty, or no texts or pairs of them."""
    if texts is None:
        return
    if (format, weights) != ("onnx", "int8"):
        raise InputError(
            f"calibration is for format=onnx with weights=int8. Received: format={format!r} with weights={weights!r}. "
            "Leave calibration out, or change the others."
        )
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InputError(f"calibration must be a list of texts. Received: {texts!r:.100}. {_WANTED}")
    for number, text in enumerate(texts, start=1):
        parts = [text] if isinstance(text, str) else text
        if not isinstance(parts, Sequence) or len(parts) not in (1, 2) or not all(isinstance(p, str) for p in parts):
            raise InputError(f"Text {number} of calibration must be a text or a pair of texts. Received: {text!r:.100}")
        if not all(part.strip() for part in parts):
            raise InputError(f"Text {number} of calibration is empty. Leave it out. {_WANTED}")
    different = len({text if isinstance(text, str) else tuple(text) for text in texts})
    if different < _FEWEST:
        raise InputError(f"calibration has {different} different text{'s' * (different != 1)}. {_WANTED}")


def calibration_features(model, tokenizer, texts: Sequence, max_seq_length: int) -> list[dict[str, np.ndarray]]:
    """Returns the features of each text or pair: a batch of one row, int32.

    Of more than 256 texts, so many are taken, at equal distances.
    """
    form, found = PythonForm(tokenizer), []
    for number in np.unique(np.linspace(0, len(texts) - 1, min(len(texts), _MOST)).astype(int)):
        parts = [texts[number]] if isinstance(texts[number], str) else texts[number]
        rows, _ = join_segments([form.tokenize([part]) for part in parts], max_seq_length, form.vocabulary)
        row = rows.batch(np.arange(1))
        if len(model.feature_axes) == 3:  # a question with one choice
            row = {name: values[:, None] for name, values in row.items()}
        row[features.MASKED_LM_POSITIONS] = np.arange(row[features.INPUT_IDS].shape[-1], dtype=np.int32)[None]
        found.append({name: row[name] for name in model.feature_names})
    return found
