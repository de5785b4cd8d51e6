"""The kind of pre-training records in files is detected."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from example_bytes import serialize

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.form import RecordForm, read_form

KINDS = {
    "google": {},
    "unmasked": {"max_predictions_per_seq": 0},
    "packed": {"max_sequences_per_row": 3},
    "no_task": {"has_sentence_task": False},
    "unmasked_packed": {"max_predictions_per_seq": 0, "max_sequences_per_row": 3},
    "no_task_packed": {"max_sequences_per_row": 3, "has_sentence_task": False},
    "order": {"has_sentence_task": False, "has_order": True},
    "streams": {"has_sentence_task": False, "has_order": True, "has_streams": True},
}


def write(path, left_out=(), aliases=None, **form):
    """Two records of ones, with 8 columns and 2 predictions by default."""
    form = {"max_seq_length": 8, "max_predictions_per_seq": 2, **form}
    description = [feature for feature in features.pretraining_features(**form) if feature.name not in left_out]
    if aliases:
        description = [features.Feature(aliases.get(f.name, f.name), f.length, f.dtype) for f in description]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(2):
            writer.write(serialize({f.name: np.ones(f.length, int) for f in description}, description))
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_is_that_of_the_written_records(tmp_path, kind):
    path = write(tmp_path / "a.tfrecord", **KINDS[kind])
    first_records, form = read_form(path)
    assert list(first_records) == [path]
    expected = {"max_seq_length": 8, "max_predictions_per_seq": 2, **KINDS[kind]}
    assert form.features == features.pretraining_features(**expected)


def test_the_names_of_tf_model_garden_are_noticed(tmp_path):
    _, form = read_form(write(tmp_path / "a.tfrecord", aliases={"input_ids": "input_word_ids"}))
    assert form.aliases == {"input_ids": "input_word_ids"}
    assert form.max_seq_length == 8


def test_files_of_different_kinds_are_not_mixed(tmp_path):
    kinds = {name: KINDS[name] for name in KINDS if name != "no_task_packed"}
    kinds["v2_names"] = {"aliases": {"input_ids": "input_word_ids"}}
    paths = [write(tmp_path / f"{name}.tfrecord", **kinds[name]) for name in sorted(kinds)]
    for first, second in itertools.combinations(paths, 2):
        with pytest.raises(InputError, match=f"{second} holds .* but .*{first} holds"):
            read_form([second, first])


def test_files_of_other_lengths_are_not_mixed(tmp_path):
    a = write(tmp_path / "a.tfrecord", max_sequences_per_row=3)
    b = write(tmp_path / "b.tfrecord", max_sequences_per_row=4)
    with pytest.raises(InputError, match=r"b\.tfrecord: next_sentence_labels has 4 numbers .* but 3 are expected"):
        read_form([a, b])


def test_without_masks_no_number_of_predictions_is_compared(tmp_path):
    unmasked = write(tmp_path / "a.tfrecord", max_predictions_per_seq=0)
    assert read_form(unmasked, max_predictions_per_seq=5)[1].max_predictions_per_seq == 0


def test_the_rows_of_choices_are_separated():
    record = features.multiple_choice_features(max_seq_length=3, num_choices=2)
    rows = {name: [2, 7, 3, 2, 8, 3] for name in ("input_ids", "input_mask", "segment_ids")}
    serialized = serialize({**rows, "label_ids": [1], "is_real_example": [1]}, record)
    parsed = features.parse(tf.constant([serialized]), record)
    assert parsed["input_ids"].numpy().tolist() == [[[2, 7, 3], [2, 8, 3]]]
    assert parsed["label_ids"].shape == (1, 1)


@pytest.mark.parametrize("name", ["masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels"])
def test_an_incomplete_record_is_refused_with_the_missing_feature(tmp_path, name):
    path = write(tmp_path / "a.tfrecord", left_out=[name], max_predictions_per_seq=1)
    with pytest.raises(InputError, match=rf"a\.tfrecord: its records have no {name}. They have: input_ids, input_mask"):
        read_form(path)


def test_the_kind_names_every_difference():
    kinds = {
        RecordForm(8, predictions, places, weights, aliases, order, streams).kind
        for predictions in (0, 2)
        for places in (1, 3)
        for weights in (False, True)
        for aliases in ({}, {"input_ids": "input_word_ids"})
        for order in (False, True)
        for streams in (0, 4)
    }
    assert len(kinds) == 64
