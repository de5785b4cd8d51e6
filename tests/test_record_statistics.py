"""The counts equal those of records that can be counted by hand; and every warning is tested, one by one."""

import numpy as np
import pytest
from example_records import GARDEN, KERAS_HUB, PACKED, PAIR, VOCABULARY, example, ids, pretraining_example, renamed

from data_prep.inspection.parsed_records import ParsedBatch, find_schema, parse_batch
from data_prep.inspection.record_report import report_text, summarize
from data_prep.inspection.record_statistics import Histogram, RecordStatistics


def count(*records, vocabulary=VOCABULARY):
    """The statistics of records given as dictionaries, taken in two batches."""
    statistics = RecordStatistics(vocabulary)
    serialized = [example(**record) for record in records]
    schema = find_schema(serialized)
    start = 0
    for part in (serialized[:1], serialized[1:]):
        if part:
            statistics.add(ParsedBatch(schema, parse_batch(part, schema), sum(map(len, part))), "file", start + 1)
        start += len(part)
    return statistics


def findings(*records, **arguments):
    return {name: (found.num_records, found.first) for name, found in count(*records, **arguments).findings.items()}


def test_histograms_grow_and_have_percentiles():
    histogram = Histogram()
    for part in ([3, 1], [7, 3, 3, 3, 3, 3, 3, 3]):
        histogram.add(np.array(part))
    assert histogram.summary() == {
        "min": 1,
        "percentile_5": 1,
        "median": 3,
        "mean": 3.2,
        "percentile_95": 7,
        "max": 7,
    }
    assert Histogram().summary() == {}


def test_what_stands_at_predicted_places_is_counted_by_kind():
    statistics = count(PAIR, PAIR)
    assert statistics.num_predicted == 6
    assert (statistics.num_masked, statistics.num_kept, statistics.num_replaced) == (2, 2, 2)
    assert statistics.num_special_replacements == 0
    assert statistics.num_tokens == 20
    assert statistics.findings == {}
    np.testing.assert_array_equal(np.flatnonzero(statistics.predicted_at.counts), [3, 4, 8])


def test_tokens_are_counted_as_they_were_before_masking():
    statistics = count(PAIR)
    expected = np.bincount(ids("[CLS] the quick brown fox [SEP] a lazy dog [SEP]"))
    np.testing.assert_array_equal(statistics.tokens.counts[: len(expected)], expected)
    assert statistics.tokens.total == 10


@pytest.mark.parametrize("record", [GARDEN, KERAS_HUB])
def test_records_of_other_tools_are_counted_alike(record):
    mine, theirs = summarize(count(PAIR, PAIR)), summarize(count(record, record))
    for name in ("predictions", "tokens", "lengths", "padding_share", "repetitions"):
        if name == "repetitions":
            mine[name].pop("identical_records"), theirs[name].pop("identical_records")
        assert mine[name] == theirs[name]


def test_without_a_vocabulary_the_mask_is_what_mostly_stands_at_changed_places():
    record = pretraining_example("[CLS] [MASK] [MASK] [SEP] cat dog [SEP]", {1: "the", 2: "fox", 4: "dog", 5: "dog"})
    statistics = count(record, vocabulary=None)
    assert statistics.mask_id == VOCABULARY.mask_id
    assert (statistics.num_masked, statistics.num_kept, statistics.num_replaced) == (2, 1, 1)
    assert count(PAIR, vocabulary=None).mask_id is None  # one [MASK] and one other: it cannot be detected


def test_packed_rows_are_counted_by_row_and_by_sequence():
    statistics = count(PACKED)
    assert statistics.sequences_per_row.counts.tolist() == [0, 0, 1]
    assert np.flatnonzero(statistics.sequence_lengths.counts).tolist() == [6, 7]
    assert statistics.lengths.counts[13] == 1
    assert statistics.next_labels.counts.tolist() == [1, 1]
    assert statistics.findings == {}
    assert statistics.texts.summary()["num_counted"] == 2


def test_texts_are_compared_as_they_were_before_masking():
    other_mask = pretraining_example("[CLS] [MASK] quick brown fox [SEP] a lazy dog [SEP]", {1: "the"})
    summary = summarize(count(PAIR, other_mask, PAIR))["repetitions"]
    assert summary["same_texts"]["most_copies"] == 3
    assert summary["identical_records"]["most_copies"] == 2
    other_label = PAIR | {"next_sentence_labels": [0]}
    assert count(PAIR, other_label, PAIR | {"label_ids": [1]}).records.summary()["most_copies"] == 1
    # A sequence in a packed row is the same text as in a separate row.
    alone = pretraining_example("[CLS] the [MASK] [SEP] a dog [SEP]", {2: "fox"})
    packed = dict(PACKED)
    del packed["cls_positions"], packed["next_sentence_weights"]
    assert count(alone, packed).texts.summary()["most_copies"] == 2


def test_words_of_several_pieces_are_predicted_in_whole_or_in_part():
    whole = pretraining_example("[CLS] [MASK] [MASK] [MASK] [SEP] dog [SEP]", {1: "em", 2: "##bed", 3: "##ding"})
    part = pretraining_example("[CLS] em [MASK] ##ding [SEP] [MASK] [SEP]", {2: "##bed", 5: "dog"})
    behind_separator = pretraining_example("[CLS] a [SEP] [MASK] dog [SEP]", {3: "##bed"})
    statistics = count(whole, part, behind_separator)
    assert (statistics.num_words_touched, statistics.num_words_whole) == (2, 1)


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
        (changed(next_sentence_labels=[2]), "a next-sentence label is neither 0 nor 1"),
        # Also where nothing is to be predicted, at padding and under a label, and of other types.
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
            ["input_mask holds floats, but integers are expected", "input_mask is infinite or NaN"],
        ),
    ],
)
@pytest.mark.parametrize("names", [{}, {"input_ids": "input_word_ids"}, {"input_ids": "token_ids"}])
def test_numbers_of_another_type_are_found(changes, expected, names):
    record = renamed(PAIR | changes, **names)
    for finding in expected:
        assert findings(record, record)[finding] == (2, "file: record 1")


def test_left_padded_rows_are_not_wrong():
    text = ids("[CLS] the [SEP] dog [SEP]")
    record = {"input_ids": [0] * 3 + text, "input_mask": [0] * 3 + [1] * 5}
    assert findings(record) == {}


def warnings(*records, **arguments):
    return " | ".join(summarize(count(*records), **arguments)["warnings"])


def usual_records(number, rng, masked=0.8, kept=0.1, num_predicted=3, special=False):
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
                numbers[position] = 5 if special else int(rng.choice(ids("em ##bed ##ding")))
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
    assert abs(summary["predictions"]["masked_share"] - 0.8) < 0.03
    assert abs(summary["predictions"]["share_of_tokens"] - 0.15) < 1e-9
    assert "nothing suspicious" in report_text(summary)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"num_predicted": 5},
            "25.0% of the tokens are predicted where 15% are expected; 100% of the records have the",
        ),
        ({"num_predicted": 1}, "5.0% of the tokens are predicted where 15% are expected"),
        ({"masked": 0.95, "kept": 0.0}, "% are [MASK], 0.0% as they were and"),
        ({"masked": 0.0, "kept": 0.1}, "no token stands at most of the changed places: is there no [MASK]?"),
        ({"special": True}, "100.0% of the replaced tokens became special or unused ones"),
    ],
)
def test_masks_that_are_not_as_usual_are_suspicious(arguments, message):
    records = list(usual_records(500, np.random.default_rng(0), **arguments))
    if arguments.get("masked") == 0.0:
        found = " | ".join(summarize(count(*records, vocabulary=None))["warnings"])
        assert message in found
    else:
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
    too_few = GARDEN | {"input_type_ids": [0] * 12, "masked_lm_ids": ids("dog cat")}
    assert "segment_ids has 12 places and input_ids 16" in warnings(too_few)
    assert "masked_lm_ids has 2 places and masked_lm_positions 4" in warnings(too_few)


def test_a_huge_id_does_not_ask_for_huge_memory():
    assert count(at("input_ids", 1, 1 << 60), at("masked_lm_ids", 0, 1 << 60)).num_large_ids == 2
