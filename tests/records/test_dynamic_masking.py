"""Masks made while records are read: new in every epoch, the same for the same seed, correctly distributed."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tiny
from example_bytes import serialize
from example_records import assert_same_batches, write_records

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import naming_damaged_records, pretraining_dataset
from keras_bert.records.dynamic_masking import FallingRate
from keras_bert.tokenization.vocabulary import Vocabulary

# Half of the tokens continue a word.
VOCABULARY = tiny.vocabulary(*(f"w{number}" for number in range(45)), *(f"##c{number}" for number in range(50)))
SEQ = 32
MASKED = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def write(path, num_records, places=1, seed=0):
    """Rows of random tokens in pairs of segments, of 10 to 32 columns; packed, up to `places` of 10 columns."""
    draw = np.random.default_rng(seed)
    description = features.pretraining_features(SEQ, 0, places)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(num_records):
            values = {feature.name: np.zeros(feature.length, int) for feature in description}
            lengths = [draw.integers(10, SEQ + 1)] if places == 1 else [10] * places
            for place, length in enumerate(lengths):
                start, end = sum(lengths[:place]), sum(lengths[: place + 1])
                values["input_ids"][start:end] = draw.integers(5, len(VOCABULARY), length)
                values["input_ids"][[start, start + 5, end - 1]] = [2, 3, 3]
                values["input_mask"][start:end] = place + 1
                if places > 1:
                    values["cls_positions"][place], values["next_sentence_weights"][place] = start, 1
            writer.write(serialize(values, description))
    return str(path)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return write(tmp_path_factory.mktemp("records") / "a.tfrecord", 100)


def batches(path, number=None, batch_size=20, vocabulary=VOCABULARY, **options):
    dataset = pretraining_dataset(path, batch_size, vocabulary=vocabulary, **options)
    return [{name: values.numpy() for name, values in batch.items()} for batch in dataset.take(number or -1)]


def evaluation(path, **options):
    return batches(path, shuffle=False, repeat=False, **options)


def test_batches_have_masks_with_the_shapes_and_dtypes_of_masked_records(records):
    for repeat, rows in ((True, 20), (False, None)):
        dataset = pretraining_dataset(records, 20, vocabulary=VOCABULARY, repeat=repeat)
        assert {name: (tuple(spec.shape), spec.dtype.name) for name, spec in dataset.element_spec.items()} == {
            "input_ids": ((rows, 32), "int32"),
            "input_mask": ((rows, 32), "int32"),
            "segment_ids": ((rows, 32), "int32"),
            "masked_lm_positions": ((rows, 5), "int32"),
            "masked_lm_ids": ((rows, 5), "int32"),
            "masked_lm_weights": ((rows, 5), "float32"),
            "next_sentence_labels": ((rows, 1), "int32"),
        }


def test_putting_the_masked_tokens_back_gives_the_records(records):
    written = next(iter(tf.data.TFRecordDataset(records).batch(100)))
    originals = features.parse(written, features.pretraining_features(SEQ, 0))["input_ids"].numpy()
    masked = {name: np.concatenate([batch[name] for batch in evaluation(records)]) for name in (*MASKED, "input_mask")}
    row, place = np.nonzero(masked["masked_lm_weights"])
    column, ids = masked["masked_lm_positions"][row, place], masked["masked_lm_ids"][row, place]
    assert not np.array_equal(masked["input_ids"], originals)
    masked["input_ids"][row, column] = ids
    np.testing.assert_array_equal(masked["input_ids"], originals)
    assert not set(ids) & {0, 2, 3}, "a special token was masked"
    expected = np.maximum(1, np.rint(0.15 * masked["input_mask"].sum(axis=1)))
    np.testing.assert_array_equal(masked["masked_lm_weights"].sum(axis=1), expected)


def test_the_same_seed_gives_the_same_masks_and_another_does_not(records):
    first, again = (batches(records, 12, seed=3) for _ in range(2))
    assert_same_batches(first, again)
    # Unshuffled: the same rows in the same batches.
    first, other = (batches(records, 2, seed=seed, shuffle=False) for seed in (3, 4))
    np.testing.assert_array_equal(first[0]["input_mask"], other[0]["input_mask"])
    assert not np.array_equal(first[0]["masked_lm_positions"], other[0]["masked_lm_positions"])
    assert batches(records, 1, seed=-1)


def test_every_epoch_has_new_masks(records):
    dataset = pretraining_dataset(records, 20, vocabulary=VOCABULARY, shuffle=False)
    found = [batch["masked_lm_positions"].numpy() for batch in dataset.take(15)]
    epochs = [np.concatenate(found[start : start + 5]) for start in (0, 5, 10)]
    for left, right in itertools.combinations(epochs, 2):
        assert (left == right).all(axis=1).mean() < 0.1


def test_evaluation_has_the_same_masks_every_time(records):
    dataset = pretraining_dataset(records, 20, vocabulary=VOCABULARY, shuffle=False, repeat=False)
    first, again = (list(dataset.as_numpy_iterator()) for _ in range(2))
    assert_same_batches(first, again)
    assert_same_batches(first, evaluation(records))


def test_whole_words_and_spans_are_masked_if_requested(records):
    is_continuation = np.array([token.startswith("##") for token in VOCABULARY.tokens])
    for options in ({"do_whole_word_mask": True}, {"max_ngram_size": 3}):
        whole = 0
        for batch in evaluation(records, masking=options):
            for ids, positions, labels, weights in zip(*(batch[name] for name in MASKED), strict=True):
                original = ids.copy()
                targets = positions[weights > 0]
                original[targets] = labels[weights > 0]
                for target in targets:
                    following = target + 1
                    if following < SEQ and is_continuation[original[following]]:
                        assert following in targets, "a word was cut"
                        whole += 1
        assert whole > 20
    spans = [evaluation(records, masking={"max_ngram_size": size}) for size in (1, 3)]
    neighbours = [sum(np.sum(np.diff(batch["masked_lm_positions"], axis=1) == 1) for batch in found) for found in spans]
    assert neighbours[1] > neighbours[0]


def test_random_tokens_are_drawn_from_the_whole_vocabulary_if_requested(records):
    found = batches(records, 100, masking={"replacement_tokens": "vocabulary"})
    shown = np.concatenate(
        [np.take_along_axis(batch["input_ids"], batch["masked_lm_positions"], axis=1).ravel() for batch in found]
    )
    assert {0, 1, 2, 3} <= set(shown)


def test_packed_rows_have_masks_for_each_sequence(tmp_path):
    path = write(tmp_path / "a.tfrecord", 40, places=3)
    for batch in evaluation(path):
        assert batch["masked_lm_positions"].shape == (20, 7)  # 0.15 * 32, and plus a half for each of three
        for positions, weights in zip(batch["masked_lm_positions"], batch["masked_lm_weights"], strict=True):
            # Of ten tokens round(1.5) = 2 are masked.
            assert np.bincount(positions[weights > 0] // 10).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("places", "shortest", "share"), [(10, 3, 0.15), (8, 4, 0.15), (10, 3, 0.05), (4, 8, 0.35)])
def test_by_default_there_is_room_for_the_masks_of_all_sequences(tmp_path, places, shortest, share):
    from keras_bert.records.dynamic_masking import DynamicMasking
    from keras_bert.records.form import RecordForm
    from keras_bert.records.masked_positions import count_by_sequence

    form = RecordForm(SEQ, 0, places, True, {})
    options = DynamicMasking(form, VOCABULARY, {"masked_lm_prob": share}, seed=0).options
    numbers = np.minimum(np.arange(SEQ) // shortest + 1, places)[None] * (np.arange(SEQ) < places * shortest)
    is_text = numbers > 0
    wanted = sum(max(1, round(share * length)) for length in np.bincount(numbers[0])[1:])
    assert count_by_sequence(is_text, numbers, options).sum() == wanted


def test_the_number_of_masks_can_be_limited(records):
    found = evaluation(records, max_predictions_per_seq=2)
    assert found[0]["masked_lm_ids"].shape == (20, 2)
    assert max(batch["masked_lm_weights"].sum(axis=1).max() for batch in found) == 2


def test_the_share_of_masks_falls_linearly_from_batch_to_batch_and_then_stays(records):
    falling = {"masking": {"masked_lm_prob": 0.4}, "falling_rate": FallingRate(0.1, num_steps=10, first_step=2)}
    found = batches(records, 12, **falling)
    for number, batch in enumerate(found):
        share = FallingRate(0.1, 10, 2).at(0.4, number)
        assert share == pytest.approx(0.4 - 0.3 * min(1, (number + 2) / 10))
        expected = np.maximum(1, np.rint(share * batch["input_mask"].sum(axis=1)))
        np.testing.assert_array_equal(batch["masked_lm_weights"].sum(axis=1), expected)
        assert batch["masked_lm_ids"].shape == (20, 13)  # as many as the highest rate needs
    assert_same_batches(found[7:], batches(records, 5, start_step=7, **falling))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"falling_rate": FallingRate(0.2, 9)}, "masked_lm_prob_end must be a number above 0 and at most 0.15"),
        ({"falling_rate": FallingRate(0.0, 9)}, "masked_lm_prob_end must be a number above 0"),
        ({"vocabulary": None}, r"a\.tfrecord: its records have no masks. .* \(--vocab_file\)"),
        ({"masking": {"mask_rate": 0.3}}, "Masking has no option mask_rate. Use one of: masked_lm_prob, "),
        ({"masking": {"whole_word_actions": True}}, "whole_word_actions decides word by word"),
        ({"max_predictions_per_seq": -1}, "max_predictions_per_seq must be a whole number of at least 1"),
        ({"vocabulary": Vocabulary(tiny.SPECIAL_TOKENS)}, "only special tokens"),
    ],
)
def test_records_that_cannot_be_masked_are_refused_before_reading(records, arguments, message):
    with pytest.raises(InputError, match=message):
        pretraining_dataset(records, 4, **{"vocabulary": VOCABULARY, **arguments})


def test_options_are_refused_for_records_with_masks(tmp_path):
    description = features.pretraining_features(8, 2)
    values = {feature.name: np.ones(feature.length, int) for feature in description}
    write_records(tmp_path / "a.tfrecord", [serialize(values, description)])
    for name, options in [
        ("masked_lm_prob", {"masking": {"masked_lm_prob": 0.2}}),
        ("masked_lm_prob_end", {"falling_rate": FallingRate(0.1, 9)}),
    ]:
        with pytest.raises(InputError, match=rf"a\.tfrecord: its records have masks, so {name} would have no effect"):
            pretraining_dataset(str(tmp_path), 1, vocabulary=VOCABULARY, **options)
    pretraining_dataset(str(tmp_path), 1, vocabulary=VOCABULARY, masking={})


def test_a_vocabulary_that_is_too_small_is_one_clear_line(records):
    small = Vocabulary(VOCABULARY.tokens[:50])
    message = r"^The records hold the token 9\d, but the vocabulary has 50 tokens\. [^\n]*$"
    with pytest.raises(InputError, match=message), naming_damaged_records(records):
        evaluation(records, vocabulary=small)
    with pytest.raises(InputError, match="vocab_size=50"):
        evaluation(records, vocabulary=small, config=BertConfig.from_size("tiny", vocab_size=50))
