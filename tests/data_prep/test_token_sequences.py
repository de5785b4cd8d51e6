import numpy as np
import tiny

from data_prep.pretraining.token_sequences import TokenSequences, lay_out_rows

WORDS = ["em", "##bed", "the", "fox", "dog"]
VOCABULARY = tiny.vocabulary(*WORDS)
# The corpus is these five tokens.
TOKENS = np.array([VOCABULARY.ids[word] for word in WORDS], np.uint16)


def pairs(*columns):
    """Pairs as (first start, first length, second start, second length, label)."""
    return TokenSequences.pairs(*(np.array(column) for column in zip(*columns, strict=True)))


def texts(rows):
    return [" ".join(VOCABULARY.tokens[number] for number in row) for row in rows["input_ids"]]


def test_a_pair_is_laid_out_as_the_paper_draws_it():
    rows, is_text = lay_out_rows(TOKENS, pairs((0, 2, 3, 2, 1)), np.array([0, 1]), 9, 1, VOCABULARY)
    assert texts(rows) == ["[CLS] em ##bed [SEP] fox dog [SEP] [PAD] [PAD]"]
    assert rows["input_mask"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 0, 0]]
    assert rows["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1, 0, 0]]
    assert is_text.tolist() == [[False, True, True, False, True, True, False, False, False]]
    assert rows["next_sentence_labels"].tolist() == [[1]]
    assert rows["next_sentence_weights"].tolist() == [[1.0]]


def test_packed_pairs_are_numbered_and_say_where_they_begin():
    sequences = pairs((3, 1, 4, 1, 0), (0, 2, 2, 1, 1), (2, 2, 4, 1, 1))
    rows, is_text = lay_out_rows(TOKENS, sequences, np.array([0, 2, 3]), 12, 3, VOCABULARY)
    assert texts(rows) == [
        "[CLS] fox [SEP] dog [SEP] [CLS] em ##bed [SEP] the [SEP] [PAD]",
        "[CLS] the fox [SEP] dog [SEP] [PAD] [PAD] [PAD] [PAD] [PAD] [PAD]",
    ]
    assert rows["input_mask"].tolist() == [[1] * 5 + [2] * 6 + [0], [1] * 6 + [0] * 6]
    assert rows["segment_ids"].tolist() == [[0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1] + [0] * 6]
    assert rows["cls_positions"].tolist() == [[0, 5, 0], [0, 0, 0]]
    assert rows["next_sentence_labels"].tolist() == [[0, 1, 0], [1, 0, 0]]
    assert rows["next_sentence_weights"].tolist() == [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    assert is_text.sum(axis=1).tolist() == [5, 3]
    assert {values.dtype.name for values in rows.values()} == {"int32", "float32"}


def test_sequences_that_are_no_pairs_are_one_segment_and_have_no_label():
    sequences = TokenSequences(
        np.array([0, 3, 4]), np.array([2, 1, 1]), np.array([0, 2, 3]), np.zeros(2, int), are_pairs=False
    )
    assert sequences.lengths().tolist() == [6, 3]
    rows, _ = lay_out_rows(TOKENS, sequences, np.array([0, 1, 2]), 6, 1, VOCABULARY)
    assert texts(rows) == ["[CLS] em ##bed [SEP] fox [SEP]", "[CLS] dog [SEP] [PAD] [PAD] [PAD]"]
    assert rows["segment_ids"].sum() == 0
    assert rows["next_sentence_weights"].tolist() == [[0.0], [0.0]]


def test_sequences_are_taken_in_the_order_asked_for():
    sequences = TokenSequences(
        np.array([0, 3, 4]), np.array([2, 1, 1]), np.array([0, 2, 3]), np.array([7, 8]), are_pairs=False
    )
    taken = sequences.take(np.array([1, 0, 1]))
    assert taken.range_starts.tolist() == [4, 0, 3, 4]
    assert taken.range_lengths.tolist() == [1, 2, 1, 1]
    assert taken.range_offsets.tolist() == [0, 1, 3, 4]
    assert taken.labels.tolist() == [8, 7, 8]
