import numpy as np

from data_prep.inspection.repeated_texts import RepetitionCounter, hash_rows, hash_runs


def test_equal_runs_have_equal_hashes_wherever_they_stand():
    hashes = hash_runs(np.array([7, 8, 7, 8, 8, 7, 7, 8, 0]), np.array([0, 2, 4, 6]))
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == 3


def rows_of(*lists):
    """Lists of the same length in each row, as `hash_rows` takes them."""
    return hash_rows([(np.asarray(values), np.full(len(values), np.shape(values)[1])) for values in lists])


def test_different_rows_have_different_hashes():
    # all rows of four numbers from 0 to 9: order and zeros matter, and where one list ends
    rows = np.stack(np.meshgrid(*[np.arange(10)] * 4), axis=-1).reshape(-1, 4)
    short = np.unique(rows[:, :3], axis=0)
    kinds = [rows_of(rows), rows_of(short), rows_of(rows, rows), rows_of(rows[:, :2], rows[:, 2:])]
    assert len(np.unique(np.concatenate(kinds))) == 3 * len(rows) + len(short)
    assert len(np.unique(rows_of(rows.astype(np.float32) / 7))) == len(rows)


def test_what_stands_behind_the_end_of_a_list_does_not_matter():
    lengths = np.array([2, 1])
    narrow = hash_rows([(np.array([[7, 8], [7, 0]]), lengths)])
    np.testing.assert_array_equal(hash_rows([(np.array([[7, 8, 5], [7, 4, 4]]), lengths)]), narrow)
    assert narrow[0] != narrow[1]


def test_no_runs_have_no_hashes():
    assert hash_runs(np.zeros(0, np.int64), np.zeros(0, np.int64)).shape == (0,)


def test_the_bits_of_hashes_are_even():
    hashes = rows_of(np.arange(0, 8192, 2)[:, None])  # even numbers, whose products are all odd
    for bit in range(64):
        assert 0.45 < (hashes >> np.uint64(bit) & np.uint64(1)).mean() < 0.55


def test_every_copy_is_counted():
    counter = RepetitionCounter()
    for values in ([1, 2, 3], [1, 4], [1]):
        counter.add(rows_of(np.array(values)[:, None]))
    assert counter.summary() == {
        "sampled_one_in": 1,
        "num_counted": 6,
        "num_distinct": 4,
        "share_repeated": 1 - 4 / 6,
        "most_copies": 3,
    }


def test_of_very_many_a_sample_gives_the_share_in_bounded_memory():
    counter = RepetitionCounter(most_hashes=4000)
    values = np.random.default_rng(0).permutation(np.repeat(np.arange(25_000), 4))
    for part in np.array_split(values, 100):
        counter.add(rows_of(part[:, None]))
        assert counter._num_kept <= 4000
    summary = counter.summary()
    assert summary["sampled_one_in"] == 32
    assert summary["share_repeated"] == 0.75
    assert summary["most_copies"] == 4
    assert 0.8 < summary["num_counted"] * 32 / 100_000 < 1.2


def test_nothing_counted_is_nothing_repeated():
    assert RepetitionCounter().summary()["share_repeated"] == 0.0
