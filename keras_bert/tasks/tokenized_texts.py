"""Tokenises many texts into flat arrays of tokens with character offsets, for tasks that locate spans in texts."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert.tokenization.token_lists import TokenLists

# The number of texts that are tokenised at once: enough for the tokenizer's full speed.
_BATCH = 512


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
    """Tokenises texts with offsets.

    Args:
        texts: N strings.
        tokenizer: a `GraphForm` or a `PythonForm`.

    Example:
        tokenize_texts(["é the", ""], tokenizer)
        -> TokenizedTexts(ids=[5, 6], starts=[0, 2], ends=[1, 5], splits=[0, 2, 2])
    """
    parts = []
    for first in range(0, len(texts), _BATCH):
        data = [text.encode("utf-8") for text in texts[first : first + _BATCH]]
        (ids, lengths), starts, ends = map(TokenLists.of, tokenizer.tokenize_with_offsets(data))
        to_characters = _character_counter(data, lengths)
        parts.append((ids, to_characters(starts.values), to_characters(ends.values), lengths))
    if not parts:
        empty = np.zeros(0, np.int32)
        return TokenizedTexts(empty, empty, empty, np.zeros(1, np.int64))
    ids, starts, ends, lengths = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TokenizedTexts(ids, starts, ends, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def _character_counter(data: list[bytes], num_tokens: np.ndarray):
    """Returns a function from the byte offsets of all tokens to their character offsets, int32 (tokens,) both."""
    all_bytes = np.frombuffer(b"".join(data), np.uint8)
    # In UTF-8 the bytes 10xxxxxx continue a character.
    characters_before = np.concatenate([[0], np.cumsum(all_bytes & 0xC0 != 0x80)])
    text_starts = np.concatenate([[0], np.cumsum([len(text) for text in data])])[:-1]
    text_of_token = np.repeat(text_starts, num_tokens)

    def to_characters(offsets: np.ndarray) -> np.ndarray:
        found = characters_before[text_of_token + offsets] - characters_before[text_of_token]
        return found.astype(np.int32)

    return to_characters
