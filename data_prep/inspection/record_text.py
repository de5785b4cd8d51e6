"""BERT's features in matching shapes, and one record as text that a person can read."""

import itertools
import textwrap
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from keras_bert.records import features
from keras_bert.records.features import END_POSITIONS, LABEL_IDS, START_POSITIONS, numbers_in_record
from keras_bert.tokenization.tokenizer import TokenTable

_DTYPES = {feature.name: feature.dtype for feature in features.pretraining_features(1, 1, 2)}
_WIDTH = 118
_MOST_VALUES = 20
_NEXT_SENTENCE = {0: "0, the second segment follows the first", 1: "1, the second segment does not follow the first"}


class BertRows(NamedTuple):
    """B rows of S columns, P predictions and K sequences. P or K is 0 where the records have none.

    `input_ids`, `input_mask`, `segment_ids` (B, S) int64; `positions`, `labels` (B, P) int64 and `weights` (B, P)
    float32; `next_labels` (B, K) int64 and `next_weights` (B, K) float32.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    next_labels: np.ndarray
    next_weights: np.ndarray


def is_bert_feature(name: str, values: np.ndarray) -> bool:
    """Returns whether the name is one of BERT's records, and the values have its type."""
    return name in _DTYPES and values.dtype == _DTYPES[name]


def to_bert_rows(arrays: Mapping[str, np.ndarray]) -> BertRows | None:
    """Returns the rows, or None when the records have no token ids. `arrays` is name -> (B, length), of any features.

    Lists of the wrong type count as missing. Without a mask, an id other than 0 is a token. Without weights, a position
    other than 0 is predicted.
    """
    arrays = {name: values for name, values in arrays.items() if is_bert_feature(name, values)}
    ids = arrays.get(features.INPUT_IDS)
    if ids is None or not ids.shape[1]:
        return None

    def get(name: str, default: np.ndarray) -> np.ndarray:
        """Returns an array in the shape of the default."""
        values = arrays.get(name, default)[:, : default.shape[1]]
        return np.pad(values, [(0, 0), (0, default.shape[1] - values.shape[1])])

    none = np.zeros((len(ids), 0), np.int64)
    positions = arrays.get(features.MASKED_LM_POSITIONS, none) if features.MASKED_LM_IDS in arrays else none
    next_labels = arrays.get(features.NEXT_SENTENCE_LABELS, none)
    return BertRows(
        input_ids=ids,
        input_mask=get(features.INPUT_MASK, (ids != 0).astype(np.int64)),
        segment_ids=get(features.SEGMENT_IDS, np.zeros_like(ids)),
        positions=positions,
        labels=get(features.MASKED_LM_IDS, positions),
        weights=get(features.MASKED_LM_WEIGHTS, (positions > 0).astype(np.float32)),
        next_labels=next_labels,
        next_weights=get(features.NEXT_SENTENCE_WEIGHTS, np.ones(next_labels.shape, np.float32)),
    )


def show_record(serialized: bytes, vocabulary: TokenTable | None = None) -> str:
    """Returns a record as lines of text, predicted tokens with their labels in round brackets.

    `[MASK](brown)` is masked, `dog(dog)` kept and `cat(dog)` replaced by another token. Each segment begins a line, a
    packed row shows its sequences one after the other, and padding is only counted. Other features are listed below.

    Args:
        serialized: a `tf.train.Example` with the names of google-research/bert or TF Model Garden.
        vocabulary: without it, ids stand for the tokens.

    Raises:
        InputError: the bytes are not a `tf.train.Example`.

    Example:
        A  [CLS] the quick [MASK](brown) fox [SEP]
        B  a lazy dog(dog) [SEP]
        next sentence  1, the second segment does not follow the first
        padding        118 of 128 columns
    """
    lists = dict(sorted(numbers_in_record(serialized).items()))
    rows = to_bert_rows({name: values[None] for name, values in lists.items()})
    lines, notes = [], []
    if rows is not None:
        lists = {name: values for name, values in lists.items() if not is_bert_feature(name, values)}
        texts = [_token_text(number, vocabulary) for number in rows.input_ids[0].tolist()]
        answer = _answer(lists, texts)
        outside = _mark_predictions(rows, texts, vocabulary)
        if len(lists.get(LABEL_IDS, ())) == len(texts) > 1:  # tagging: a label for each token
            texts = [f"{text}/{label}" for text, label in zip(texts, lists.pop(LABEL_IDS).tolist(), strict=True)]
        lines = _sequences(rows, texts)
        num_padding = int((rows.input_mask[0] == 0).sum())
        if num_padding:
            notes.append(("padding", f"{num_padding} of {len(texts)} columns"))
        notes += [("predicted outside", place) for place in outside]
        notes += [("answer", answer)] if answer else []
    notes += [(name, _first_values(values)) for name, values in lists.items()]
    width = max((len(name) for name, _ in notes), default=0)
    return "\n".join([*lines, *(f"{name:{width}}  {value}" for name, value in notes)])


def _token_text(number: int, vocabulary: TokenTable | None) -> str:
    """Returns a token as text: its id without a vocabulary, ?ID if the vocabulary does not have it."""
    if vocabulary is None:
        return str(number)
    return vocabulary.tokens[number] if 0 <= number < len(vocabulary) else f"?{number}"


def _mark_predictions(rows: BertRows, texts: list[str], vocabulary: TokenTable | None) -> list[str]:
    """Writes the labels behind the tokens. Returns, as text, those whose position is not a token of the row."""
    outside = []
    for position, label, weight in zip(rows.positions[0], rows.labels[0], rows.weights[0], strict=True):
        if not weight:
            continue
        mark = f"({_token_text(int(label), vocabulary)}{'' if weight == 1 else f' * {weight:g}'})"
        if 0 <= position < len(texts) and rows.input_mask[0, position]:
            texts[position] += mark
        else:
            outside.append(f"position {position} {mark}")
    return outside


def _sequences(rows: BertRows, texts: list[str]) -> list[str]:
    """Returns the lines of all sequences of a row, a new line where the segment changes."""
    mask, segments = rows.input_mask[0], rows.segment_ids[0].tolist()
    numbers = [number for number in np.unique(mask).tolist() if number]
    indent = "  " if len(numbers) > 1 else ""
    lines = []
    for place, number in enumerate(numbers):
        columns = np.flatnonzero(mask == number).tolist()
        if len(numbers) > 1:
            lines.append(f"sequence {number}, {len(columns)} tokens")
        for segment, group in itertools.groupby(columns, key=segments.__getitem__):
            lines += textwrap.wrap(
                " ".join(texts[column] for column in group),
                _WIDTH,
                initial_indent=f"{indent}{'AB'[segment] if segment in (0, 1) else segment}  ",
                subsequent_indent=f"{indent}   ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        if place < rows.next_labels.shape[1] and rows.next_weights[0, place]:
            label = int(rows.next_labels[0, place])
            lines.append(f"{indent}next sentence  {_NEXT_SENTENCE.get(label, label)}")
    return lines


def _answer(lists: dict[str, np.ndarray], texts: list[str]) -> str:
    """Returns the answer that the positions of a SQuAD record point at; "" for other records."""
    positions = [lists.get(name, np.zeros(0)) for name in (START_POSITIONS, END_POSITIONS)]
    if any(values.dtype != np.int64 or not len(values) for values in positions):
        return ""
    start, end = positions[0][0], positions[1][0]
    return " ".join(texts[max(start, 0) : end + 1])


def _first_values(values: np.ndarray) -> str:
    """Returns the first values of a list: `0 0 1 ... (128 values)`."""
    shown = " ".join(
        repr(value[:80]) if isinstance(value, bytes) else f"{value:g}" if isinstance(value, float) else str(value)
        for value in values[:_MOST_VALUES].tolist()
    )
    return shown if len(values) <= _MOST_VALUES else f"{shown} ... ({len(values)} values)"
