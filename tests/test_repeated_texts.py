import numpy as np

from data_prep.inspection.repeated_texts import RepetitionCounter


def as_bytes(numbers):
    return [int(number).to_bytes(4) for number in numbers]


def test_every_copy_is_counted():
    counter = RepetitionCounter()
    for values in ([1, 2, 3], [1, 4], [1]):
        counter.add(as_bytes(values))
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
        counter.add(as_bytes(part))
        assert len(counter.copies) <= 4000
    summary = counter.summary()
    assert summary["sampled_one_in"] in (8, 16)
    assert abs(summary["share_repeated"] - 0.75) < 0.001
    assert summary["most_copies"] == 4
    assert 0.8 < summary["num_counted"] * summary["sampled_one_in"] / 100_000 < 1.2


def test_nothing_counted_is_nothing_repeated():
    assert RepetitionCounter().summary()["share_repeated"] == 0.0
