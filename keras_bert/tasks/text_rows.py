"""Texts -> `TokenRows`: the one way in which texts are tokenised, cut, and joined to rows; tokens with offsets."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import checked_text, iterate_column
from keras_bert.records.token_rows import TokenRows, cut_overlapping, join_segments
from keras_bert.tokenization.token_lists import FastForm, PythonForm, TokenLists

# The number of rows whose texts are tokenised at once.
ROWS_AT_ONCE = 1024
# The number of texts that are tokenised at once with offsets: enough for the tokenizer's full speed.
_TEXTS_AT_ONCE = 512
_SHORTEST_ROW = 3  # [CLS], a token, [SEP]
# The size of the cache of tokenizers: a run creates several models with one vocabulary.
_MOST_TOKENIZERS = 4
_tokenizers: dict[tuple[str, bool, bool], FastForm] = {}
_changing_tokenizers = threading.Lock()  # another thread may remove what this one is about to return


class TextRows(NamedTuple):
    """The rows of N texts, or of N pairs of texts.

    Attributes:
        rows: R token rows.
        is_cut: bool `(R,)`, true for rows that are shorter than their texts.
        texts: int64 `(R,)`, the number of the text of each row, in ascending order.
    """

    rows: TokenRows
    is_cut: np.ndarray
    texts: np.ndarray


def text_rows(
    texts: Iterable[str],
    second_texts: Iterable[str] | None,
    tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> TextRows:
    """Makes rows [CLS] a [SEP] of N texts, or [CLS] a [SEP] b [SEP] of pairs, by a `GraphForm` or a `PythonForm`.

    Rows of more than `max_seq_length` tokens are cut, see `join_segments`. With `doc_stride`, single texts that are too
    long become several rows instead, which begin this many tokens apart.

    Raises `InputError` if `max_seq_length` leaves no room for special tokens.
    """
    vocabulary = tokenizer.vocabulary
    segments: list = [token_lists(column, tokenizer.tokenize) for column in (texts, second_texts) if column is not None]
    numbers = np.arange(len(segments[0].lengths))
    if doc_stride and second_texts is None:
        room = max_seq_length - vocabulary.special_tokens.num_special(1)
        windows, numbers = cut_overlapping(segments[0], room, doc_stride)
        segments = [windows]
    return TextRows(*join_segments(segments, max_seq_length, vocabulary), numbers)


def each_text(texts: Any) -> Iterator[str]:
    """Yields the texts of a column. Raises `InputError` for what is no text."""
    for number, text in enumerate(iterate_column(texts, "texts"), start=1):
        yield checked_text(text, f"text {number}")


def in_parts(items: Iterable, size: int) -> Iterator[list]:
    """Yields lists of at most `size` items."""
    items = iter(items)
    return iter(lambda: list(itertools.islice(items, size)), [])


def token_lists(texts: Iterable[str], tokenize: Callable[[list[str]], Any]) -> TokenLists:
    """Returns the tokens of any number of texts; `tokenize` is a method of a `GraphForm` or a `PythonForm`."""
    return TokenLists.concatenate([TokenLists.of(tokenize(part)) for part in in_parts(texts, ROWS_AT_ONCE)])


def parts_of(num_examples: int, rows_per_example: int = 1, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Yields slices that cover all examples in order, each of at most `rows_at_once` rows.

    >>> list(parts_of(5, rows_at_once=2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    at_once = max(1, rows_at_once // rows_per_example)
    for first in range(0, num_examples, at_once):
        yield slice(first, min(first + at_once, num_examples))


def tokenizer_of(model) -> Any:
    """Returns the tokenizer of a model for many texts; all models with the same vocabulary share it.

    Exports are run without TensorFlow, so theirs is a `PythonForm`. Raises `InputError` without a vocabulary.
    """
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise InputError(
            "The model has no vocabulary. Texts need the vocabulary of the model: load it with from_pretrained, or set "
            "model.vocabulary = load_vocabulary(path)."
        )
    if hasattr(model, "engine"):
        return PythonForm(tokenizer)
    key = (tokenizer.sha256, tokenizer.do_lower_case, tokenizer.special_tokens.longer_keeps_more)
    with _changing_tokenizers:
        if key not in _tokenizers:
            while len(_tokenizers) >= _MOST_TOKENIZERS:
                del _tokenizers[next(iter(_tokenizers))]
            _tokenizers[key] = FastForm(tokenizer)
        return _tokenizers[key]


def checked_length(config, max_seq_length: int | None) -> int:
    """Returns the largest number of tokens in a row, by default of positions. Raises `InputError` for more."""
    longest = config.max_sequence_length if max_seq_length is None else max_seq_length
    if max_seq_length is not None or longest < _SHORTEST_ROW:
        config.check_sequence_length(longest)
        check_whole("max_seq_length", longest, at_least=_SHORTEST_ROW)
    return longest


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """The concatenated tokens of N texts.

    Attributes:
        ids: int32 (tokens,), without [CLS] and [SEP].
        starts, ends: int32 (tokens,). Token i comes from the characters `starts[i]:ends[i]` of its text (a `str`).
        splits: int64 (N + 1,). The tokens of text n are at `splits[n]:splits[n + 1]`.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    splits: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, int64 (N,)."""
        return np.diff(self.splits)

    def offsets(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the starts and ends of the tokens of one text."""
        tokens = slice(self.splits[number], self.splits[number + 1])
        return self.starts[tokens], self.ends[tokens]


def tokenize_texts(texts: Sequence[str], tokenizer) -> TokenizedTexts:
    """Tokenises N texts with offsets, by a `GraphForm` or a `PythonForm`.

    Example:
        tokenize_texts(["é the", ""], tokenizer)
        -> TokenizedTexts(ids=[5, 6], starts=[0, 2], ends=[1, 5], splits=[0, 2, 2])
    """
    parts = []
    for first in range(0, len(texts), _TEXTS_AT_ONCE):
        data = [text.encode("utf-8") for text in texts[first : first + _TEXTS_AT_ONCE]]
        (ids, lengths), starts, ends = map(TokenLists.of, tokenizer.tokenize_with_offsets(data))
        parts.append((ids, *_in_characters((starts.values, ends.values), data, lengths), lengths))
    if not parts:
        empty = np.zeros(0, np.int32)
        return TokenizedTexts(empty, empty, empty, np.zeros(1, np.int64))
    ids, starts, ends, lengths = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TokenizedTexts(ids, starts, ends, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def _in_characters(offsets: Iterable[np.ndarray], data: list[bytes], num_tokens: np.ndarray) -> list[np.ndarray]:
    """Returns byte offsets of all tokens as character offsets, int32 (tokens,) each."""
    all_bytes = np.frombuffer(b"".join(data), np.uint8)
    # In UTF-8 the bytes 10xxxxxx continue a character.
    characters_before = np.concatenate([[0], np.cumsum(all_bytes & 0xC0 != 0x80)])
    text_starts = np.concatenate([[0], np.cumsum([len(text) for text in data])])[:-1]
    text_of_token = np.repeat(text_starts, num_tokens)
    first_characters = characters_before[text_of_token]
    return [(characters_before[text_of_token + one] - first_characters).astype(np.int32) for one in offsets]
