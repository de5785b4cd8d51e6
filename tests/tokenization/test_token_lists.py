"""Every kind of tokenizer: tokens and rows in NumPy equal those of the TensorFlow graph."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_families import byte_pairs, sentence_pieces
from tiny_models import SECOND_TEXTS, TEXTS, VOCABULARY

from keras_bert.program.errors import InputError
from keras_bert.records.segments import cut_windows, pack_segments
from keras_bert.records.token_rows import cut_overlapping, join_segments
from keras_bert.tokenization.token_lists import PythonForm, TokenLists
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

TOKENIZERS = {
    "word pieces": WordPieceTokenizer(VOCABULARY),
    "byte pairs": byte_pairs(),
    "byte pairs with a space before the text": byte_pairs(add_prefix_space=True),
    "sentence pieces": sentence_pieces(),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def forms(request):
    tokenizer = TOKENIZERS[request.param]
    return PythonForm(tokenizer), tokenizer.graph()


def assert_equal(found: TokenLists, expected: tf.RaggedTensor):
    assert found.to_list() == expected.to_list()
    assert (found.values.dtype, found.lengths.dtype) == (np.int32, np.int64)


def test_the_python_form_returns_the_numbers_of_the_graph(forms):
    python, graph = forms
    assert_equal(python.tokenize(TEXTS), graph.tokenize(TEXTS))
    words = ["fox", "中", "é", " the", ""]
    assert_equal(python.tokenize_words(words), graph.tokenize_words(words))
    data = [text.encode() for text in TEXTS]
    for found, expected in zip(python.tokenize_with_offsets(data), graph.tokenize_with_offsets(data), strict=True):
        assert_equal(found, expected)


def test_no_texts_have_no_tokens(forms):
    python, _ = forms
    for found in (python.tokenize([]), python.tokenize_words([]), *python.tokenize_with_offsets([])):
        assert (found.to_list(), found.splits.tolist()) == ([], [0])


@pytest.mark.parametrize("texts", [[], [""], ["", "a", ""], [" "], ["\n"]])
def test_empty_texts_and_batches_are_those_of_the_graph(forms, texts):
    python, graph = forms
    rows = graph.tokenize_with_offsets(tf.constant(texts, tf.string, [len(texts)]))
    assert {part.dtype for part in rows} == {tf.int32}
    for found, expected in zip(python.tokenize_with_offsets([text.encode() for text in texts]), rows, strict=True):
        assert_equal(found, expected)


@pytest.mark.parametrize("name", ["byte pairs", "sentence pieces"])
@pytest.mark.parametrize("text", ["a\ud800", 5, None, ["a"]])
def test_what_is_no_text_is_refused(name, text):
    with pytest.raises(InputError, match="must be|Received"):
        TOKENIZERS[name].encode(text)


@pytest.mark.parametrize("max_seq_length", [4, 7, 8, 40])
@pytest.mark.parametrize("columns", [(TEXTS,), (TEXTS, SECOND_TEXTS)])
def test_joined_segments_are_those_of_the_graph(forms, columns, max_seq_length):
    python, graph = forms
    found, is_cut = join_segments(
        [python.tokenize(list(column)) for column in columns], max_seq_length, python.vocabulary
    )
    rows = found.padded(max_seq_length)
    expected = pack_segments([graph.tokenize(column) for column in columns], max_seq_length, graph.vocabulary)
    assert set(rows) == set(expected)
    for name, values in rows.items():
        np.testing.assert_array_equal(values, expected[name].numpy())
        assert values.dtype == np.int32
    whole = pack_segments([graph.tokenize(column) for column in columns], 2000, graph.vocabulary)["input_mask"].numpy()
    assert is_cut.tolist() == (whole.sum(axis=1) > max_seq_length).tolist()


def test_a_row_without_room_for_its_special_tokens_is_refused():
    tokens = TokenLists.joined([[5]])
    with pytest.raises(InputError, match=r"at least 3, for \[CLS\] and 2 \[SEP\]. Received: 2"):
        join_segments([tokens, tokens], 2, VOCABULARY)


@pytest.mark.parametrize(("room", "stride"), [(4, 2), (4, 9), (1, 1), (7, 3)])
def test_windows_are_those_of_the_graph(room, stride):
    lists = [list(range(length)) for length in (6, 1, 0, 4, 5, 13)]
    windows, texts = cut_overlapping(TokenLists.joined(lists), room, stride)
    expected, expected_texts = cut_windows(tf.ragged.constant(lists, tf.int32), room, stride)
    ranges = zip(windows.firsts, windows.lengths, strict=True)
    assert [windows.values[first : first + length].tolist() for first, length in ranges] == expected.to_list()
    assert texts.tolist() == expected_texts.numpy().tolist()
