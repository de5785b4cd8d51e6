"""Which positions of a batch are predicted: single tokens, whole words, or spans of them.

A batch has B rows of S columns; a row holds one sequence or several, numbered from 1 as in `input_mask`.
"""

import dataclasses

import numpy as np

from keras_bert.program.errors import InputError

# Words that are visited in one array operation, where they are masked one by one.
_VISITS_AT_ONCE = 16


@dataclasses.dataclass(frozen=True)
class MaskingOptions:
    """Which positions are masked, and how.

    Args:
        masked_lm_prob: share of a sequence's tokens, special ones counted, that are to be predicted.
        max_predictions_per_seq: masks in a row at most.
        do_whole_word_mask: the pieces of a word are masked together.
        max_ngram_size: above 0, spans of whole words are masked, each of 1 to this many words.
        ngram_geometric_p: a span has n words with a probability proportional to `(1 - p) ** (n - 1)`.
        whole_word_actions: whether a target becomes [MASK], stays or becomes random is decided once for each word, or
            span, and not for each token.

    Raises:
        InputError: a value is out of range, or two contradict each other.
    """

    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int = 20
    do_whole_word_mask: bool = False
    max_ngram_size: int = 0
    ngram_geometric_p: float = 0.2
    whole_word_actions: bool = False

    def __post_init__(self):
        for name, lowest in (("max_predictions_per_seq", 1), ("max_ngram_size", 0)):
            if getattr(self, name) < lowest:
                raise InputError(f"{name} must be {lowest} or more. Received: {getattr(self, name)}")
        for name in ("masked_lm_prob", "ngram_geometric_p"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise InputError(f"{name} must be above 0 and at most 1. Received: {getattr(self, name)}")
        if self.whole_word_actions and not self.masks_words:
            raise InputError(
                "whole_word_actions decides word by word, but single tokens are masked. Add do_whole_word_mask or "
                "max_ngram_size, or leave it out."
            )

    @property
    def masks_words(self) -> bool:
        """Whether whole words are masked, alone or in spans."""
        return self.do_whole_word_mask or self.max_ngram_size > 0


def count_predictions(
    lengths: np.ndarray, masked_lm_prob: float, max_predictions_per_seq: int, num_candidates: np.ndarray
) -> np.ndarray:
    """How many positions to predict in sequences of `lengths` tokens, special tokens counted: (B,) -> (B,).

    Example:
        lengths [5, 64, 128], probability 0.15, at most 12 -> [1, 10, 12]
    """
    num_predictions = np.maximum(1, np.rint(lengths * masked_lm_prob)).astype(np.int64)
    return np.minimum(np.minimum(num_predictions, max_predictions_per_seq), num_candidates)


def count_by_sequence(is_text: np.ndarray, sequence_numbers: np.ndarray, options: MaskingOptions) -> np.ndarray:
    """How many positions to predict in each sequence: (B, S) twice -> int64 (B, K), K the most sequences in a row.

    Each sequence gets what it would get in a row of its own; where that makes more than `max_predictions_per_seq` in a
    row, its last sequences get fewer.
    """
    num_sequences = _most_sequences(sequence_numbers)
    lengths = _count_numbers(sequence_numbers, num_sequences)
    num_candidates = _count_numbers(sequence_numbers * is_text, num_sequences)
    most = options.max_predictions_per_seq
    num_predictions = count_predictions(lengths, options.masked_lm_prob, most, num_candidates)
    before = np.cumsum(num_predictions, axis=1) - num_predictions
    return np.clip(most - before, 0, num_predictions)


def choose_tokens(
    is_text: np.ndarray, sequence_numbers: np.ndarray, num_to_predict: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Chooses `num_to_predict` (B, K) text tokens of each sequence, all with equal chance.

    Returns:
        int64, the chosen of the B * S positions of the flattened batch, ascending.
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
    """Chooses whole words, or spans of them, of up to `num_to_predict` (B, K) tokens in each sequence.

    The words of a sequence are visited in random order. Each that is still free begins a span, whose length in words
    is drawn (always 1 without `max_ngram_size`). The span ends early where its segment ends, where a chosen word
    follows, and before the word that would bring the sequence over its number. A first word that would do that is
    passed over, as Google does with words.

    Args:
        continues_word: bool (B, S), the tokens that go on with the word before them. Behind a token that is no text
            a word begins anyhow: a segment that was cut at its front may begin inside one, and its rest counts as one.

    Returns:
        int64, the chosen positions of the flattened batch, ascending; and int64, the number of the span, or word, that
        each belongs to. Spans of a sequence are numbered in the order in which they were drawn.

    Example:
        the tokens of `[CLS] em ##bed ##ding is fun [SEP]`, 2 to predict, no spans -> `is` and `fun`, in any draw.
    """
    words = _Words.find(is_text, continues_word)
    columns, begins, counts = _random_order(words.starts_here, sequence_numbers, num_to_predict.shape[1], rng)
    visits = words.at_position.reshape(is_text.shape)
    visits = np.take_along_axis(visits, columns.reshape(is_text.shape), axis=1).ravel()
    firsts, stops, budgets = begins.ravel(), (begins + counts).ravel(), num_to_predict.ravel()
    if options.max_ngram_size > 1:
        span_of_word = _visit_and_draw_spans(words, visits, firsts, stops, budgets, options, rng)
    else:
        span_of_word = _visit_words(words, visits, firsts, stops, budgets)
    chosen = np.flatnonzero(span_of_word >= 0)
    sizes = words.end[chosen] - words.first[chosen]
    return concatenated_ranges(words.first[chosen], sizes), np.repeat(span_of_word[chosen], sizes)


def _visit_words(words, visits, firsts, stops, budgets) -> np.ndarray:
    """Takes the words `visits[place]` of N sequences, from `firsts` to before `stops`, as long as they fit into
    `budgets` tokens. Returns each word's own number if it was taken, and else -1: (W,)."""
    taken = np.full(len(words.first), -1, np.int64)
    while True:
        active = (budgets > 0) & (firsts < stops)
        if not active.any():
            return taken
        firsts, stops, budgets = firsts[active], stops[active], budgets[active]
        steps = firsts[:, None] + np.arange(_VISITS_AT_ONCE)
        word = visits[np.minimum(steps, len(visits) - 1)]
        sizes = words.end[word] - words.first[word]
        # What is too long for all of the budget is passed over, and so costs nothing.
        is_candidate = (steps < stops[:, None]) & (sizes <= budgets[:, None])
        spent = np.cumsum(np.where(is_candidate, sizes, 0), axis=1)
        is_within = spent <= budgets[:, None]
        word = word[is_candidate & is_within]
        taken[word] = word
        # The first that went over the budget is too long for what is left of it, and is passed over in the next round.
        num_visited = is_within.sum(axis=1)
        budgets = budgets - spent[np.arange(len(spent)), num_visited - 1]
        firsts = firsts + num_visited


def _visit_and_draw_spans(words, visits, firsts, stops, budgets, options, rng) -> np.ndarray:
    """As `_visit_words`, but at each word a span begins. Returns the number of each word's span, or -1: (W,)."""
    weights = (1.0 - options.ngram_geometric_p) ** np.arange(options.max_ngram_size)
    length_limits = np.cumsum(weights / weights.sum())[:-1]
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
    """Counts the words of each span, from `word` on, that are free and within the budget, and their tokens."""
    length, num_tokens = np.zeros_like(span_length), np.zeros_like(budgets)
    going_on = np.arange(len(word))
    for step in range(int(span_length.max(initial=0))):
        going_on = going_on[span_length[going_on] > step]
        here = word[going_on] + step
        tokens = words.end[here] - words.first[word[going_on]]
        fits = (span_of_word[here] < 0) & (tokens <= budgets[going_on])
        going_on = going_on[fits]
        length[going_on] += 1
        num_tokens[going_on] = tokens[fits]
    return length, num_tokens


@dataclasses.dataclass(frozen=True)
class _Words:
    """The W words of a batch, in the order of their positions in the flattened batch of B * S.

    `first` and `end` (W,): word w has the positions `first[w]` to `end[w] - 1`. `left_in_segment` (W,): the number of
    words from w to the end of its segment. `starts_here` bool (B, S). `at_position` (B * S,): the word that starts at a
    position, or the last before it.
    """

    first: np.ndarray
    end: np.ndarray
    left_in_segment: np.ndarray
    starts_here: np.ndarray
    at_position: np.ndarray

    @classmethod
    def find(cls, is_text: np.ndarray, continues_word: np.ndarray) -> "_Words":
        segment_starts = is_text.copy()
        segment_starts[:, 1:] &= ~is_text[:, :-1]
        segment_ends = is_text.copy()
        segment_ends[:, :-1] &= ~is_text[:, 1:]
        starts_here = is_text & ~continues_word | segment_starts
        first = np.flatnonzero(starts_here)
        at_position = np.cumsum(starts_here.ravel(), dtype=np.int32) - 1
        positions = np.flatnonzero(segment_starts), np.flatnonzero(segment_ends)
        first_words, last_words = at_position[positions[0]], at_position[positions[1]]
        end = np.append(first[1:], 0)
        end[last_words] = positions[1] + 1
        left_in_segment = np.repeat(last_words + 1, last_words + 1 - first_words) - np.arange(len(first))
        return cls(first, end, left_in_segment, starts_here, at_position)


def _random_order(
    is_unit: np.ndarray, sequence_numbers: np.ndarray, num_sequences: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Puts the units of every sequence, such as words, in random order.

    Args:
        is_unit: bool (B, S): the columns at which a unit stands, text tokens all.

    Returns:
        the columns of the units, row by row, sequence by sequence, in random order: int64 (B * S,), each row filled up
        with zeros; and where in this array each sequence begins and how many units it has: int64 (B, K).

    Example:
        one row with units in columns 1, 2 and 5 of sequence 1 and 7 of sequence 2
        -> [5, 1, 2, 7, 0, ...], begins [[0, 3]], counts [[3, 1]]
    """
    num_rows, num_columns = is_unit.shape
    column_bits, number_bits = max(num_columns - 1, 1).bit_length(), (num_sequences - 1).bit_length()
    # One number decides it all: the sequence, a random number of 30 bits or more, the column. Raw bits are what NumPy
    # promises never to change.
    keys = rng.bit_generator.random_raw(num_rows * num_columns).reshape(num_rows, num_columns)
    keys >>= np.uint64(column_bits + number_bits)
    keys <<= np.uint64(column_bits)
    keys |= np.arange(num_columns, dtype=np.uint64)
    if num_sequences > 1:
        keys |= (sequence_numbers.astype(np.uint64) - np.uint64(1)) << np.uint64(64 - number_bits)
    # What is no unit comes last, with column 0.
    keys = np.where(is_unit, keys, np.uint64(2**64 - 2**column_bits))
    keys.sort(axis=1)
    keys &= np.uint64(2**column_bits - 1)
    counts = _count_numbers(sequence_numbers * is_unit, num_sequences)
    begins = np.cumsum(counts, axis=1) - counts + num_columns * np.arange(num_rows)[:, None]
    return keys.view(np.int64).ravel(), begins, counts


def concatenated_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the numbers of all ranges, one range behind the other: (n,) twice -> (sum of lengths,).

    Example:
        starts [5, 0], lengths [3, 2] -> [5, 6, 7, 0, 1]
    """
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def _most_sequences(sequence_numbers: np.ndarray) -> int:
    return max(int(sequence_numbers.max(initial=1)), 1)


def _count_numbers(numbers: np.ndarray, most: int) -> np.ndarray:
    """Counts the numbers 1 to `most` in each row: (B, S) -> int64 (B, most)."""
    if most == 1:
        return np.count_nonzero(numbers, axis=1)[:, None]
    num_rows = len(numbers)
    rows = np.arange(num_rows)[:, None] * (most + 1)
    return np.bincount((rows + numbers).ravel(), minlength=num_rows * (most + 1)).reshape(num_rows, -1)[:, 1:]
