import dataclasses
import itertools

import pytest
import tensorflow as tf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from keras_bert.records.segments import pack_segments
from keras_bert.records.token_rows import join_segments
from keras_bert.tokenization.token_lists import TokenLists
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, MPNET_SPECIAL_TOKENS
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary(SPECIAL_TOKENS)


def ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


def as_lists(features):
    return {name: tensor.numpy().tolist() for name, tensor in features.items()}


def test_one_segment_stands_between_cls_and_sep():
    assert as_lists(pack_segments([ragged([[5, 6], [], [7, 8, 9, 10]])], 5, VOCABULARY)) == {
        "input_ids": [[2, 5, 6, 3, 0], [2, 3, 0, 0, 0], [2, 7, 8, 9, 3]],
        "input_mask": [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]],
        "segment_ids": [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
    }


def test_two_segments_are_told_apart_by_segment_ids():
    assert as_lists(pack_segments([ragged([[5, 6, 7], []]), ragged([[8], []])], 7, VOCABULARY)) == {
        "input_ids": [[2, 5, 6, 7, 3, 8, 3], [2, 3, 3, 0, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 0, 0, 0, 0]],
    }


def google_truncated(first, second, room):
    while len(first) + len(second) > room:
        if len(first) > len(second):
            first = first[:-1]
        else:
            second = second[:-1]
    return first, second


@pytest.mark.parametrize("max_seq_length", [3, 4, 7, 8, 12])
def test_pairs_are_cut_as_google_cuts_them_token_by_token(max_seq_length):
    pairs = [(list(range(10, 10 + a)), list(range(30, 30 + b))) for a, b in itertools.product(range(10), repeat=2)]
    first, second = zip(*pairs, strict=True)
    found = as_lists(pack_segments([ragged(first), ragged(second)], max_seq_length, VOCABULARY))
    for row, pair in enumerate(pairs):
        first, second = google_truncated(*pair, max_seq_length - 3)
        expected = [2, *first, 3, *second, 3]
        padding = [0] * (max_seq_length - len(expected))
        assert found["input_ids"][row] == expected + padding
        assert found["input_mask"][row] == [1] * len(expected) + padding
        assert found["segment_ids"][row] == [0] * (len(first) + 2) + [1] * (len(second) + 1) + padding


@pytest.mark.parametrize("special_tokens", [BERT_SPECIAL_TOKENS, MPNET_SPECIAL_TOKENS])
@pytest.mark.parametrize("room", [0, 1, 4, 7])
def test_pairs_are_cut_as_hugging_face_cuts_them(room, special_tokens):
    special_tokens = dataclasses.replace(special_tokens, longer_keeps_more=True)
    vocabulary = Vocabulary([*special_tokens.names, "a", "b"], special_tokens=special_tokens)
    theirs = Tokenizer(WordLevel(vocabulary.ids, special_tokens.unk))
    theirs.pre_tokenizer = WhitespaceSplit()
    theirs.enable_truncation(max_length=room, strategy="longest_first")
    pairs = [*itertools.product(range(10), repeat=2)]
    first, second = ([[number] * pair[place] for pair in pairs] for place, number in enumerate([5, 6]))
    length = room + special_tokens.num_special(2)
    packed = pack_segments([ragged(first), ragged(second)], length, vocabulary)["input_ids"].numpy()
    rows, is_cut = join_segments([TokenLists.of(ragged(first)), TokenLists.of(ragged(second))], length, vocabulary)
    for row, pair in enumerate(pairs):
        ids = theirs.encode("a " * pair[0], "b " * pair[1]).ids
        counts = ids.count(5), ids.count(6)
        assert (sum(packed[row] == 5), sum(packed[row] == 6)) == counts, pair
        ids = rows.tokens["input_ids"][rows.splits[row] : rows.splits[row + 1]]
        assert (sum(ids == 5), sum(ids == 6)) == counts, pair
        assert is_cut[row] == (sum(pair) > room)


def test_an_empty_batch_has_no_rows():
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def pack(segment):
        return pack_segments([segment, segment], 6, VOCABULARY)

    features = pack(tf.RaggedTensor.from_row_splits(tf.constant([], tf.int32), [0]))
    assert {tensor.shape[0] for tensor in features.values()} == {0}
    assert {tensor.dtype for tensor in features.values()} == {tf.int32}


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="max_seq_length must be at least 3, for .* Received: 2"):
        pack_segments([ragged([[5]]), ragged([[6]])], 2, VOCABULARY)
    with pytest.raises(ValueError, match="one or two segments. Received: 3"):
        pack_segments([ragged([[5]])] * 3, 9, VOCABULARY)
