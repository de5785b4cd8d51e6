"""The tokens of many texts as NumPy arrays, and tokenizers that return them without TensorFlow."""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.tokenization.tokenizer import GraphForm, Tokenizer, TokenTable

# A call of the graph takes as long as Python needs for so many characters, and its construction for so many.
_FEW_CHARACTERS, _WORTH_A_GRAPH = 2_000, 2_000_000


class TokenLists(NamedTuple):
    """A list of numbers for each of N texts.

    Attributes:
        values: int32 `(T,)`, the numbers of all texts, one text after another.
        lengths: int64 `(N,)`, how many of them each text has.

    Example:
        [[5, 6], [], [7]] is TokenLists(values=[5, 6, 7], lengths=[2, 0, 1])
    """

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, tokens) -> "TokenLists":
        """Returns the tokens of a `GraphForm`, an eager RaggedTensor `(N, None)`; `TokenLists` are returned unchanged.

        So code on NumPy arrays takes a `GraphForm` and a `PythonForm` alike.
        """
        return tokens if isinstance(tokens, cls) else cls(tokens.values.numpy(), tokens.row_lengths().numpy())

    @classmethod
    def concatenate(cls, parts: Sequence["TokenLists"]) -> "TokenLists":
        """Joins the texts of several `TokenLists`."""
        empty = cls.joined([])
        return cls(*(np.concatenate(column) for column in zip(empty, *parts, strict=True)))

    @classmethod
    def joined(cls, lists: Sequence[Sequence[int]]) -> "TokenLists":
        """Returns Python lists as `TokenLists`."""
        lengths = np.array([len(numbers) for numbers in lists], np.int64)
        return cls(np.array([number for numbers in lists for number in numbers], np.int32), lengths)

    @property
    def splits(self) -> np.ndarray:
        """int64 `(N + 1,)`: text n has the values `splits[n]:splits[n + 1]`."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def firsts(self) -> np.ndarray:
        """int64 `(N,)`, where the values of each text begin."""
        return self.splits[:-1]

    def to_list(self) -> list[list[int]]:
        """Returns a list of ints for each text."""
        return [part.tolist() for part in np.split(self.values, self.splits[1:-1])] if len(self.lengths) else []


class PythonForm:
    """The methods of a `GraphForm` in Python: they return `TokenLists` of the same numbers, and need no TensorFlow."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer

    @property
    def vocabulary(self) -> TokenTable:
        """The tokens, in the form that models store."""
        return self._tokenizer.vocabulary

    def tokenize(self, texts: Sequence[str | bytes]) -> TokenLists:
        """Returns the ids of each text."""
        return TokenLists.joined([self._tokenizer.encode(text) for text in texts])

    def tokenize_words(self, words: Sequence[str | bytes]) -> TokenLists:
        """Returns the ids of words as inside a text."""
        return TokenLists.joined([self._tokenizer.encode_word(word) for word in words])

    def tokenize_with_offsets(self, texts: Sequence[str | bytes]) -> tuple[TokenLists, TokenLists, TokenLists]:
        """Returns ids, starts and ends; offsets are in bytes."""
        found = []
        for text in texts:
            text = text.decode("utf-8", "ignore") if isinstance(text, bytes) else text
            ids, starts, ends = self._tokenizer.tokenize_with_offsets(text)
            to_bytes = _byte_counter(text)
            found.append((ids, to_bytes(starts), to_bytes(ends)))
        ids, starts, ends = zip(*found, strict=True) if found else ((), (), ())
        return TokenLists.joined(ids), TokenLists.joined(starts), TokenLists.joined(ends)


class FastForm(PythonForm):
    """As `PythonForm`, but the graph computes many texts: it is several times faster, and takes seconds to build."""

    def __init__(self, tokenizer: Tokenizer):
        super().__init__(tokenizer)
        self._python = PythonForm(tokenizer)
        self._graph: GraphForm | None = None
        self._num_characters = 0
        self._making_graph = threading.Lock()

    def tokenize(self, texts: Sequence[str | bytes]) -> TokenLists:
        return TokenLists.of(self._form_for(texts).tokenize(texts))

    def tokenize_words(self, words: Sequence[str | bytes]) -> TokenLists:
        return TokenLists.of(self._form_for(words).tokenize_words(words))

    def tokenize_with_offsets(self, texts: Sequence[str | bytes]) -> tuple[TokenLists, TokenLists, TokenLists]:
        ids, starts, ends = map(TokenLists.of, self._form_for(texts).tokenize_with_offsets(texts))
        return ids, starts, ends

    def _form_for(self, texts: Sequence[str | bytes]) -> GraphForm | PythonForm:
        """Returns the graph if it is worth its while for these texts, the ones before counted."""
        size = sum(map(len, texts))
        self._num_characters += size
        if size < _FEW_CHARACTERS or self._num_characters < _WORTH_A_GRAPH:
            return self._python
        with self._making_graph:  # other threads wait for it instead of making one each
            if self._graph is None:
                self._graph = self._tokenizer.graph()
        return self._graph


def _byte_counter(text: str) -> Callable[[Sequence[int]], Sequence[int]]:
    """Returns a function from positions in characters to positions in bytes of UTF-8."""
    if text.isascii():
        return lambda positions: positions
    bytes_before = [0]
    for character in text:
        bytes_before.append(bytes_before[-1] + len(character.encode("utf-8")))
    return lambda positions: [bytes_before[position] for position in positions]
