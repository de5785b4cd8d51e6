from example_records import GARDEN, PACKED, PAIR, VOCABULARY, example, ids

from data_prep.inspection.record_text import show_record


def lines(record, vocabulary=VOCABULARY, **arguments):
    return show_record(example(**record), vocabulary, **arguments).splitlines()


def test_masked_replaced_and_kept_tokens_are_told_apart():
    assert lines(PAIR) == [
        "A  [CLS] the quick [MASK](brown) cat(fox) [SEP]",
        "B  a lazy dog(dog) [SEP]",
        "next sentence  1, the second segment does not follow the first",
        "padding  6 of 16 columns",
    ]


def test_without_a_vocabulary_numbers_stand_for_tokens():
    assert lines(PAIR, None)[:2] == ["A  2 6 7 4(8) 13(9) 3", "B  10 11 12(12) 3"]


def test_the_names_of_tf_model_garden_are_read():
    assert lines(GARDEN) == lines(PAIR)


def test_packed_rows_are_shown_sequence_by_sequence():
    assert lines(PACKED) == [
        "sequence 1, 7 tokens",
        "  A  [CLS] the [MASK](fox) [SEP]",
        "  B  a dog [SEP]",
        "  next sentence  0, the second segment follows the first",
        "sequence 2, 6 tokens",
        "  A  [CLS] the lazy [SEP]",
        "  B  [MASK](cat) [SEP]",
        "  next sentence  1, the second segment does not follow the first",
        "padding  3 of 16 columns",
    ]


def test_records_without_masks_and_with_a_label_that_does_not_count_are_shown():
    record = {name: PAIR[name] for name in ("input_ids", "input_mask", "segment_ids")}
    record |= {"next_sentence_labels": [0], "next_sentence_weights": [0.0]}
    expected = ["A  [CLS] the quick [MASK] cat [SEP]", "B  a lazy dog [SEP]", "padding  6 of 16 columns"]
    assert lines(record) == expected


def test_strange_records_are_shown_as_they_are():
    record = PAIR | {"masked_lm_positions": [3, 12, 99, 0], "masked_lm_weights": [0.5, 1.0, 1.0, 0.0]}
    record["input_ids"] = [2, 6, 7, 4, 999, *record["input_ids"][5:]]
    shown = lines(record)
    assert shown[0] == "A  [CLS] the quick [MASK](brown * 0.5) ?999 [SEP]"
    assert shown[-2:] == ["predicted outside  position 12 (fox)", "predicted outside  position 99 (dog)"]


def test_long_records_are_wrapped_between_tokens():
    record = {"input_ids": ids(" ".join(["embedding"[:2], "quick"] * 40)), "input_mask": [1] * 80}
    shown = lines(record)
    assert len(shown) > 3
    assert all(len(line) <= 118 for line in shown)
    assert shown[0].startswith("A  em quick")
    assert shown[1].startswith("   ")


def test_fine_tuning_records_show_their_labels():
    tokens = {name: PAIR[name] for name in ("input_ids", "input_mask", "segment_ids")}
    shown = lines(tokens | {"label_ids": [2], "is_real_example": [1]})
    assert shown[-2:] == ["is_real_example  1", "label_ids        2"]
    squad = tokens | {"start_positions": [1], "end_positions": [2], "unique_ids": [1000000001]}
    assert "answer           the quick" in lines(squad)
    no_answer = squad | {"start_positions": [0], "end_positions": [0]}
    assert "answer           [CLS]" in lines(no_answer)
    reversed_answer = squad | {"start_positions": [3], "end_positions": [2]}
    assert not any(line.startswith("answer") for line in lines(reversed_answer))
    tagging = tokens | {"label_ids": [-1, 0, 3, *[0] * 13]}
    assert lines(tagging)[0] == "A  [CLS]/-1 the/0 quick/3 [MASK]/0 cat/0 [SEP]/0"


def test_features_of_other_tools_are_listed_shortened():
    record = {"name": [b"a picture"], "scores": [0.5, 1.5], "pixels": list(range(50))}
    assert lines(record, None) == [
        "name    b'a picture'",
        "pixels  0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ... (50 values)",
        "scores  0.5 1.5",
    ]
