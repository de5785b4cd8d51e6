import numpy as np
import pytest
from small_corpora import generator

from data_prep.pretraining.sequence_packing import pack_sequences


def pack(lengths, max_seq_length, max_sequences_per_row, seed=0):
    """The rows, each the list of its sequences' numbers."""
    order, offsets = pack_sequences(np.array(lengths, int), max_seq_length, max_sequences_per_row, generator(seed))
    return [order[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def test_a_small_case_is_packed_as_by_hand():
    # 8; 5 and 3; 3 and 2.
    for seed in range(20):
        rows = {frozenset(row) for row in pack([5, 3, 8, 3, 2], 8, 4, seed)}
        assert rows == {frozenset([2]), frozenset([0, 1]), frozenset([3, 4])}


def test_a_row_has_at_most_so_many_sequences():
    assert sorted(map(len, pack([2] * 10, 20, 4))) == [2, 4, 4]
    assert sorted(map(len, pack([2] * 10, 20, 10))) == [10]
    assert sorted(map(len, pack([2] * 3, 20, 1))) == [1, 1, 1]


@pytest.mark.parametrize("max_sequences_per_row", [1, 2, 3, 16])
def test_every_sequence_has_one_place_and_no_row_is_too_long(max_sequences_per_row):
    lengths = generator(1).integers(5, 129, 5000)
    rows = pack(lengths, 128, max_sequences_per_row)
    assert sorted(number for row in rows for number in row) == list(range(5000))
    assert max(lengths[row].sum() for row in rows) <= 128
    assert 1 <= min(map(len, rows)) <= max(map(len, rows)) <= max_sequences_per_row


def least_rows(lengths, max_seq_length):
    """A lower bound of the number of rows (Martello and Toth, 1990, bound L2).

    Each sequence longer than half a row takes a row. The shorter ones, down to some length, go into the free room of
    these rows or into further rows.
    """
    bounds = [-(-lengths.sum() // max_seq_length)]
    for shortest in range(max_seq_length // 2 + 1):
        is_alone = lengths > max_seq_length - shortest
        is_long = (lengths > max_seq_length // 2) & ~is_alone
        is_short = (lengths >= shortest) & (lengths <= max_seq_length // 2)
        room = max_seq_length * is_long.sum() - lengths[is_long].sum()
        own_rows = -(-(lengths[is_short].sum() - room) // max_seq_length)
        bounds.append(is_alone.sum() + is_long.sum() + max(own_rows, 0))
    return max(bounds)


@pytest.mark.parametrize(
    ("lengths", "least_fill"),
    [
        pytest.param(generator(2).integers(5, 129, 20_000), 0.995, id="all lengths"),
        pytest.param(generator(3).integers(5, 40, 20_000), 0.995, id="short ones"),
        pytest.param(np.minimum(5 + generator(4).geometric(0.02, 20_000), 128), 0.995, id="mostly short ones"),
        pytest.param(np.maximum(128 - generator(5).geometric(0.02, 20_000), 5), 0.8, id="mostly long ones"),
        pytest.param(generator(6).integers(60, 90, 20_000), 0.67, id="too long to share a row"),
    ],
)
def test_hardly_any_packing_does_with_fewer_rows(lengths, least_fill):
    num_rows = len(pack(lengths, 128, 42))
    assert num_rows <= 1.002 * least_rows(lengths, 128)
    assert lengths.sum() / (128 * num_rows) > least_fill


def test_rows_are_full_where_many_sequences_must_share_them_and_not_many_more_may():
    lengths = generator(3).integers(5, 40, 20_000)
    # 5.8 of these fit into a row on average.
    assert lengths.sum() / (128 * len(pack(lengths, 128, 8))) > 0.975


def test_rows_and_the_sequences_in_them_come_in_random_order():
    # Forty full rows, then forty of two sequences.
    lengths = [8] * 40 + [6] * 40 + [2] * 40
    places, is_long_first = [], []
    for seed in range(100):
        rows = pack(lengths, 8, 2, seed)
        places += [place for place, row in enumerate(rows) if len(row) == 1]
        is_long_first += [lengths[row[0]] == 6 for row in rows if len(row) == 2]
    # The mean of 4000 places from 0 to 79, and of 4000 coins; five standard deviations.
    assert np.mean(places) == pytest.approx(39.5, abs=5 * 23.1 / np.sqrt(4000))
    assert np.mean(is_long_first) == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(4000))
    assert pack(lengths, 8, 2, seed=1) == pack(lengths, 8, 2, seed=1)


def test_which_of_the_sequences_of_a_length_share_a_row_follows_their_order():
    rows = {frozenset(row) for row in pack([6] * 100 + [2] * 100, 8, 2)}
    assert rows == {frozenset([number, 100 + number]) for number in range(100)}


def test_nothing_is_packed_into_no_rows():
    assert pack([], 8, 2) == []
    assert pack([], 8, 1) == []
