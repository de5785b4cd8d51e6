"""Documents -> pairs of segments, for next-sentence prediction and for sentence order.

A segment is a run of whole sentences, and the sentences of a block of documents lie one behind the other. So a pair is
two ranges of tokens.
"""

import numpy as np

from data_prep.pretraining.document_dealing import cut_into_parts, part_sentences
from data_prep.pretraining.token_sequences import TokenSequences
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, SpecialTokens


def draw_sentence_pairs(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    *,
    max_seq_length: int,
    short_seq_prob: float,
    rng: np.random.Generator,
    in_order: bool = False,
    special_tokens: SpecialTokens = BERT_SPECIAL_TOKENS,
) -> TokenSequences:
    """Walks once through every document and cuts it into pairs, as google-research/bert does.

    A document is read in chunks: sentences are added until the chunk has the target length, or the document ends.
    The target is what fits into a record, or, for `short_seq_prob` of the documents, a random length from 2 up to
    that. A random number of the chunk's sentences is the first segment. The second is, with equal chance, the rest of
    the chunk, or a run of sentences from another document; then the rest of the chunk is read again by the next one.
    A chunk of one sentence always gets a random second segment. The label is 1 for a random one.

    A single document is first cut into equal parts of up to 511 sentences (of half of it, if it has fewer), and each is
    read like a document: a random second segment comes from another part. With fewer than four sentences there are no
    two parts, and no random second segment exists.

    With `in_order` the second segment is always the rest of the chunk, and the two are swapped with equal chance, as
    ALBERT does; the label is 1 for a swapped pair.

    Where no random second segment exists, chunks have two sentences at least, and a single sentence left at the end of
    a document is dropped.

    Args:
        sentence_offsets, document_offsets: as in `DocumentBlock`.
        special_tokens: what a pair has beside its segments: `[CLS] A [SEP] B [SEP]` for BERT.

    Returns:
        The pairs, each of at most `max_seq_length` tokens with its special tokens, longest segment cut first.

    Example:
        with sentences of 4, 2 and 3 tokens in one document and room for 7 tokens: tokens 0-3 and 4-5, or 0-5 and 6-8
        less two, and so on, by the draws.

    Reference: Devlin et al., 2018, appendix A.2; google-research/bert `create_instances_from_document`; Lan et al.,
    2019 (ALBERT), section 3.1.
    """
    room = max_seq_length - special_tokens.num_special(2)
    if len(document_offsets) == 2 and not in_order:
        document_offsets = cut_into_parts(document_offsets, part_sentences(int(document_offsets[-1])))
    num_documents = len(document_offsets) - 1
    targets = np.full(num_documents, room, np.int64)
    is_short = rng.random(num_documents) < short_seq_prob
    targets[is_short] = 2 + (rng.random(int(is_short.sum())) * (room - 1)).astype(np.int64)

    has_random = num_documents > 1 and not in_order
    first_starts, first_lengths, second_starts, second_lengths, labels = _walk_through_documents(
        sentence_offsets, document_offsets, targets, has_random, rng
    )
    if in_order:
        is_swapped = rng.random(len(labels)) < 0.5
        first_starts, second_starts = _swap(is_swapped, first_starts, second_starts)
        first_lengths, second_lengths = _swap(is_swapped, first_lengths, second_lengths)
        labels = is_swapped
    cut_first, cut_second = _cut_to_length(first_lengths, second_lengths, room)
    return TokenSequences.pairs(
        first_starts + rng.binomial(first_lengths - cut_first, 0.5),
        cut_first,
        second_starts + rng.binomial(second_lengths - cut_second, 0.5),
        cut_second,
        labels,
        special_tokens.num_between,
    )


def _walk_through_documents(sentence_offsets, document_offsets, targets, has_random, rng):
    """Cuts every document into pairs; `targets` are the lengths of its chunks.

    All documents walk side by side, one pair each per round, so that a round is a few array operations.

    Returns:
        starts and lengths of the first segments, starts and lengths of the second ones, and whether these are random:
        five arrays (N,).
    """
    rounds = [tuple(np.zeros(0, np.int64) for _ in range(5))]
    active = np.arange(len(targets))
    sentence = document_offsets[:-1]
    while len(active):
        drawn, sentence = _draw_one_pair_each(
            sentence_offsets, document_offsets, active, sentence, targets[active], has_random, rng
        )
        rounds.append(drawn)
        unfinished = sentence < document_offsets[active + 1]
        active, sentence = active[unfinished], sentence[unfinished]
    return [np.concatenate(column) for column in zip(*rounds, strict=True)]


def _draw_one_pair_each(sentence_offsets, document_offsets, active, sentence, targets, has_random, rng):
    """One pair from each document of `active`, which stand at `sentence`; returns the columns and where they go on."""
    draws = rng.random((4 if has_random else 1, len(active)))
    document_end = document_offsets[active + 1]
    chunk_end = _chunk_end(sentence_offsets, sentence, targets, document_end)
    if not has_random:
        chunk_end = np.minimum(np.maximum(chunk_end, sentence + 2), document_end)
    num_sentences = chunk_end - sentence
    first_end = sentence + 1 + (draws[0] * np.maximum(num_sentences - 1, 1)).astype(np.int64)
    first_start, first_stop = sentence_offsets[sentence], sentence_offsets[first_end]

    is_random = np.zeros(len(active), bool)
    second_start, second_end = first_end, chunk_end
    if has_random:
        is_random = (num_sentences == 1) | (draws[1] < 0.5)
        other = (draws[2] * (len(document_offsets) - 2)).astype(np.int64)
        other += other >= active  # every document but its own, with equal chance
        other_start, other_end = document_offsets[other], document_offsets[other + 1]
        random_start = other_start + (draws[3] * (other_end - other_start)).astype(np.int64)
        second_targets = targets - (first_stop - first_start)
        random_end = _chunk_end(sentence_offsets, random_start, second_targets, other_end)
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


def _swap(is_swapped, first, second):
    return np.where(is_swapped, second, first), np.where(is_swapped, first, second)


def _cut_to_length(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """The lengths that Google's `truncate_seq_pair` leaves, in closed form: tokens are taken one by one from the longer
    segment, the second when both are equal. (Each from its front or its back with equal chance: a binomial number.)"""
    smaller_half, larger_half = room // 2, (room + 1) // 2
    cut_second = np.where(second <= smaller_half, second, np.where(first <= larger_half, room - first, smaller_half))
    too_long = first + second > room
    return np.where(too_long, room - cut_second, first), np.where(too_long, cut_second, second)
