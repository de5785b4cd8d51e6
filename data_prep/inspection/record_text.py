"""One record as text that a person can read."""

import textwrap
from collections.abc import Mapping

import numpy as np

from data_prep.inspection.bert_features import BertRows, bert_columns, to_bert_rows
from data_prep.inspection.parsed_records import Column, find_schema, parse_batch
from keras_bert.tokenization.tokenizer import TokenTable

_WIDTH = 118
_MOST_VALUES = 20
_SEGMENT_NAMES = "ABCDEFGH"
_NEXT_SENTENCE = {0: "0, the second segment follows the first", 1: "1, the second segment does not follow the first"}
# One label for each token, as records for tagging have it.
_TOKEN_LABELS = ("label_ids", "labels")


def show_record(serialized: bytes, vocabulary: TokenTable | None = None, *, join_pieces: bool = False) -> str:
    """Returns a record as lines of text, predicted tokens with their labels in round brackets.

    `[MASK](brown)` is masked, `dog(dog)` kept and `cat(dog)` replaced by another token. Each segment begins a line, a
    packed row shows its sequences one after the other, and padding is counted only. Features that are not BERT's are
    listed below.

    Args:
        serialized: a `tf.train.Example` (`parsed_records` lists the tools whose names are known).
        vocabulary: without it, ids stand for the tokens.
        join_pieces: write `embedding` for `em ##bed ##ding`, where none of the pieces is predicted.

    Raises:
        InputError: the bytes are no `tf.train.Example`.

    Example:
        A  [CLS] the quick [MASK](brown) fox [SEP]
        B  a lazy dog(dog) [SEP]
        next sentence  1, the second segment does not follow the first
        padding        118 of 128 columns
    """
    columns = parse_batch([serialized], find_schema([serialized]))
    rows = to_bert_rows(columns)
    _, others = bert_columns(columns)
    notes = []
    lines = []
    if rows is not None:
        texts = [token_text(number, vocabulary) for number in rows.input_ids[0].tolist()]
        stray = _mark_predictions(rows, texts, vocabulary)
        _mark_token_labels(others, texts)
        lines = _sequences(rows, texts, join_pieces)
        num_padding = int((rows.input_mask[0] == 0).sum())
        if num_padding:
            notes.append(("padding", f"{num_padding} of {len(texts)} columns"))
        notes += [("predicted outside", place) for place in stray]
        notes += _answer(others, rows, vocabulary)
    notes += [(name, _short(column)) for name, column in others.items() if not _is_token_labels(name, column, rows)]
    width = max((len(name) for name, _ in notes), default=0)
    return "\n".join([*lines, *(f"{name:{width}}  {value}" for name, value in notes)])


def token_text(number: int, vocabulary: TokenTable | None) -> str:
    """Returns a token as text: its id without a vocabulary, ?ID if the vocabulary does not have it."""
    if vocabulary is None:
        return str(number)
    return vocabulary.tokens[number] if 0 <= number < len(vocabulary) else f"?{number}"


def _mark_predictions(rows: BertRows, texts: list[str], vocabulary: TokenTable | None) -> list[str]:
    """Writes the labels behind the tokens; returns those whose position is no token of the row, as text."""
    stray = []
    if rows.positions is None:
        return stray
    for position, label, weight in zip(rows.positions[0], rows.labels[0], rows.weights[0], strict=True):
        if not weight:
            continue
        mark = f"({token_text(int(label), vocabulary)}{'' if weight == 1 else f' * {weight:g}'})"
        if 0 <= position < len(texts) and rows.input_mask[0, position]:
            texts[position] += mark
        else:
            stray.append(f"position {position} {mark}")
    return stray


def _is_token_labels(name: str, column: Column, rows: BertRows | None) -> bool:
    return rows is not None and name in _TOKEN_LABELS and column.values.shape[1] == rows.input_ids.shape[1] > 1


def _mark_token_labels(others: Mapping[str, Column], texts: list[str]) -> None:
    for name in _TOKEN_LABELS:
        if name in others and others[name].values.shape[1] == len(texts) > 1:
            texts[:] = [f"{text}/{label}" for text, label in zip(texts, others[name].values[0].tolist(), strict=True)]


def _sequences(rows: BertRows, texts: list[str], join_pieces: bool) -> list[str]:
    numbers = [number for number in np.unique(rows.input_mask[0]).tolist() if number]
    lines = []
    for place, number in enumerate(numbers):
        columns = np.flatnonzero(rows.input_mask[0] == number)
        indent = ""
        if len(numbers) > 1:
            lines.append(f"sequence {number}, {len(columns)} tokens")
            indent = "  "
        lines += [indent + line for line in _segments(rows, columns, texts, join_pieces)]
        if rows.next_labels is not None and place < rows.next_labels.shape[1] and rows.next_weights[0, place]:
            label = int(rows.next_labels[0, place])
            lines.append(f"{indent}next sentence  {_NEXT_SENTENCE.get(label, label)}")
    return lines


def _segments(rows: BertRows, columns: np.ndarray, texts: list[str], join_pieces: bool) -> list[str]:
    """The lines of one sequence, a new one where the segment changes."""
    segments = np.zeros(len(columns), int) if rows.segment_ids is None else rows.segment_ids[0, columns]
    starts = [0, *(np.flatnonzero(np.diff(segments)) + 1).tolist(), len(columns)]
    lines = []
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        words = [texts[column] for column in columns[start:end]]
        number = int(segments[start])
        name = _SEGMENT_NAMES[number] if 0 <= number < len(_SEGMENT_NAMES) else str(number)
        lines += textwrap.wrap(
            " ".join(_join(words) if join_pieces else words),
            _WIDTH,
            initial_indent=f"{name}  ",
            subsequent_indent="   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _join(words: list[str]) -> list[str]:
    """Puts pieces together to words, but leaves those with a label apart.

    >>> _join(["em", "##bed", "##ding", "is", "[MASK](em)", "##bed"])
    ['embedding', 'is', '[MASK](em)', '##bed']
    """
    joined = []
    for word in words:
        is_piece = word.startswith("##") and len(word) > 2 and not word.endswith(")")
        if is_piece and joined and not joined[-1].endswith(")"):
            joined[-1] += word[2:]
        else:
            joined.append(word)
    return joined


def _answer(others: Mapping[str, Column], rows: BertRows, vocabulary: TokenTable | None) -> list[tuple[str, str]]:
    """The answer that start_positions and end_positions point at, as SQuAD's records have them."""
    if not {"start_positions", "end_positions"} <= set(others):
        return []
    positions = [others[name].values.ravel()[:1] for name in ("start_positions", "end_positions")]
    if not all(len(position) and position.dtype == np.int64 for position in positions):
        return []
    start, end = (int(position[0]) for position in positions)
    if start == end == 0:
        return [("answer", "none: it points at [CLS]")]
    if not 0 <= start <= end < rows.input_ids.shape[1]:
        return [("answer", f"none: from {start} to {end} there are no tokens")]
    words = [token_text(number, vocabulary) for number in rows.input_ids[0, start : end + 1].tolist()]
    return [("answer", " ".join(_join(words)))]


def _short(column: Column) -> str:
    """Example: `0 0 1 ... (128 numbers)`"""
    values = column.values[0].tolist()
    shown = " ".join(
        repr(value[:80]) if isinstance(value, bytes) else f"{value:g}" if isinstance(value, float) else str(value)
        for value in values[:_MOST_VALUES]
    )
    return shown if len(values) <= _MOST_VALUES else f"{shown} ... ({len(values)} values)"
