"""Texts become token rows."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny

from keras_bert import GraphTokenizer, WordPieceTokenizer
from keras_bert.records import features
from keras_bert.tasks.text_rows import parts_of, text_rows, token_lists, tokenizer_of
from keras_bert.tokenization.token_lists import FastForm, PythonForm, TokenLists

VOCABULARY = tiny.vocabulary("a b c d")


def test_parts_cover_all_examples_in_their_order():
    assert list(parts_of(5, rows_at_once=2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(parts_of(0)) == []


@pytest.mark.parametrize(("rows_per_example", "at_once"), [(2, 3), (3, 2), (6, 1), (100, 1)])
def test_examples_of_several_rows_make_smaller_parts(rows_per_example, at_once):
    parts = list(parts_of(7, rows_per_example, rows_at_once=6))
    assert parts[0] == slice(0, at_once)
    assert [number for part in parts for number in range(7)[part]] == list(range(7))


def forms():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    return PythonForm(tokenizer), GraphTokenizer(VOCABULARY), FastForm(tokenizer)


def rows_of(found):
    return [row.tolist() for row in np.split(found.rows.tokens[features.INPUT_IDS], found.rows.splits[1:-1])]


@pytest.mark.parametrize("tokenizer", forms(), ids=lambda form: type(form).__name__)
def test_texts_and_pairs_become_rows_and_cut_ones_are_told(tokenizer):
    found = text_rows(iter(["a", "a b c"]), None, tokenizer, 4)
    assert rows_of(found) == [[2, 5, 3], [2, 5, 6, 3]]
    assert (found.is_cut.tolist(), found.texts.tolist()) == ([False, True], [0, 1])
    assert found.rows.padding == {features.INPUT_IDS: 0}
    found = text_rows(["a b", "a b c"], ["c", "c"], tokenizer, 6)
    assert rows_of(found) == [[2, 5, 6, 3, 7, 3]] * 2
    assert found.rows.tokens[features.SEGMENT_IDS].tolist() == [0, 0, 0, 0, 1, 1] * 2


def test_long_texts_become_windows_and_pairs_do_not():
    tokenizer = PythonForm(WordPieceTokenizer(VOCABULARY))
    found = text_rows(["a b c d", "a"], None, tokenizer, 5, doc_stride=1)
    assert rows_of(found) == [[2, 5, 6, 7, 3], [2, 6, 7, 8, 3], [2, 5, 3]]
    assert (found.texts.tolist(), found.is_cut.tolist()) == ([0, 0, 1], [False] * 3)
    assert rows_of(text_rows(["a b c d"], ["a"], tokenizer, 5, doc_stride=1)) == [[2, 5, 3, 5, 3]]


def test_any_number_of_texts_is_tokenised_in_parts():
    sizes = []

    def tokenize(texts):
        sizes.append(len(texts))
        return TokenLists.joined([[int(text)] for text in texts])

    found = token_lists(map(str, range(2500)), tokenize)
    assert sizes == [1024, 1024, 452]
    assert found.values.tolist() == list(range(2500))
    assert token_lists([], tokenize).splits.tolist() == [0]


def test_the_graph_is_built_when_it_is_worth_it_and_tokenises_alike(monkeypatch):
    built = []
    tokenizer = WordPieceTokenizer(VOCABULARY)
    monkeypatch.setattr(tokenizer, "graph", lambda: built.append(1) or GraphTokenizer(VOCABULARY))
    monkeypatch.setattr("keras_bert.tokenization.token_lists._WORTH_A_GRAPH", 10_000)
    monkeypatch.setattr("keras_bert.tokenization.token_lists._FEW_CHARACTERS", 3_000)
    form, python = FastForm(tokenizer), PythonForm(tokenizer)
    many, few = ["a b " * 500, "c d" * 500, "é"], ["a b"]
    expected = python.tokenize(many).to_list()
    for texts, num_built in ((many, 0), (many, 0), (many, 1), (few, 1), (many, 1)):
        assert form.tokenize(texts).to_list() == python.tokenize(texts).to_list()
        assert len(built) == num_built
    assert form.tokenize_words(many).to_list() == expected
    offsets = zip(form.tokenize_with_offsets(many), python.tokenize_with_offsets(many), strict=True)
    assert all(one.to_list() == other.to_list() for one, other in offsets)
    assert len(built) == 1


def test_models_with_one_vocabulary_share_a_tokenizer():
    models = [SimpleNamespace(tokenizer=WordPieceTokenizer(VOCABULARY, lower)) for lower in (True, True, False)]
    tokenizers = [tokenizer_of(model) for model in models]
    assert tokenizers[0] is tokenizers[1] is not tokenizers[2]
    models[0].engine = "of an export"
    assert type(tokenizer_of(models[0])) is PythonForm
