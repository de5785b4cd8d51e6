import numpy as np
import pytest
from small_corpora import offsets

from data_prep.pretraining.full_sentences import draw_full_sentences


def draw(documents, max_seq_length, seed=0):
    """Sequences, each a list of its ranges (start, length), from documents that are lists of sentence lengths."""

    sequences = draw_full_sentences(
        offsets([length for document in documents for length in document]),
        offsets([len(document) for document in documents]),
        max_seq_length=max_seq_length,
        rng=np.random.Generator(np.random.PCG64(seed)),
    )
    ranges = list(zip(sequences.range_starts.tolist(), sequences.range_lengths.tolist(), strict=True))
    bounds = sequences.range_offsets.tolist()
    assert len(sequences) == len(bounds) - 1
    return [ranges[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def full_sentences_by_the_book(documents, max_seq_length, order):
    """One sentence after another, for documents that are lists of (start, length)."""
    sequences, current, size = [], [], 1  # [CLS]
    for number in order:
        is_new = True
        for start, length in documents[number]:
            while length:
                piece = min(length, max_seq_length - 2)
                # A new document and the start of a sequence need one more [SEP].
                cost = piece + (1 if is_new or not current else 0)
                if size + cost > max_seq_length:
                    sequences.append(current)
                    current, size = [], 1
                    continue
                if is_new or not current:
                    current.append((start, piece))
                else:
                    current[-1] = (current[-1][0], current[-1][1] + piece)
                size += cost
                is_new = False
                start, length = start + piece, length - piece
    return sequences + [current] * bool(current)


def test_two_short_documents_can_be_checked_by_hand():
    assert draw([[4, 2, 3]], 8) == [[(0, 6)], [(6, 3)]]
    assert draw([[4, 2, 3]], 7) == [[(0, 4)], [(4, 5)]]
    outcomes = {str(draw([[4, 2], [3]], 16, seed)) for seed in range(20)}
    # [CLS] 6 tokens [SEP] 3 tokens [SEP], in either order
    assert outcomes == {"[[(0, 6), (6, 3)]]", "[[(6, 3), (0, 6)]]"}
    # The [SEP] between the documents needs its place too: 1 + 6 + 1 + 3 + 1
    assert all(len(draw([[4, 2], [3]], 12, seed)) == 1 for seed in range(20))
    assert all(len(draw([[4, 2], [3]], 11, seed)) == 2 for seed in range(20))


@pytest.mark.parametrize("max_seq_length", [8, 33, 128])
def test_sequences_are_those_of_the_written_algorithm(max_seq_length):
    rng = np.random.Generator(np.random.PCG64(1))
    documents = [rng.integers(1, 40, size=rng.integers(1, 30)).tolist() for _ in range(200)]
    places, position = [], 0
    for document in documents:
        places.append([])
        for length in document:
            places[-1].append((position, length))
            position += length
    # The draw begins with the order of documents.
    order = np.argsort(np.random.Generator(np.random.PCG64(5)).random(200), kind="stable")
    assert draw(documents, max_seq_length, seed=5) == full_sentences_by_the_book(places, max_seq_length, order)


def test_documents_come_in_another_order_in_another_pass():
    documents = [[5], [6], [7], [8]]
    assert len({str(draw(documents, 64, seed)) for seed in range(200)}) == 24


def test_no_documents_give_nothing():
    assert draw([], 16) == []
