"""Documents -> pairs of segments, for next-sentence prediction and for sentence order.

A segment is a range of whole sentences. The sentences of a block of documents are concatenated, so a pair is two ranges
of tokens.
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

    A document is read in chunks: sentences are added until the chunk has the target length, or the document ends. The
    target is the length that fits into a record, or, for `short_seq_prob` of the documents, a random length from 2 up
    to that. A random number of the chunk's sentences is the first segment. With equal probability, the second segment
    is the rest of the chunk, or sentences from another document; in the latter case, the next chunk begins with the
    rest. A chunk of one sentence always gets a random second segment. The label is 1 for a random second segment.

    A single document is first cut into equal parts of up to 511 sentences (half of its sentences, if it has fewer),
    which are treated as documents. With fewer than four sentences it cannot be cut.

    With `in_order`, the second segment is always the rest of the chunk, and the two are swapped with probability 0.5,
    as in ALBERT. The label is 1 for a swapped pair.

    If random second segments are impossible, chunks have at least two sentences, and a single sentence left at the end
    of a document is dropped. Pairs are cut to `max_seq_length` tokens including special tokens; the longer segment is
    cut first.

    Example:
        sentences of 4, 2 and 3 tokens in one document and room for 7 tokens -> tokens 0-3 and 4-5, or 0-5 and 6-8 cut
        by two, and so on, at random.

    Reference: Devlin et al., 2018, appendix A.2; google-research/bert `create_instances_from_document`; Lan et al.,
    2019 (ALBERT), section 3.1.
    """
    room = max_seq_length - special_tokens.num_special(2)
    if len(document_offsets) == 2 and not in_order:
        document_offsets = cut_into_parts(document_offsets, part_sentences(int(document_offsets[-1])))
    num_documents = len(document_offsets) - 1
    targets = _draw_targets(num_documents, room, short_seq_prob, rng)
    has_random = num_documents > 1 and not in_order
    pairs = _walk_through_documents(sentence_offsets, document_offsets, targets, has_random, rng)
    pairs = _half_swapped(*pairs, rng) if in_order else pairs
    first_starts, first_lengths, second_starts, second_lengths, labels = pairs
    cut_first, cut_second = _cut_to_length(first_lengths, second_lengths, room)
    return TokenSequences.pairs(
        first_starts + rng.binomial(first_lengths - cut_first, 0.5),
        cut_first,
        second_starts + rng.binomial(second_lengths - cut_second, 0.5),
        cut_second,
        labels,
        special_tokens.num_between,
    )


def _draw_targets(num_documents: int, room: int, short_seq_prob: float, rng: np.random.Generator) -> np.ndarray:
    """Returns the lengths of the chunks of each document, int64 (num_documents,)."""
    targets = np.full(num_documents, room, np.int64)
    is_short = rng.random(num_documents) < short_seq_prob
    targets[is_short] = 2 + (rng.random(int(is_short.sum())) * (room - 1)).astype(np.int64)
    return targets


def _half_swapped(first_starts, first_lengths, second_starts, second_lengths, labels, rng):
    """Swaps the segments of each pair with probability 0.5; the label says whether they are swapped."""
    is_swapped = rng.random(len(labels)) < 0.5
    firsts = np.where(is_swapped, (second_starts, second_lengths), (first_starts, first_lengths))
    seconds = np.where(is_swapped, (first_starts, first_lengths), (second_starts, second_lengths))
    return *firsts, *seconds, is_swapped


def _walk_through_documents(sentence_offsets, document_offsets, targets, has_random, rng):
    """Cuts every document into pairs: starts and lengths of both segments, and whether the second is random, (N,) each.

    All documents are processed in parallel, one pair each per round, so a round takes a few array operations.
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
    """Draws one pair from each document of `active`, from `sentence` on. Returns the columns and the next sentences."""
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
        other += other >= active  # any other document, with equal probability
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
    """Returns the end of the shortest run of sentences from `start` with at least `num_tokens` tokens."""
    end = np.searchsorted(sentence_offsets, sentence_offsets[start] + num_tokens)
    return np.minimum(np.maximum(end, start + 1), document_end)


def _cut_to_length(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lengths after Google's `truncate_seq_pair`, in closed form: it removes tokens one by one from the
    longer segment, or from the second if both are equal. (Which end they come from is random: a binomial number.)"""
    smaller_half, larger_half = room // 2, (room + 1) // 2
    cut_second = np.where(second <= smaller_half, second, np.where(first <= larger_half, room - first, smaller_half))
    too_long = first + second > room
    return np.where(too_long, room - cut_second, first), np.where(too_long, cut_second, second)
