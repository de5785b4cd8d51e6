"""Documents -> rows for XLNet: a part that the next row continues, then a pair of segments; tokens are predicted in
random orders."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from data_prep.pretraining.document_block import DocumentBlock
from keras_bert.records import features
from keras_bert.records.permutation import choose_spans, draw_permutations, order_of_parts, ranks_of
from keras_bert.tokenization.tokenizer import TokenTable

if TYPE_CHECKING:
    from data_prep.pretraining.pretraining_records import PretrainingOptions

# [SEP] after each segment of the pair, and [CLS].
NUM_SPECIAL = 3
# Marks that begin a word though no space is before them, in vocabularies of pieces too.
_MARKS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~€£')


@dataclasses.dataclass(frozen=True)
class PermutationRows:
    """N rows. Row n has the tokens from `starts[n]` on: `reuse_len` tokens, which are context, and the first segment.

    All are `(N,)`. The second segment fills the row; `are_random` says whether it is from a random place. `stream_rows`
    are the numbers of the rows in their streams.
    """

    starts: np.ndarray
    first_lengths: np.ndarray
    second_starts: np.ndarray
    are_random: np.ndarray
    stream_rows: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, numbers) -> "PermutationRows":
        """Returns the rows with these numbers."""
        return PermutationRows(*(getattr(self, field.name)[numbers] for field in dataclasses.fields(self)))


def draw_permutation_rows(
    block: DocumentBlock, options: "PretrainingOptions", rng: np.random.Generator
) -> PermutationRows:
    """Cuts all text of a block, whose documents are read in order, into rows; none if the streams are too short.

    The text is cut into `num_streams` equal streams. A row begins `reuse_len` tokens after the row before it in its
    stream. The rows are in the order in which a memory needs them: the first of every stream, the second of every
    stream, and so on. If `num_streams` is 0, there is one stream, and its rows come in random order.

    The first segment follows the reused part and ends with a sentence. With probability 0.5, and whenever no sentence
    ends in the row, the second segment is a run of sentences from a random place. Otherwise it follows the first. Then
    tokens are removed from the end of the longer segment, or of the second if both are equal, until the row is full.

    Reference: zihangdai/xlnet `data_utils.py`, `create_tfrecords` and `_split_a_and_b`.
    """
    num_streams = max(1, options.num_streams)
    stream_length = block.num_tokens // num_streams
    room = options.max_seq_length - NUM_SPECIAL - options.reuse_len
    num_steps = max(0, (stream_length - options.reuse_len - room) // options.reuse_len + 1)
    steps, streams = np.repeat(np.arange(num_steps), num_streams), np.tile(np.arange(num_streams), num_steps)
    if not options.num_streams:
        steps = steps[np.argsort(rng.random(len(steps)), kind="stable")]
    starts = streams * stream_length + steps * options.reuse_len
    firsts, ends = starts + options.reuse_len, (streams + 1) * stream_length

    # Sentences begin at `bounds`. The segment from `firsts` on may end at the bounds from `low` up to before `high`.
    bounds = block.sentence_offsets
    low = np.searchsorted(bounds, firsts, side="right")
    high = np.searchsorted(bounds, firsts + room, side="left")
    full = np.minimum(bounds[high], ends)
    draws = rng.random((3, len(starts)))
    are_random = (low == high) | (draws[0] < 0.5)
    first_ends = np.where(low == high, full, bounds[low + (draws[1] * (high - low)).astype(np.int64)])
    first_lengths = first_ends - firsts
    wanted = np.maximum(1, room - first_lengths)
    places = (draws[2] * (block.num_tokens - wanted + 1)).astype(np.int64)
    random_starts = bounds[np.searchsorted(bounds, places, side="right") - 1]
    random_ends = bounds[np.searchsorted(bounds, places + wanted, side="left")]
    second_starts = np.where(are_random, random_starts, first_ends)
    second_lengths = np.where(are_random, random_ends, full) - second_starts
    return PermutationRows(starts, _fitting(first_lengths, second_lengths, room), second_starts, are_random, steps)


def _fitting(first: np.ndarray, second: np.ndarray, room: int) -> np.ndarray:
    """Returns the lengths of cut first segments. Room 7, first [9, 2, 9, 9], second [1, 9, 8, 9] -> [6, 2, 4, 4]."""
    shorter_half, longer_half = room // 2, room - room // 2
    return room - np.where(second <= shorter_half, second, np.where(first <= longer_half, room - first, shorter_half))


def lay_out_permutation_rows(
    tokens: np.ndarray,
    rows: PermutationRows,
    options: "PretrainingOptions",
    vocabulary: TokenTable,
    begins_word: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Lays out B rows `[CLS] reused first [SEP] second [SEP]`, and draws what is predicted and in which order.

    XLNet has [CLS] last; `XLNetEncoder` moves it there. The reused part and the rest get predictions and an order
    each, half of the predictions in each. [CLS] and [SEP] are never predicted; where they are drawn, a row has fewer.

    Returns feature name -> int32 or float32 array of B rows, for every feature of the records.
    """
    shape = (len(rows), options.max_seq_length)
    columns = np.arange(options.max_seq_length)
    middle = (1 + options.reuse_len + rows.first_lengths)[:, None]  # the first [SEP]
    sources = np.where(
        columns < middle, rows.starts[:, None] + columns - 1, rows.second_starts[:, None] + columns - middle - 1
    )
    is_special = (columns == 0) | (columns == middle) | (columns == options.max_seq_length - 1)
    ids = np.where(columns == 0, vocabulary.cls_id, vocabulary.sep_id)
    ids = np.where(is_special, ids, tokens[np.where(is_special, 0, sources)]).astype(np.int32)

    in_their_order = np.roll(np.arange(options.max_seq_length), -1)  # [CLS] last
    order, is_selected = _draw_order(begins_word[ids[:, in_their_order]], is_special[:, in_their_order], options, rng)
    predicted = np.zeros(shape, bool)
    predicted[:, in_their_order] = is_selected & ~is_special[:, in_their_order]
    prediction_order = np.empty(shape, np.int32)
    prediction_order[:, in_their_order] = order

    batch = _predictions(ids, predicted, options.max_predictions_per_seq) | {
        features.INPUT_IDS: ids,
        features.INPUT_MASK: np.ones(shape, np.int32),
        features.SEGMENT_IDS: (columns > middle).astype(np.int32),
        features.PREDICTION_ORDER: prediction_order,
        features.NEXT_SENTENCE_LABELS: rows.are_random[:, None].astype(np.int32),
        features.NEXT_SENTENCE_WEIGHTS: np.zeros((len(rows), 1), np.float32),
        features.STREAM_ROW: rows.stream_rows[:, None].astype(np.int32),
    }
    numbers = {features.NUM_STREAMS: options.num_streams, features.REUSE_LEN: options.reuse_len}
    return batch | {name: np.full((len(rows), 1), number, np.int32) for name, number in numbers.items()}


def tokens_that_begin_words(vocabulary: TokenTable) -> np.ndarray:
    """Returns bool `(V,)`, the tokens that may begin a span: marks, special tokens and beginnings of words."""
    tokens = vocabulary.tokens
    return np.array([one in _MARKS or one.startswith("<") or not vocabulary.continues_word(one) for one in tokens])


def _draw_order(begins_word, is_special, options: "PretrainingOptions", rng) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ranks of all tokens and which tokens are drawn, for rows with [CLS] last: `(B, S)` each."""
    in_second = options.max_predictions_per_seq // 2
    parts = (
        (slice(0, options.reuse_len), options.max_predictions_per_seq - in_second),
        (slice(options.reuse_len, options.max_seq_length), in_second),
    )
    ranks, selected = [], []
    for part, num_to_predict in parts:
        words = begins_word[:, part]
        is_selected = choose_spans(words, num_to_predict, options.mask_alpha, options.mask_beta, rng)
        permutations = draw_permutations(len(words), options.perm_size or options.reuse_len, rng)
        ranks.append(ranks_of(is_selected | is_special[:, part], permutations))
        selected.append(is_selected)
    return order_of_parts(*ranks), np.concatenate(selected, axis=1)


def _predictions(ids: np.ndarray, predicted: np.ndarray, max_predictions: int) -> dict[str, np.ndarray]:
    """Returns the positions, ids and weights of the predicted tokens; unused entries are 0."""
    row, column = np.nonzero(predicted)
    place = np.arange(len(row)) - np.concatenate([[0], np.cumsum(predicted.sum(axis=1))])[row]
    positions, of_ids = np.zeros((2, len(ids), max_predictions), np.int32)
    weights = np.zeros(positions.shape, np.float32)
    positions[row, place], of_ids[row, place], weights[row, place] = column, ids[row, column], 1.0
    return {
        features.MASKED_LM_POSITIONS: positions,
        features.MASKED_LM_IDS: of_ids,
        features.MASKED_LM_WEIGHTS: weights,
    }
