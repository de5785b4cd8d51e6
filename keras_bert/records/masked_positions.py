"""Selects the positions of a batch that are predicted: single tokens, whole words, or spans of words.

A batch has B rows of S columns. A row holds one or more sequences, numbered from 1 as in `input_mask`.
"""

import dataclasses

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option

# Words that `_visit_words` processes in one array operation.
_VISITS_AT_ONCE = 16
NGRAM_DISTRIBUTIONS = ("geometric", "inverse")
REPLACEMENT_TOKENS = ("text", "vocabulary")  # from which random tokens are drawn


@documented
@dataclasses.dataclass(frozen=True)
class MaskingOptions(Options):
    """Options that decide which positions are masked, and how.

    Args:
        mask_share, random_share: the shares of the draws that give [MASK] and a random token. The others change
            nothing.

    Raises:
        InputError: a value is out of range, or `whole_word_actions` is set although single tokens are masked.
    """

    masked_lm_prob: float = option(0.15, "Share of the tokens to predict; special tokens count.", above=0, at_most=1)
    max_predictions_per_seq: int = option(20, "The largest number of masks in a record.", at_least=1)
    do_whole_word_mask: bool = option(False, "Mask all pieces of a word together.")
    max_ngram_size: int = option(0, "Above 0: mask spans of up to this many whole words.", at_least=0)
    ngram_geometric_p: float = option(
        0.2,
        "The probability of a span of n words is proportional to (1 - p) ** (n - 1), as in SpanBERT.",
        needs="max_ngram_size",
        above=0,
        at_most=1,
    )
    ngram_distribution: str = option(
        "geometric",
        "With max_ngram_size: the distribution of span lengths, geometric (SpanBERT) or inverse, ~ 1/n (ALBERT).",
        needs="max_ngram_size",
        choices=NGRAM_DISTRIBUTIONS,
    )
    whole_word_actions: bool = option(
        False, "Choose between [MASK], the same and a random token once per word or span, not for each token."
    )
    mask_share: float = option(0.8, at_least=0)
    random_share: float = option(0.1, at_least=0)

    def __post_init__(self):
        super().__post_init__()
        if self.mask_share + self.random_share > 1.0:
            raise InputError(
                "mask_share and random_share must together be at most 1. Received: "
                f"{self.mask_share} and {self.random_share}"
            )
        if self.whole_word_actions and not self.masks_words:
            raise InputError(
                "whole_word_actions decides word by word, but single tokens are masked. Add do_whole_word_mask or "
                "max_ngram_size, or leave out whole_word_actions."
            )

    @property
    def masks_words(self) -> bool:
        """Whether whole words are masked, singly or in spans."""
        return self.do_whole_word_mask or self.max_ngram_size > 0

    def ngram_probabilities(self) -> np.ndarray:
        """Returns the probabilities of spans of 1 to `max_ngram_size` words: float64 `(max_ngram_size,)`."""
        sizes = np.arange(1, self.max_ngram_size + 1)
        is_inverse = self.ngram_distribution == "inverse"
        weights = 1.0 / sizes if is_inverse else (1.0 - self.ngram_geometric_p) ** (sizes - 1)
        return weights / weights.sum()


def count_predictions(
    lengths: np.ndarray, masked_lm_prob: float, max_predictions_per_seq: int, num_candidates: np.ndarray
) -> np.ndarray:
    """Returns the number of positions to predict in sequences of `lengths` tokens, special tokens counted.

    Of each sequence at most `num_candidates` may be predicted: int `(...)` twice -> int64 `(...)`.

    Example:
        lengths [5, 64, 128], probability 0.15, at most 12 -> [1, 10, 12]
    """
    num_predictions = np.maximum(1, np.rint(lengths * masked_lm_prob)).astype(np.int64)
    return np.minimum(np.minimum(num_predictions, max_predictions_per_seq), num_candidates)


def count_by_sequence(is_text: np.ndarray, sequence_numbers: np.ndarray, options: MaskingOptions) -> np.ndarray:
    """Returns the number of positions to predict in each sequence: `(B, S)` twice -> int64 `(B, K)`.

    Each sequence gets the number that it would get in a row of its own. If the sum of a row exceeds
    `max_predictions_per_seq`, its last sequences get fewer. K is the largest number of sequences in a row.
    """
    num_sequences = max(int(sequence_numbers.max(initial=1)), 1)
    lengths = _count_numbers(sequence_numbers, num_sequences)
    num_candidates = _count_numbers(sequence_numbers * is_text, num_sequences)
    max_predictions = options.max_predictions_per_seq
    num_predictions = count_predictions(lengths, options.masked_lm_prob, max_predictions, num_candidates)
    num_before = np.cumsum(num_predictions, axis=1) - num_predictions
    return np.clip(max_predictions - num_before, 0, num_predictions)


def choose_tokens(
    is_text: np.ndarray, sequence_numbers: np.ndarray, num_to_predict: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Selects `num_to_predict` `(B, K)` text tokens of each sequence at random, all equally likely.

    Returns:
        int64 `(n,)`, the selected positions in the flattened batch of B * S, ascending.
    """
    columns, begins, _ = _random_order(is_text, sequence_numbers, num_to_predict.shape[1], rng)
    firsts = concatenated_ranges(begins.ravel(), num_to_predict.ravel())
    is_chosen = np.zeros(is_text.size, bool)
    row_starts = np.repeat(np.arange(len(is_text)) * is_text.shape[1], num_to_predict.sum(axis=1))
    is_chosen[row_starts + columns[firsts]] = True
    return np.flatnonzero(is_chosen)


def choose_words(
    is_text: np.ndarray,
    continues_word: np.ndarray,
    sequence_numbers: np.ndarray,
    num_to_predict: np.ndarray,
    options: MaskingOptions,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Selects whole words, or spans of them, with at most `num_to_predict` `(B, K)` tokens in each sequence.

    The words of a sequence are visited in random order. If a word is not yet selected, a span begins there, whose
    length in words is drawn (always 1 without `max_ngram_size`). The span ends early at the end of its segment, before
    a selected word, and before a word that would exceed the number of tokens. A first word that would exceed it is
    skipped, as in Google's code.

    Args:
        is_text: bool `(B, S)`, the tokens that may be selected.
        continues_word: bool `(B, S)`, the tokens that continue the word before them. After a token that is not text, a
            word begins in any case: a segment that was cut at its front may begin inside a word.
        sequence_numbers: int `(B, S)`, as in `input_mask`.

    Returns:
        int64 `(n,)`, the selected positions in the flattened batch, ascending; and int64 `(n,)`, the number of the span
        (or word) of each position. Spans of a sequence are numbered in the order in which they were drawn.

    Example:
        the tokens of `[CLS] em ##bed ##ding is fun [SEP]`, 2 to predict, no spans -> always `is` and `fun`
    """
    words = _Words.find(is_text, continues_word)
    columns, begins, counts = _random_order(words.is_first, sequence_numbers, num_to_predict.shape[1], rng)
    visits = words.at_position.reshape(is_text.shape)
    visits = np.take_along_axis(visits, columns.reshape(is_text.shape), axis=1).ravel()
    firsts, stops, budgets = begins.ravel(), (begins + counts).ravel(), num_to_predict.ravel()
    if options.max_ngram_size > 1:
        span_of_word = _visit_and_draw_spans(words, visits, firsts, stops, budgets, options, rng)
    else:
        span_of_word = _visit_words(words, visits, firsts, stops, budgets)
    selected = np.flatnonzero(span_of_word >= 0)
    sizes = words.end[selected] - words.first[selected]
    return concatenated_ranges(words.first[selected], sizes), np.repeat(span_of_word[selected], sizes)


def _visit_words(words, visits, firsts, stops, budgets) -> np.ndarray:
    """Selects words of N sequences: visits them in order and skips those that exceed the rest of the budget.

    Sequence i has the words `visits[firsts[i]:stops[i]]` and a budget of `budgets[i]` tokens.

    Returns:
        int64 `(W,)`: the number of each word if it is selected, else -1.
    """
    selected = np.full(len(words.first), -1, np.int64)
    while True:
        active = (budgets > 0) & (firsts < stops)
        if not active.any():
            return selected
        firsts, stops, budgets = firsts[active], stops[active], budgets[active]
        steps = firsts[:, None] + np.arange(_VISITS_AT_ONCE)
        word = visits[np.minimum(steps, len(visits) - 1)]
        sizes = words.end[word] - words.first[word]
        # A word that is longer than the whole budget is skipped, and so costs nothing.
        is_candidate = (steps < stops[:, None]) & (sizes <= budgets[:, None])
        spent = np.cumsum(np.where(is_candidate, sizes, 0), axis=1)
        is_within = spent <= budgets[:, None]
        word = word[is_candidate & is_within]
        selected[word] = word
        # The first word over the budget does not fit into the rest of it. The next round begins there and skips it.
        num_visited = is_within.sum(axis=1)
        budgets = budgets - spent[np.arange(len(spent)), num_visited - 1]
        firsts = firsts + num_visited


def _visit_and_draw_spans(words, visits, firsts, stops, budgets, options, rng) -> np.ndarray:
    """As `_visit_words`, but begins a span at each word. Returns the number of each word's span, or -1: `(W,)`."""
    length_limits = np.cumsum(options.ngram_probabilities())[:-1]
    span_of_word = np.full(len(words.first), -1, np.int64)
    num_spans = 0
    while True:
        active = (budgets > 0) & (firsts < stops)
        if not active.any():
            return span_of_word
        firsts, stops, budgets = firsts[active], stops[active], budgets[active]
        word = visits[firsts]
        span_length = 1 + np.searchsorted(length_limits, rng.random(len(word)), side="right")
        span_length = np.minimum(span_length, words.left_in_segment[word])
        length, num_tokens = _fitting_words(words, word, span_length, budgets, span_of_word)
        span_of_word[concatenated_ranges(word, length)] = np.repeat(num_spans + np.arange(len(word)), length)
        num_spans += len(word)
        budgets = budgets - num_tokens
        firsts = firsts + 1


def _fitting_words(words, word, span_length, budgets, span_of_word) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of words and tokens of each span, from `word` on, that are free and within the budget."""
    length, num_tokens = np.zeros_like(span_length), np.zeros_like(budgets)
    active = np.arange(len(word))
    for step in range(int(span_length.max(initial=0))):
        active = active[span_length[active] > step]
        next_word = word[active] + step
        tokens = words.end[next_word] - words.first[word[active]]
        fits = (span_of_word[next_word] < 0) & (tokens <= budgets[active])
        active = active[fits]
        length[active] += 1
        num_tokens[active] = tokens[fits]
    return length, num_tokens


@dataclasses.dataclass(frozen=True)
class _Words:
    """The W words of a batch, in the order of their positions in the flattened batch of B * S."""

    first: np.ndarray  # (W,); word w has the positions first[w] to end[w] - 1
    end: np.ndarray  # (W,)
    left_in_segment: np.ndarray  # (W,), the number of words from w to the end of its segment
    is_first: np.ndarray  # bool (B, S), the positions where a word starts
    at_position: np.ndarray  # (B * S,), the word that starts at a position, or the last one before it

    @classmethod
    def find(cls, is_text: np.ndarray, continues_word: np.ndarray) -> "_Words":
        segment_starts = is_text.copy()
        segment_starts[:, 1:] &= ~is_text[:, :-1]
        segment_ends = is_text.copy()
        segment_ends[:, :-1] &= ~is_text[:, 1:]
        is_first = is_text & ~continues_word | segment_starts
        first = np.flatnonzero(is_first)
        at_position = np.cumsum(is_first.ravel(), dtype=np.int32) - 1
        positions = np.flatnonzero(segment_starts), np.flatnonzero(segment_ends)
        first_words, last_words = at_position[positions[0]], at_position[positions[1]]
        end = np.append(first[1:], 0)
        end[last_words] = positions[1] + 1
        left_in_segment = np.repeat(last_words + 1, last_words + 1 - first_words) - np.arange(len(first))
        return cls(first, end, left_in_segment, is_first, at_position)


def _random_order(
    is_unit: np.ndarray, sequence_numbers: np.ndarray, num_sequences: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shuffles the units (words or tokens) of every sequence; K is `num_sequences`, the largest number in a row.

    Args:
        is_unit: bool `(B, S)`, the columns where a unit starts.
        sequence_numbers: int `(B, S)`, as in `input_mask`.

    Returns:
        the columns of the units by row and sequence, shuffled within a sequence, int64 `(B * S,)`: each row has S
        entries, zeros at its end. And the first entry and the number of units of each sequence, both int64 `(B, K)`.

    Example:
        one row of 8 columns with units in columns 1, 2 and 5 of sequence 1 and 7 of sequence 2
        -> [5, 1, 2, 7, 0, 0, 0, 0], begins [[0, 3]], counts [[3, 1]]
    """
    num_rows, num_columns = is_unit.shape
    column_bits, number_bits = max(num_columns - 1, 1).bit_length(), (num_sequences - 1).bit_length()
    # The sort key of a unit: its sequence, then 30 or more random bits, then its column. Raw bits, because NumPy
    # promises never to change them.
    keys = rng.bit_generator.random_raw(num_rows * num_columns).reshape(num_rows, num_columns)
    keys >>= np.uint64(column_bits + number_bits)
    keys <<= np.uint64(column_bits)
    keys |= np.arange(num_columns, dtype=np.uint64)
    if num_sequences > 1:
        keys |= (sequence_numbers.astype(np.uint64) - np.uint64(1)) << np.uint64(64 - number_bits)
    # Other columns come last, as column 0.
    keys = np.where(is_unit, keys, np.uint64(2**64 - 2**column_bits))
    keys.sort(axis=1)
    keys &= np.uint64(2**column_bits - 1)
    counts = _count_numbers(sequence_numbers * is_unit, num_sequences)
    begins = np.cumsum(counts, axis=1) - counts + num_columns * np.arange(num_rows)[:, None]
    return keys.view(np.int64).ravel(), begins, counts


def concatenated_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Joins ranges of numbers: starts `(n,)`, lengths `(n,)` -> `(sum of lengths,)`.

    Example:
        starts [5, 0], lengths [3, 2] -> [5, 6, 7, 0, 1]
    """
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def _count_numbers(numbers: np.ndarray, max_number: int) -> np.ndarray:
    """Counts how often each of the numbers 1 to `max_number` is in a row: `(B, S)` -> int64 `(B, max_number)`."""
    if max_number == 1:
        return np.count_nonzero(numbers, axis=1)[:, None]
    num_rows = len(numbers)
    rows = np.arange(num_rows)[:, None] * (max_number + 1)
    return np.bincount((rows + numbers).ravel(), minlength=num_rows * (max_number + 1)).reshape(num_rows, -1)[:, 1:]
