import tensorflow as tf
from example_bytes import serialize

from keras_bert.records import features

RECORD = features.pretraining_features(max_seq_length=4, max_predictions_per_seq=2)
VALUES = {
    "input_ids": [2, 7, 8, 3],
    "input_mask": [1, 1, 1, 1],
    "segment_ids": [0, 0, 0, 0],
    "masked_lm_positions": [1, 0],
    "masked_lm_ids": [9, 0],
    "masked_lm_weights": [1.0, 0.0],
    "next_sentence_labels": [1],
}


def test_pretraining_record_has_googles_names():
    assert [feature.name for feature in RECORD] == list(VALUES)


def test_the_rows_of_choices_are_separated():
    record = features.multiple_choice_features(max_seq_length=3, num_choices=2)
    rows = {name: [2, 7, 3, 2, 8, 3] for name in ("input_ids", "input_mask", "segment_ids")}
    serialized = serialize({**rows, "label_ids": [1], "is_real_example": [1]}, record)
    parsed = features.parse(tf.constant([serialized]), record)
    assert parsed["input_ids"].numpy().tolist() == [[[2, 7, 3], [2, 8, 3]]]
    assert parsed["label_ids"].shape == (1, 1)
