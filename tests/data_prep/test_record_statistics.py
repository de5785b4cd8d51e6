"""The counts equal counts by hand, and every warning has a test."""

import numpy as np
import pytest
from example_records import GARDEN, PACKED, PAIR, VOCABULARY, example, ids, pretraining_example, renamed

from data_prep.inspection.parsed_records import find_features, parse_batch
from data_prep.inspection.record_report import report_text, summarize
from data_prep.inspection.record_statistics import RecordStatistics, RepetitionCounter, spread


def count(*records, vocabulary=VOCABULARY):
    """The statistics of records given as dictionaries, taken in two batches."""
    statistics = RecordStatistics(vocabulary)
    serialized = [example(**record) for record in records]
    features = find_features(serialized)
    for part in (serialized[:1], serialized[1:]):
        if part:
            statistics.add(parse_batch(part, features), "file")
    return statistics


def findings(*records, **arguments):
    statistics = count(*records, **arguments)
    return {name: (number, statistics.first_faulty[name]) for name, number in statistics.num_faulty.items()}


def test_counts_have_a_spread_and_a_histogram_of_few_ranges():
    assert spread({1: 1, 3: 8, 7: 1}) == {
        "min": 1,
        "median": 3,
        "mean": 3.2,
        "max": 7,
        "histogram": {"1": 1, "2": 0, "3": 8, "4": 0, "5": 0, "6": 0, "7": 1},
    }
    histogram = spread({1: 1, 3: 8, 7: 1, 40: 1})["histogram"]
    assert histogram["1-3"] == 9
    assert list(histogram)[-1] == "40"


def test_what_stands_at_predicted_places_is_counted_by_kind():
    statistics = count(PAIR, PAIR)
    assert statistics.num_predicted == 6
    assert (statistics.num_masked, statistics.num_kept, statistics.num_replaced) == (2, 2, 2)
    assert statistics.num_tokens == 20
    assert findings(PAIR, PAIR) == {}


def test_records_of_tf_model_garden_are_counted_alike():
    assert summarize(count(GARDEN, GARDEN)) == summarize(count(PAIR, PAIR))


def test_without_a_vocabulary_the_kinds_of_predicted_tokens_are_left_out():
    summary = summarize(count(PAIR, vocabulary=None))
    assert summary["num_predicted"] == 3
    assert not {"predicted_tokens", "unknown_share"} & set(summary)
    assert "at their positions" not in report_text(summary)


def test_packed_rows_are_counted_by_row_and_by_sequence():
    statistics = count(PACKED)
    assert statistics.num_sequences == 2
    assert statistics.lengths == {13: 1}
    assert statistics.next_labels == {0: 1, 1: 1}
    assert findings(PACKED) == {}
    assert statistics.same_texts.copies.total() == 2
    assert "sequences              2.00 in a record" in report_text(summarize(statistics))


def test_texts_are_compared_as_they_were_before_masking():
    other_mask = pretraining_example("[CLS] [MASK] quick brown fox [SEP] a lazy dog [SEP]", {1: "the"})
    summary = summarize(count(PAIR, other_mask, PAIR))
    assert summary["same_texts"] == pytest.approx(2 / 3)
    assert summary["identical_records"] == pytest.approx(1 / 3)
    other_label = PAIR | {"next_sentence_labels": [0]}
    assert summarize(count(PAIR, other_label, PAIR | {"label_ids": [1]}))["identical_records"] == 0
    # In a packed row a sequence is the same text as in a row of its own.
    alone = pretraining_example("[CLS] the [MASK] [SEP] a dog [SEP]", {2: "fox"})
    packed = dict(PACKED)
    del packed["cls_positions"], packed["next_sentence_weights"]
    assert summarize(count(alone, packed))["same_texts"] == pytest.approx(1 / 3)


def test_of_very_many_texts_a_sample_gives_the_share_in_bounded_memory():
    counter = RepetitionCounter(most_hashes=4000)
    values = np.random.default_rng(0).permutation(np.repeat(np.arange(25_000), 4))
    for part in np.array_split(values, 100):
        counter.add(int(number).to_bytes(4) for number in part)
        assert len(counter.copies) <= 4000
    assert set(counter.copies.values()) == {4}
    assert abs(counter.share_repeated() - 0.75) < 0.001
    assert RepetitionCounter().share_repeated() == 0


def test_features_that_are_labels_are_counted_by_value():
    statistics = count(*({"label_ids": [number % 3], "score": [number / 2]} for number in range(40)), vocabulary=None)
    assert statistics.features["label_ids"].counts == {0: 14, 1: 13, 2: 13}
    assert statistics.features["score"].counts is None
    assert (statistics.features["score"].lowest, statistics.features["score"].highest) == (0.0, 19.5)
    assert "lengths" not in summarize(statistics)


def changed(**lists):
    return PAIR | lists


def at(name, place, value):
    values = list(PAIR[name])
    values[place] = value
    return PAIR | {name: values}


@pytest.mark.parametrize(
    ("record", "finding"),
    [
        (at("input_ids", 1, 999), "an id is beyond the vocabulary of 18 tokens"),
        (at("masked_lm_ids", 0, 18), "an id is beyond the vocabulary of 18 tokens"),
        (at("input_ids", 1, -1), "an id is negative"),
        (at("input_ids", 0, 6), "the first token is not [CLS]"),
        (at("input_ids", 1, 4), "a [MASK] is not to be predicted"),
        (at("masked_lm_ids", 0, 3), "a special token is to be predicted"),
        (at("masked_lm_positions", 1, 12), "a predicted position is padding"),
        (at("masked_lm_positions", 1, 16), "a predicted position lies outside the row"),
        (at("masked_lm_positions", 1, -1), "a predicted position lies outside the row"),
        (at("masked_lm_positions", 1, 8), "a position is predicted twice"),
        (at("masked_lm_weights", 0, 0.0), "masked_lm_weights has a 0 before a 1"),
        (at("masked_lm_weights", 0, 0.5), "masked_lm_weights are neither 0 nor 1"),
        (changed(masked_lm_weights=[0.0] * 4), "nothing is to be predicted"),
        (at("input_mask", 4, 0), "input_mask has padding between tokens"),
        (at("input_mask", 4, -1), "input_mask is negative"),
        (changed(input_mask=[1] * 5 + [3] * 5 + [0] * 6), "input_mask does not number its sequences 1, 2, 3, ..."),
        (changed(input_mask=[2] * 5 + [1] * 5 + [0] * 6), "input_mask does not number its sequences 1, 2, 3, ..."),
        (changed(input_mask=[0] * 16), "there is no token at all"),
        (at("segment_ids", 4, 2), "segment_ids are neither 0 nor 1"),
        (changed(segment_ids=[0] * 12), "segment_ids has another length than input_ids"),
        (changed(masked_lm_ids=[8, 9]), "masked_lm_ids has another length than masked_lm_positions"),
        (changed(next_sentence_labels=[2]), "a next-sentence label is neither 0 nor 1"),
        # Also without predictions, at padding, in labels, and of other types.
        (at("input_ids", 3, -5), "an id is negative"),
        (at("input_ids", 15, 10**18), "an id is beyond the vocabulary of 18 tokens"),
        (at("masked_lm_ids", 3, -5), "an id is negative"),
        (at("masked_lm_positions", 3, 10**18), "a predicted position lies outside the row"),
        (at("input_mask", 1, 17), "input_mask has a number beyond the row"),
        (at("segment_ids", 15, 7), "segment_ids are neither 0 nor 1"),
        (at("masked_lm_weights", 3, float("-inf")), "masked_lm_weights are negative, infinite or NaN"),
        (at("masked_lm_weights", 0, float("nan")), "masked_lm_weights are negative, infinite or NaN"),
        (PACKED | {"next_sentence_labels": [0, 1, 7]}, "a next-sentence label is neither 0 nor 1"),
        (PACKED | {"cls_positions": [0, 7, 99]}, "a position in cls_positions lies outside the row"),
        (
            PACKED | {"next_sentence_weights": [1.0, float("inf"), 0.0]},
            "next_sentence_weights are negative, infinite or NaN",
        ),
        (PACKED | {"cls_positions": [0, 8, 0]}, "cls_positions are not where sequences begin"),
        (PACKED | {"cls_positions": [0, 99, 0]}, "cls_positions are not where sequences begin"),
    ],
)
def test_each_thing_that_is_wrong_is_found_and_placed(record, finding):
    good = PACKED if "cls_positions" in record else PAIR
    assert findings(good) == {}
    assert findings(good, good, record, record)[finding] == (2, "file: record 3")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"input_ids": [b"2", b"3"] * 8}, ["input_ids holds bytes, but integers are expected"]),
        ({"input_ids": [float(i) for i in PAIR["input_ids"]]}, ["input_ids holds floats, but integers are expected"]),
        ({"masked_lm_weights": [1] * 4}, ["masked_lm_weights holds integers, but floats are expected"]),
        (
            {"input_mask": [1.0, float("nan")] * 8},
            ["input_mask holds floats, but integers are expected"],
        ),
    ],
)
@pytest.mark.parametrize("names", [{}, {"input_ids": "input_word_ids"}])
def test_numbers_of_another_type_are_found(changes, expected, names):
    record = renamed(PAIR | changes, **names)
    for finding in expected:
        assert findings(record, record)[finding] == (2, "file: record 1")


def test_left_padded_rows_are_not_wrong():
    text = ids("[CLS] the [SEP] dog [SEP]")
    record = {"input_ids": [0] * 3 + text, "input_mask": [0] * 3 + [1] * 5}
    assert findings(record) == {}


def test_multiple_choice_rows_are_not_wrong():
    text = ids("[CLS] the [SEP] dog [SEP]")
    record = {"input_ids": [*text, 0, 0, *text, 0], "input_mask": [1] * 5 + [0] * 2 + [1] * 5 + [0], "label_ids": [1]}
    assert findings(record) == {}


def warnings(*records, **arguments):
    return " | ".join(summarize(count(*records), **arguments)["warnings"])


def usual_records(number, rng, masked=0.8, kept=0.1, num_predicted=3):
    """Records of 20 tokens, three of them predicted, drawn as BERT draws them."""
    for _ in range(number):
        tokens = rng.choice(np.array(ids("the quick brown fox a lazy dog cat .")), 17)
        numbers = [2, *tokens[:9].tolist(), 3, *tokens[9:].tolist(), 3]
        positions = sorted(rng.choice([p for p in range(20) if p not in (0, 10, 19)], num_predicted, replace=False))
        labels = [numbers[position] for position in positions]
        for position in positions:
            draw = rng.random()
            if draw < masked:
                numbers[position] = 4
            elif draw > masked + kept:
                numbers[position] = int(rng.choice(ids("em ##bed ##ding")))
        yield {
            "input_ids": numbers,
            "input_mask": [1] * 20,
            "segment_ids": [0] * 11 + [1] * 9,
            "masked_lm_positions": [int(position) for position in positions],
            "masked_lm_ids": labels,
            "masked_lm_weights": [1.0] * num_predicted,
            "next_sentence_labels": [int(rng.integers(2))],
        }


def test_usual_records_raise_no_suspicion():
    records = list(usual_records(1200, np.random.default_rng(0)))
    assert warnings(*records) == ""
    summary = summarize(count(*records))
    assert abs(summary["predicted_tokens"]["[MASK]"] - 0.8) < 0.03
    assert abs(summary["predicted_share"] - 0.15) < 1e-9
    assert "nothing suspicious" in report_text(summary)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_predicted": 5}, "25.0% of the tokens are predicted where 15% are expected"),
        ({"num_predicted": 1}, "5.0% of the tokens are predicted where 15% are expected"),
        ({"masked": 0.95, "kept": 0.0}, "% are [MASK], 0.0% as they were and"),
        ({"masked": 0.0, "kept": 0.1}, "of the predicted tokens 0.0% are [MASK]"),
    ],
)
def test_masks_that_are_not_as_usual_are_suspicious(arguments, message):
    records = list(usual_records(500, np.random.default_rng(0), **arguments))
    assert message in warnings(*records)


def test_the_mask_rate_that_was_asked_for_is_not_suspicious():
    records = list(usual_records(500, np.random.default_rng(0), num_predicted=6))
    assert "30.0% of the tokens are predicted where 15% are expected" in warnings(*records)
    assert "are expected" not in warnings(*records, expected_mask_rate=0.3)


def test_labels_that_teach_nothing_and_copies_are_suspicious():
    assert "all next_sentence_labels are 1: the task teaches nothing" in warnings(PAIR, PAIR)
    assert "50.0% of the records are exact copies of others" in warnings(PAIR, PAIR)
    records = [PAIR | {"next_sentence_labels": [int(number % 5 == 0)]} for number in range(1000)]
    assert "20.0% of the next_sentence_labels are 1; half is usual" in warnings(*records)


def test_unknown_tokens_and_lists_of_different_lengths_are_suspicious():
    unknown = pretraining_example("[CLS] [UNK] [UNK] [SEP] dog [SEP]", {4: "dog"})
    assert "33.3% of the tokens are unknown" in warnings(unknown)
    longer = pretraining_example("[CLS] the dog [SEP] dog [SEP]", {4: "dog"}, length=20)
    assert "input_ids has different lengths, from 16 to 20" in warnings(PAIR, longer)
