import numpy as np
import pytest
import tiny
from small_corpora import generator

from keras_bert.program.errors import InputError
from keras_bert.records.masked_positions import (
    MaskingOptions,
    choose_tokens,
    choose_words,
    concatenated_ranges,
    count_by_sequence,
    count_predictions,
)
from keras_bert.records.masking import MaskingVocabulary, mask_batch
from keras_bert.tokenization.vocabulary import Vocabulary

MASK_ID = 4


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


def chosen_tokens(is_text, num_to_predict, rng):
    """`choose_tokens` for rows of one sequence: bool (B, S)."""
    chosen = choose_tokens(is_text, np.ones(is_text.shape, int), np.asarray(num_to_predict)[:, None], rng)
    return as_mask(chosen, is_text.shape)


def chosen_words(is_text, word_starts, num_to_predict, rng):
    """`choose_words` for rows of one sequence: bool (B, S)."""
    numbers, budgets = np.ones(is_text.shape, int), np.asarray(num_to_predict)[:, None]
    options = MaskingOptions(do_whole_word_mask=True)
    return as_mask(choose_words(is_text, ~word_starts, numbers, budgets, options, rng)[0], is_text.shape)


def as_mask(chosen, shape):
    mask = np.zeros(shape, bool)
    mask.ravel()[chosen] = True
    return mask


def test_chosen_tokens_are_candidates_and_as_many_as_asked():
    candidates = np.array([[False, True, True, False, True], [False, True, True, True, True]])
    for seed in range(50):
        chosen = chosen_tokens(candidates, np.array([2, 4]), generator(seed))
        assert chosen.sum(axis=1).tolist() == [2, 4]
        assert not (chosen & ~candidates).any()


def test_every_candidate_is_chosen_equally_often():
    candidates = np.tile([False, True, True, True, False, True, True], (20_000, 1))
    counts = chosen_tokens(candidates, np.full(20_000, 2), generator()).sum(axis=0)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert all(within_five_sigma(count, 20_000, 2 / 5) for count in counts[[1, 2, 3, 5, 6]])


# With three to choose, either the long word alone, or the two short ones, after which the long one does not fit; with
# two, the long word is skipped.
@pytest.mark.parametrize(("number", "expected"), [(3, {(1, 2, 3), (4, 5)}), (2, {(4, 5)})])
def test_whole_words_are_chosen_whole_and_one_that_is_too_long_is_skipped(number, expected):
    # [CLS] em ##bed ##ding is fun [SEP]
    candidates = np.array([[False, True, True, True, True, True, False]])
    word_starts = np.array([[True, True, False, False, True, True, True]])
    outcomes = set()
    for seed in range(100):
        chosen = chosen_words(candidates, word_starts, np.array([number]), generator(seed))
        outcomes.add(tuple(np.flatnonzero(chosen[0]).tolist()))
    assert outcomes == expected


def choose_words_by_the_book(words, num_to_predict, order):
    """Google's loop: words in random order; a word that would exceed the number is skipped."""
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
    ours = chosen_words(candidates, word_starts, np.full(30_000, 4), generator())
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


def vocabulary(replacement_ids):
    return MaskingVocabulary(MASK_ID, np.zeros(1000, bool), np.array(replacement_ids))


def test_masked_rows_have_ascending_positions_and_padding_of_weight_zero():
    input_ids = np.array([[2, 10, 11, 12, 3, 0], [2, 20, 21, 22, 23, 3]])
    is_text = input_ids >= 10
    options = MaskingOptions(masked_lm_prob=0.4, max_predictions_per_seq=3)
    numbers = (input_ids > 0).astype(int)
    rows = mask_batch(input_ids, is_text, numbers, options, vocabulary([50, 51]), generator())
    positions, weights = rows["masked_lm_positions"], rows["masked_lm_weights"]
    assert weights.tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    assert weights.dtype == np.float32
    assert (positions[:, 0] < positions[:, 1]).all()
    assert positions[:, 2].tolist() == rows["masked_lm_ids"][:, 2].tolist() == [0, 0]
    for row in range(2):
        chosen = positions[row, :2]
        assert is_text[row, chosen].all()
        assert rows["masked_lm_ids"][row, :2].tolist() == input_ids[row, chosen].tolist()
        # Other positions and the argument are unchanged.
        others = np.setdiff1d(np.arange(6), chosen)
        assert rows["input_ids"][row, others].tolist() == input_ids[row, others].tolist()
    assert (input_ids != MASK_ID).all()


def test_replacements_are_80_10_10_and_random_tokens_are_uniform():
    input_ids = np.full((2_000, 100), 7)
    replacements = np.array([50, 51, 52, 53])
    every = np.ones(input_ids.shape, int)
    options = MaskingOptions(masked_lm_prob=1.0, max_predictions_per_seq=100)
    masked = mask_batch(input_ids, every > 0, every, options, vocabulary(replacements), generator())["input_ids"]
    num_trials = input_ids.size
    assert within_five_sigma((masked == MASK_ID).sum(), num_trials, 0.8)
    assert within_five_sigma((masked == 7).sum(), num_trials, 0.1)
    for replacement in replacements:
        assert within_five_sigma((masked == replacement).sum(), num_trials, 0.1 / 4)
    assert np.isin(masked, [MASK_ID, 7, *replacements]).all()


def test_special_and_unused_tokens_never_replace():
    tokens = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "[", "]", "<", "...", "the", "##s"]
    vocabulary = Vocabulary(tokens)
    assert [tokens[number] for number in vocabulary.text_ids()] == ["[", "]", "<", "...", "the", "##s"]
    assert MaskingVocabulary.of(vocabulary).replacement_ids.tolist() == [7, 8, 9, 10, 11, 12]
    assert MaskingVocabulary.of(vocabulary, "vocabulary").replacement_ids.tolist() == list(range(13))
    assert MaskingVocabulary.of(vocabulary).mask_id == 5
    assert np.flatnonzero(MaskingVocabulary.of(vocabulary).is_continuation).tolist() == [12]


@pytest.mark.parametrize(
    ("tokens", "replacements", "message"),
    [([], "text", "only special tokens"), (["the"], "all", "must be one of text, vocabulary. Received: 'all'")],
)
def test_a_vocabulary_that_cannot_mask_is_refused(tokens, replacements, message):
    with pytest.raises(InputError, match=message):
        MaskingVocabulary.of(tiny.vocabulary(*tokens), replacements)


@pytest.mark.parametrize("num_to_predict", [0, 1])
def test_a_row_without_candidates_gets_no_mask(num_to_predict):
    nothing = np.zeros((1, 4), bool)
    assert not chosen_tokens(nothing, np.array([0]), generator()).any()
    assert not chosen_words(nothing, nothing, np.array([num_to_predict]), generator()).any()


def test_ranges_are_concatenated():
    assert concatenated_ranges(np.array([5, 0, 9]), np.array([3, 2, 0])).tolist() == [5, 6, 7, 0, 1]
    assert concatenated_ranges(np.zeros(0, int), np.zeros(0, int)).tolist() == []


# Three sequences in a row of 10, 6 and 4 tokens including special ones; then one alone in a row; then padding.
PACKED_NUMBERS = np.array([[1] * 10 + [2] * 6 + [3] * 4, [1] * 12 + [0] * 8])
PACKED_TEXT = np.array(
    [
        [0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0],
        [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
    bool,
)


def test_packed_sequences_are_counted_one_by_one():
    options = MaskingOptions(masked_lm_prob=0.3, max_predictions_per_seq=20)
    # 3.0, 1.8 and 1.2; 3.6
    assert count_by_sequence(PACKED_TEXT, PACKED_NUMBERS, options).tolist() == [[3, 2, 1], [4, 0, 0]]


def test_the_last_sequences_of_a_row_get_fewer_when_there_are_too_many():
    for most, expected in ((5, [3, 2, 0]), (4, [3, 1, 0]), (2, [2, 0, 0])):
        options = MaskingOptions(masked_lm_prob=0.3, max_predictions_per_seq=most)
        assert count_by_sequence(PACKED_TEXT, PACKED_NUMBERS, options)[0].tolist() == expected


@pytest.mark.parametrize("changes", [{}, {"do_whole_word_mask": True}, {"max_ngram_size": 3}])
def test_every_packed_sequence_gets_its_own_masks(changes):
    options = MaskingOptions(masked_lm_prob=0.3, max_predictions_per_seq=6, **changes)
    input_ids = np.where(PACKED_TEXT, 7, 2)
    counts = set()
    for seed in range(50):
        made = mask_batch(input_ids, PACKED_TEXT, PACKED_NUMBERS, options, vocabulary([7]), generator(seed))
        for row in range(2):
            positions = made["masked_lm_positions"][row][made["masked_lm_weights"][row] > 0]
            assert PACKED_TEXT[row, positions].all()
            assert (np.diff(positions) > 0).all()
            counts.add((row, *np.bincount(PACKED_NUMBERS[row, positions], minlength=4)[1:].tolist()))
    assert counts == {(0, 3, 2, 1), (1, 4, 0, 0)}
