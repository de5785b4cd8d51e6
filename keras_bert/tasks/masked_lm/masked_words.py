"""Scores masked-LM models by whole words, so that models with different vocabularies can be compared."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from keras_bert.tasks.masked_lm.mask_scoring import check_masked_lm, score_masks
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.wordpiece import word_spans


@dataclasses.dataclass(frozen=True)
class WordsInRow:
    """A row of tokens, and the words in it that are to be guessed.

    Attributes:
        ids: int32 (tokens,), special tokens included; nothing is masked yet.
        words: the first and last column + 1 of each word's pieces, in order.
    """

    ids: np.ndarray
    words: list[tuple[int, int]]


def choose_words(
    texts: Iterable[str],
    tokenizers: Sequence[Tokenizer],
    *,
    max_seq_length: int,
    share: float = 0.15,
    max_words: int = 20_000,
    seed: int = 12345,
) -> list[list[WordsInRow]]:
    """Chooses words of texts at random, and returns them as rows of each tokenizer.

    The rows of all tokenizers hold the same text and the same words: a row ends where the text is too long for any of
    them. A word can be chosen if it has a letter or digit and every tokenizer spells it by pieces of its own, without
    an unknown token.

    Args:
        texts: the texts, one after the other.
        tokenizers: one or more.
        max_seq_length: the largest number of tokens in a row.
        share: the share of the words of a row that is chosen; at least one is.
        max_words: stops after the row that reaches this number of words.
        seed: equal seeds choose equal words.

    Returns:
        For each tokenizer the rows, in the same order.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    rows: list[list[WordsInRow]] = [[] for _ in tokenizers]
    num_words = 0
    for text in texts:
        sides = [_Side(tokenizer, text) for tokenizer in tokenizers]
        can_be_chosen = _have_letters(text) & np.logical_and.reduce([side.is_whole for side in sides])
        for first, last in _row_bounds(sides, max_seq_length - 2):
            candidates = first + np.flatnonzero(can_be_chosen[first:last])
            if not len(candidates):
                continue
            count = max(1, round(share * len(candidates)))
            chosen = np.sort(generator.choice(candidates, count, replace=False))
            for side, found in zip(sides, rows, strict=True):
                found.append(side.row(first, last, chosen))
            num_words += count
            if num_words >= max_words:
                return rows
    return rows


class _Side:
    """The words of a text as tokens of one tokenizer.

    Attributes:
        offsets: int64 (words + 1,), where the tokens of each word begin.
        is_whole: bool (words,), whether the word consists of known tokens that belong to no other word.
    """

    def __init__(self, tokenizer: Tokenizer, text: str):
        self._vocabulary = tokenizer.vocabulary
        spans = np.array(word_spans(text), np.int64).reshape(-1, 2)
        ids, starts, ends = (np.array(values, np.int64) for values in tokenizer.tokenize_with_offsets(text))
        # A token belongs to the word in which it ends.
        word = np.searchsorted(spans[:, 1], ends)
        ids, starts, ends, word = (values[word < len(spans)] for values in (ids, starts, ends, word))
        ends_before = np.concatenate([[0], spans[:-1, 1]]) if len(spans) else spans[:, 1]
        is_odd = (starts < ends_before[word]) | (starts >= ends) | (ids == self._vocabulary.unk_id)
        self._ids = ids.astype(np.int32)
        self.offsets = np.searchsorted(word, np.arange(len(spans) + 1))
        last_end = np.append(ends, -1)[self.offsets[1:] - 1]  # of the token before, if a word has none
        self.is_whole = (np.bincount(word[is_odd], minlength=len(spans)) == 0) & (last_end == spans[:, 1])

    def row(self, first: int, last: int, chosen: np.ndarray) -> WordsInRow:
        """Returns the row of the words `first` to `last` - 1, in which the words `chosen` are to be guessed."""
        begin, end = self.offsets[first], self.offsets[last]
        ids = [self._vocabulary.cls_id, *self._ids[begin:end].tolist(), self._vocabulary.sep_id]
        columns = self.offsets - begin + 1
        return WordsInRow(np.array(ids, np.int32), [(int(columns[n]), int(columns[n + 1])) for n in chosen])


def _row_bounds(sides: Sequence[_Side], room: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last word + 1 of rows that have at most `room` tokens of every tokenizer."""
    lengths = np.max([np.diff(side.offsets) for side in sides], axis=0)
    before = np.concatenate([[0], np.cumsum(lengths)])
    first = 0
    while first < len(lengths):
        last = int(np.searchsorted(before, before[first] + room, side="right")) - 1
        yield first, last
        first = max(last, first + 1)  # a word that is longer than a row is left out: its row has no words


def _have_letters(text: str) -> np.ndarray:
    """Returns which words of a text have a letter or a digit: bool (words,)."""
    return np.array([any(map(str.isalnum, text[start:end])) for start, end in word_spans(text)], bool)


def guessed_words(model, rows: Sequence[WordsInRow], batch_size: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Masks all pieces of the words of each row, and returns how well the model guesses the words.

    A word is right if the likeliest token is right at each of its pieces. So each word counts once for every model,
    whatever its vocabulary. One clue remains: the number of masks tells the number of pieces.

    Args:
        model: a `MaskedLM` or `BertPretrainer` with a vocabulary.
        rows: the result of `choose_words` for the model's tokenizer.
        batch_size: rows computed at once.

    Returns:
        Which words are right, bool (words,), and the loss of each, float32 (words,): -log p of its pieces, added up, in
        nats.

    Raises:
        InputError: the model has no masked-LM head or no vocabulary.
    """
    check_masked_lm(model)
    masked, positions = [], []
    for row in rows:
        columns = np.concatenate([np.arange(first, last) for first, last in row.words])
        ids = row.ids.copy()
        ids[columns] = model.vocabulary.mask_id
        masked.append(ids)
        positions.append(columns)

    def guesses(number: int, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        row = rows[number]
        pieces = row.ids[positions[number]]
        lengths = [last - first for first, last in row.words]
        starts = np.cumsum([0, *lengths[:-1]])
        log_probabilities = scores[np.arange(len(pieces)), pieces]
        is_right = np.logical_and.reduceat(scores.argmax(axis=1) == pieces, starts)
        return is_right, -np.add.reduceat(log_probabilities, starts)

    found = score_masks(model, masked, positions, guesses, batch_size)
    empty = (np.zeros(0, bool), np.zeros(0, np.float32))
    is_right, losses = zip(empty, *found, strict=True)
    return np.concatenate(is_right), np.concatenate(losses)
