import numpy as np
import pytest

from data_prep.masking import choose_tokens, choose_words, count_predictions, mask_rows, real_token_ids

MASK_ID = 4


def generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def within_five_sigma(count, num_trials, probability):
    """True unless `count` is further from its expectation than chance allows (once in 1.7 million)."""
    return abs(count - num_trials * probability) < 5 * np.sqrt(num_trials * probability * (1 - probability))


def test_number_of_predictions_is_googles_formula():
    lengths = np.array([5, 64, 128, 30, 50])
    predicted = count_predictions(lengths, 0.15, 12, lengths - 3)
    # 0.75 -> 1, 9.6 -> 10, 19.2 -> 19 but at most 12; 4.5 -> 4 and 7.5 -> 8: halves go to the even number.
    assert predicted.tolist() == [1, 10, 12, 4, 8]
    assert predicted.tolist() == [min(12, max(1, round(length * 0.15))) for length in lengths.tolist()]


def test_there_are_never_more_predictions_than_tokens_to_predict():
    assert count_predictions(np.array([8]), 1.0, 20, np.array([5])).tolist() == [5]


def test_chosen_tokens_are_candidates_and_as_many_as_asked():
    candidates = np.array([[False, True, True, False, True], [False, True, True, True, True]])
    for seed in range(50):
        chosen = choose_tokens(candidates, np.array([2, 4]), generator(seed))
        assert chosen.sum(axis=1).tolist() == [2, 4]
        assert not (chosen & ~candidates).any()


def test_every_candidate_is_chosen_equally_often():
    candidates = np.tile([False, True, True, True, False, True, True], (20_000, 1))
    counts = choose_tokens(candidates, np.full(20_000, 2), generator()).sum(axis=0)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert all(within_five_sigma(count, 20_000, 2 / 5) for count in counts[[1, 2, 3, 5, 6]])


def test_whole_words_are_chosen_whole():
    # [CLS] em ##bed ##ding is fun [SEP]
    candidates = np.array([[False, True, True, True, True, True, False]])
    word_starts = np.array([[True, True, False, False, True, True, True]])
    outcomes = {
        tuple(np.flatnonzero(choose_words(candidates, word_starts, np.array([3]), generator(seed))[0]).tolist())
        for seed in range(100)
    }
    # Either the long word alone, or the two short ones, into which the long one then does not fit.
    assert outcomes == {(1, 2, 3), (4, 5)}


def test_a_word_that_is_too_long_is_skipped():
    candidates = np.array([[False, True, True, True, True, True, False]])
    word_starts = np.array([[True, True, False, False, True, True, True]])
    for seed in range(20):
        chosen = choose_words(candidates, word_starts, np.array([2]), generator(seed))
        assert np.flatnonzero(chosen[0]).tolist() == [4, 5]


def choose_words_by_the_book(words, num_to_predict, order):
    """Google's loop: words in random order, one that would go over the number is passed over."""
    chosen = []
    for word in order:
        if len(chosen) >= num_to_predict:
            break
        if len(chosen) + len(words[word]) <= num_to_predict:
            chosen.extend(words[word])
    return sorted(chosen)


def test_whole_word_choice_has_the_distribution_of_the_written_algorithm():
    words = [[1], [2, 3], [4, 5, 6], [7], [8, 9]]
    candidates = np.tile([False] + [True] * 9 + [False], (30_000, 1))
    word_starts = np.tile([True, True, True, False, True, False, False, True, True, False, True], (30_000, 1))
    ours = choose_words(candidates, word_starts, np.full(30_000, 4), generator())
    rng = generator(1)
    by_the_book = np.zeros_like(ours)
    for row in by_the_book:
        row[choose_words_by_the_book(words, 4, rng.permutation(5))] = True
    bits = 1 << np.arange(11)
    ours, by_the_book = ours @ bits, by_the_book @ bits
    assert set(ours) == set(by_the_book)
    for outcome in set(ours):
        difference = (ours == outcome).mean() - (by_the_book == outcome).mean()
        assert abs(difference) < 5 * np.sqrt(2 * 0.25 / 30_000)


def test_masked_rows_have_ascending_positions_and_padding_of_weight_zero():
    input_ids = np.array([[2, 10, 11, 12, 3, 0], [2, 20, 21, 22, 23, 3]])
    chosen = np.array([[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 1, 0]], bool)
    rows = mask_rows(input_ids, chosen, 3, MASK_ID, np.array([50, 51]), generator())
    assert rows.positions.tolist() == [[2, 0, 0], [1, 4, 0]]
    assert rows.ids.tolist() == [[11, 0, 0], [20, 23, 0]]
    assert rows.weights.tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    assert rows.weights.dtype == np.float32
    # What was not chosen is as it was, and the argument too.
    assert (rows.input_ids == input_ids)[~chosen].all()
    assert input_ids[0, 2] == 11


def test_replacements_are_80_10_10_and_random_tokens_are_uniform():
    input_ids = np.full((2_000, 100), 7)
    replacements = np.array([50, 51, 52, 53])
    rows = mask_rows(input_ids, np.ones_like(input_ids, bool), 100, MASK_ID, replacements, generator())
    num_trials = input_ids.size
    assert within_five_sigma((rows.input_ids == MASK_ID).sum(), num_trials, 0.8)
    assert within_five_sigma((rows.input_ids == 7).sum(), num_trials, 0.1)
    for replacement in replacements:
        assert within_five_sigma((rows.input_ids == replacement).sum(), num_trials, 0.1 / 4)
    assert np.isin(rows.input_ids, [MASK_ID, 7, *replacements]).all()


def test_special_and_unused_tokens_never_replace():
    tokens = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "[", "]", "<", "...", "the", "##s"]
    assert [tokens[number] for number in real_token_ids(tokens)] == ["[", "]", "<", "...", "the", "##s"]


@pytest.mark.parametrize("num_to_predict", [0, 1])
def test_a_row_without_candidates_gets_no_mask(num_to_predict):
    nothing = np.zeros((1, 4), bool)
    assert not choose_tokens(nothing, np.array([0]), generator()).any()
    assert not choose_words(nothing, nothing, np.array([num_to_predict]), generator()).any()
