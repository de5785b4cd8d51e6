"""Documents -> pairs of segments for next-sentence prediction.

A segment is a run of whole sentences, and the sentences of a tokenised corpus lie one behind the other. So a pair is
four numbers: where each segment starts among all tokens, and how long it is. No token is copied.
"""

import dataclasses

import numpy as np

# [CLS] first segment [SEP] second segment [SEP]
NUM_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class SentencePairs:
    """N pairs of token ranges; every field is an array of shape (N,).

    The first segment of a pair is `tokens[first_starts : first_starts + first_lengths]`, the second likewise.
    `is_random_next` tells the pairs whose second segment comes from another document.
    """

    first_starts: np.ndarray
    first_lengths: np.ndarray
    second_starts: np.ndarray
    second_lengths: np.ndarray
    is_random_next: np.ndarray

    def __len__(self) -> int:
        return len(self.first_starts)

    def take(self, index) -> "SentencePairs":
        """Returns the pairs that `index` (a slice, or an array of numbers or booleans) selects, in its order."""
        return SentencePairs(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def draw_sentence_pairs(
    sentence_offsets: np.ndarray,
    document_starts: np.ndarray,
    document_ends: np.ndarray,
    *,
    max_seq_length: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> SentencePairs:
    """Walks once through every document and cuts it into pairs, as google-research/bert does.

    A document is read in chunks: sentences are added until the chunk has the target length, or the document ends.
    The target is what fits into a record, or, for `short_seq_prob` of the documents, a random length from 2 up to
    that. A random number of the chunk's sentences is the first segment. The second is, with equal chance, the rest of
    the chunk, or a run of sentences from another document; then the rest of the chunk is read again by the next one.
    A chunk of one sentence always gets a random second segment.

    Draws stay inside these documents. With a single document no random second segment exists: chunks then have two
    sentences at least, every pair is a real one, and a single sentence left at the end is dropped.

    All documents walk side by side, one pair each per round, so that a round is a few array operations.

    Args:
        sentence_offsets: int64, shape (num_sentences + 1,): sentence i is `tokens[offsets[i] : offsets[i + 1]]`. No
            sentence is empty.
        document_starts, document_ends: int64, shape (num_documents,): document d has the sentences
            `document_starts[d]` to `document_ends[d] - 1`, one at least.

    Returns:
        The pairs, each of at most `max_seq_length - 3` tokens, longest segment cut first.

    Example:
        with sentences of 4, 2 and 3 tokens in one document and room for 7 tokens: tokens 0-3 and 4-5, or 0-5 and 6-8
        less two, and so on, by the draws.

    Reference: Devlin et al., 2018, appendix A.2; google-research/bert `create_instances_from_document`.
    """
    room = max_seq_length - NUM_SPECIAL_TOKENS
    num_documents = len(document_starts)
    targets = np.full(num_documents, room, np.int64)
    is_short = rng.random(num_documents) < short_seq_prob
    targets[is_short] = 2 + _random_below(room - 1, rng, int(is_short.sum()))

    rounds = []
    active = np.arange(num_documents)
    sentence = np.array(document_starts, np.int64)
    while len(active):
        drawn, sentence = _draw_one_pair_each(
            sentence_offsets, document_starts, document_ends, active, sentence, targets[active], rng
        )
        rounds.append(drawn)
        unfinished = sentence < document_ends[active]
        active, sentence = active[unfinished], sentence[unfinished]
    if not rounds:
        return SentencePairs(*(np.zeros(0, np.int64) for _ in range(4)), np.zeros(0, bool))
    pairs = SentencePairs(*(np.concatenate(column) for column in zip(*rounds, strict=True)))
    return _cut_to_length(pairs, room, rng)


def _draw_one_pair_each(sentence_offsets, document_starts, document_ends, active, sentence, targets, rng):
    """One pair from each document of `active`, which stand at `sentence`; returns the columns and where they go on."""
    draws = rng.random((4, len(active)))
    document_end = document_ends[active]
    chunk_end = _chunk_end(sentence_offsets, sentence, targets, document_end)
    if len(document_starts) == 1:
        chunk_end = np.minimum(np.maximum(chunk_end, sentence + 2), document_end)
    num_sentences = chunk_end - sentence
    first_end = sentence + 1 + (draws[0] * np.maximum(num_sentences - 1, 1)).astype(np.int64)
    first_start, first_stop = sentence_offsets[sentence], sentence_offsets[first_end]

    if len(document_starts) == 1:
        is_random = np.zeros(len(active), bool)
        second_start, second_end = first_end, chunk_end
    else:
        is_random = (num_sentences == 1) | (draws[1] < 0.5)
        other = (draws[2] * (len(document_starts) - 1)).astype(np.int64)
        other += other >= active  # every document but its own, with equal chance
        other_start, other_end = document_starts[other], document_ends[other]
        random_start = other_start + (draws[3] * (other_end - other_start)).astype(np.int64)
        wanted = targets - (first_stop - first_start)
        random_end = _chunk_end(sentence_offsets, random_start, wanted, other_end)
        second_start = np.where(is_random, random_start, first_end)
        second_end = np.where(is_random, random_end, chunk_end)

    second_start, second_stop = sentence_offsets[second_start], sentence_offsets[second_end]
    columns = (first_start, first_stop - first_start, second_start, second_stop - second_start, is_random)
    has_second = second_stop > second_start
    if not has_second.all():
        columns = tuple(column[has_second] for column in columns)
    return columns, np.where(is_random, first_end, chunk_end)


def _chunk_end(sentence_offsets, start, num_tokens, document_end):
    """The sentence before which to stop for `num_tokens` tokens or more from `start` on; one sentence at least."""
    end = np.searchsorted(sentence_offsets, sentence_offsets[start] + num_tokens)
    return np.minimum(np.maximum(end, start + 1), document_end)


def _cut_to_length(pairs: SentencePairs, room: int, rng: np.random.Generator) -> SentencePairs:
    """Google's `truncate_seq_pair` in closed form: tokens are taken one by one from the longer segment, the second
    when both are equal, each time from its front or its back with equal chance."""
    first, second = pairs.first_lengths, pairs.second_lengths
    smaller_half, larger_half = room // 2, (room + 1) // 2
    cut_second = np.where(
        second <= smaller_half, second, np.where(first <= larger_half, room - first, np.int64(smaller_half))
    )
    too_long = first + second > room
    new_second = np.where(too_long, cut_second, second)
    new_first = np.where(too_long, room - cut_second, first)
    return SentencePairs(
        pairs.first_starts + rng.binomial(first - new_first, 0.5),
        new_first,
        pairs.second_starts + rng.binomial(second - new_second, 0.5),
        new_second,
        pairs.is_random_next,
    )


def _random_below(limit: int, rng: np.random.Generator, size: int) -> np.ndarray:
    """Random integers 0 to `limit - 1`, from the one kind of draw whose stream NumPy does not change."""
    return (rng.random(size) * limit).astype(np.int64)
