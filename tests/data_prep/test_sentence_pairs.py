import dataclasses

import numpy as np
import pytest
from small_corpora import generator, offsets

from data_prep.pretraining import sentence_pairs
from data_prep.pretraining.sentence_pairs import draw_sentence_pairs


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The pairs as columns."""

    first_starts: np.ndarray
    first_lengths: np.ndarray
    second_starts: np.ndarray
    second_lengths: np.ndarray
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)


def draw(documents, max_seq_length=32, short_seq_prob=0.0, seed=0, in_order=False):
    """Pairs from documents that are lists of sentence lengths, one pass."""
    sequences = draw_sentence_pairs(
        offsets([length for document in documents for length in document]),
        offsets([len(document) for document in documents]),
        max_seq_length=max_seq_length,
        short_seq_prob=short_seq_prob,
        rng=generator(seed),
        in_order=in_order,
    )
    starts, lengths = sequences.range_starts.reshape(-1, 2), sequences.range_lengths.reshape(-1, 2)
    return Pairs(starts[:, 0], lengths[:, 0], starts[:, 1], lengths[:, 1], sequences.labels == 1)


def random_documents(seed, num_documents=300):
    rng = generator(seed)
    return [rng.integers(1, 25, size=rng.integers(1, 30)).tolist() for _ in range(num_documents)]


def test_two_short_documents_give_pairs_that_can_be_checked_by_hand():
    # Tokens 0-3 4-5 | 6-8. Room for 29: a document is one chunk.
    pairs = draw([[4, 2], [3]])
    outcomes = set()
    for seed in range(40):
        pairs = draw([[4, 2], [3]], seed=seed)
        columns = [pairs.first_starts, pairs.first_lengths, pairs.second_starts, pairs.second_lengths]
        outcomes.update(zip(*(column.tolist() for column in columns), pairs.labels.tolist(), strict=True))
    assert outcomes == {
        (0, 4, 4, 2, False),  # the whole first document
        (0, 4, 6, 3, True),  # its first sentence and the other document
        (4, 2, 6, 3, True),  # then its second sentence, which was not used
        # The second document has a single sentence; the second segment is all of the first document ...
        (6, 3, 0, 6, True),
        (6, 3, 4, 2, True),  # ... or its end
    }


def test_short_targets_are_all_the_lengths_from_two_to_the_room(monkeypatch):
    targets, walk = [], sentence_pairs._walk_through_documents
    monkeypatch.setattr(
        sentence_pairs, "_walk_through_documents", lambda *arguments: targets.extend(arguments[2]) or walk(*arguments)
    )
    draw([[1, 1]] * 400, max_seq_length=8, short_seq_prob=1.0)
    assert np.bincount(targets).tolist()[:2] == [0, 0]
    assert np.bincount(targets, minlength=6)[2:] == pytest.approx([100] * 4, abs=45)  # five standard deviations


def test_a_random_next_is_never_from_the_same_document_and_a_real_one_follows():
    documents = random_documents(seed=3, num_documents=5)
    ends = np.cumsum([sum(document) for document in documents])
    for seed in range(20):
        pairs = draw(documents, seed=seed)
        first = np.searchsorted(ends, pairs.first_starts, "right")
        second = np.searchsorted(ends, pairs.second_starts, "right")
        assert (first != second)[pairs.labels].all()
        assert (first == second)[~pairs.labels].all()
        assert (pairs.second_starts > pairs.first_starts)[~pairs.labels].all()
        # No segment crosses the end of its document.
        assert (pairs.first_starts + pairs.first_lengths <= ends[first]).all()
        assert (pairs.second_starts + pairs.second_lengths <= ends[second]).all()


def test_random_nexts_come_from_every_other_document_alike():
    documents = [[5, 5]] + [[3]] * 10
    drawn = (draw(documents, seed=seed) for seed in range(2000))
    sources = np.concatenate([pairs.second_starts[pairs.first_starts == 0] for pairs in drawn])
    counts = np.bincount((sources[sources >= 10] - 10) // 3, minlength=10)
    expected = counts.sum() / 10
    # Chi-square with 9 degrees of freedom; 50 is exceeded by chance once in ten million.
    assert ((counts - expected) ** 2 / expected).sum() < 50


def test_every_sentence_is_read_in_every_pass():
    documents = random_documents(seed=4)
    pairs = draw(documents, max_seq_length=400)
    is_covered = np.zeros(sum(map(sum, documents)), bool)
    for starts, lengths in ((pairs.first_starts, pairs.first_lengths), (pairs.second_starts, pairs.second_lengths)):
        for start, length in zip(starts, lengths, strict=True):
            is_covered[start : start + length] = True
    assert is_covered.mean() > 0.99


def test_long_pairs_are_cut_token_by_token_from_the_longer_segment():
    # One pair of 10 and 12 tokens into room for 13: by hand, the longer one shrinks until 7 and 6 are left.
    starts = set()
    for seed in range(200):
        pairs = draw([[10, 12]], max_seq_length=16, seed=seed)
        assert (pairs.first_lengths.tolist(), pairs.second_lengths.tolist()) == ([7], [6])
        starts.add(pairs.first_starts[0])
    # 0 to 3 of the 3 tokens that the first segment loses are lost at its front.
    assert starts == {0, 1, 2, 3}


def test_cutting_keeps_the_lengths_that_the_written_loop_keeps():
    for first in range(1, 20):
        for second in range(1, 20):
            # A single document of two sentences has only one pair.
            for room in (5, 6, 11):
                a, b = first, second
                while a + b > room:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                pairs = draw([[first, second]], max_seq_length=room + 3)
                assert (pairs.first_lengths[0], pairs.second_lengths[0]) == (a, b)


def test_in_a_single_document_a_random_next_comes_from_another_part_of_it():
    # 1,100 sentences of 3 tokens: four parts of 275.
    pairs = [draw([[3] * 1100], seed=seed) for seed in range(3)]
    first, second, labels = (
        np.concatenate([getattr(of_seed, name) for of_seed in pairs])
        for name in ("first_starts", "second_starts", "labels")
    )
    assert 0.4 < labels.mean() < 0.6
    assert ((first // 3 // 275 != second // 3 // 275) == labels).all()
    assert set(second[labels] // 3 // 275) == {0, 1, 2, 3}


def test_a_short_single_document_has_two_parts_and_one_of_three_sentences_none():
    labels, halves = set(), set()
    for seed in range(20):
        pairs = draw([[9, 9, 9, 9]], max_seq_length=40, seed=seed)
        labels.update(pairs.labels.tolist())
        halves_of_segments = (pairs.first_starts // 18).tolist(), (pairs.second_starts // 18).tolist()
        halves.update(zip(*halves_of_segments, pairs.labels.tolist(), strict=True))
        assert not draw([[9, 9, 9]], seed=seed).labels.any()
    assert labels == {False, True}
    assert halves == {(0, 0, False), (1, 1, False), (0, 1, True), (1, 0, True)}


def test_a_single_sentence_in_all_gives_nothing():
    assert len(draw([[9]])) == 0


def test_a_sentence_of_a_million_tokens_is_cut():
    pairs = draw([[1_000_000], [3, 3]], max_seq_length=128)
    assert (pairs.first_lengths + pairs.second_lengths).max() <= 125
