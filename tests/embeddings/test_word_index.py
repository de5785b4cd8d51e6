"""Search by words: BM25 of Lucene, as bm25s has it, and its folder."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather
from scipy.sparse import csr_array

from keras_bert.embeddings.postings import Postings
from keras_bert.embeddings.word_index import WordHit, WordIndex, words_of
from keras_bert.program.errors import InputError

TEXTS = ["A cat sits on a mat.", "A dog sits", "Stocks fell on Monday!"]


@pytest.fixture(scope="module")
def index():
    return WordIndex.build(TEXTS, ids=["cat", "dog", "stocks"])


def test_scores_equal_those_of_bm25s(index):
    # bm25s 0.3.16, method="lucene", k1=1.2, b=0.75, float64.
    numbers, scores = index.nearest(["a cat", "sits, sits on"], 3)
    assert numbers.tolist() == [[0, 1, -1], [0, 1, 2]]
    np.testing.assert_allclose(
        scores, [[0.6502979171, 0.2444018872, 0], [0.5537807112, 0.4888037744, 0.2205793206]], rtol=1e-6
    )


def test_hits_have_ids_and_texts_without_a_word_of_the_query_are_not_found(index):
    score = pytest.approx(index.nearest("monday", 1)[1].item())
    assert index.search(["MONDAY", "nothing known"]) == [[WordHit(2, "stocks", score)], []]


def test_equal_scores_come_in_the_order_of_the_texts():
    index = WordIndex.build(["b a", "a c", "d", "a b"])
    assert [hit.id for hit in index.search("a", top_k=2)[0]] == ["0", "1"]
    assert index.nearest("a", 3, is_allowed=np.array([False, True, True, True]))[0].tolist() == [[1, 3, -1]]


def test_k1_and_b_are_those_of_the_formula():
    index = WordIndex.build(["x x y", "y"], k1=2.0, b=0.5)
    idf = np.log(1 + 1.5 / 1.5)
    assert index.search("x")[0][0].score == pytest.approx(idf * 2 / (2 + 2.0 * (0.5 + 0.5 * 3 / 2)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Libx11-6:amd64, don't_stop", ["libx11", "6", "amd64", "don", "t_stop"]),
        ("ﬁle CAFE\u0301 Straße", ["file", "café", "straße"]),
        ("用Ubuntu很好", ["用", "ubuntu", "很", "好"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("?!", []),
    ],
)
def test_words_are_runs_of_letters_digits_and_marks(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize("texts", [["123 !!!", "?!"], ["?!"], ["\N{GRINNING FACE}", "..."]])
def test_texts_without_words_are_indexed_and_not_found(texts, tmp_path):
    index = WordIndex.build(texts)
    index.save(tmp_path / "words")
    for one in (index, WordIndex.load(tmp_path / "words")):
        assert [len(hits) for hits in one.search(["123", "word", "?"])] == ["123" in texts[0], 0, 0]
    assert index.search([]) == []


def test_a_saved_index_finds_the_same(index, tmp_path):
    index.save(tmp_path / "words")
    loaded = WordIndex.load(tmp_path / "words")
    assert loaded.search(["a cat on monday"]) == index.search(["a cat on monday"])
    with pytest.raises(InputError, match="not empty"):
        index.save(tmp_path / "words")


def with_column(path, name, change):
    """Changes a column of an Arrow file."""
    table = feather.read_table(path, memory_map=False)
    column = pa.array(change(table[name].to_numpy()))
    table = table.set_column(table.column_names.index(name), name, column)
    feather.write_feather(table, str(path), compression="uncompressed")


@pytest.mark.parametrize(
    ("name", "column", "change", "message"),
    [
        ("weights", "document", lambda array: array + np.int32(1), "the number of no document"),
        ("weights", "document", lambda array: array.astype(np.int64), "document, weight, id of .* int64, int64"),
        ("weights", "weight", lambda array: array * np.float32(np.nan), "not finite"),
        ("words", "end", lambda array: array[::-1].copy(), "not as many as words.arrow says"),
        ("words", "end", lambda array: array + 1, "not as many as words.arrow says"),
        ("words", "end", lambda array: np.array([2**63 - 1, -(2**63), *array[2:]]), "not as many as words.arrow says"),
        ("words", "word", lambda array: ["a"] * len(array), "word, end, .* of string|comes twice"),
        ("ids", "id", lambda array: pa.array(["cat"] * 3, pa.large_string()), "an id or a word comes twice"),
    ],
)
def test_a_damaged_index_is_named(index, tmp_path, name, column, change, message):
    index.save(tmp_path / "words")
    with_column(tmp_path / "words" / f"{name}.arrow", column, change)
    with pytest.raises(InputError, match=f"words is damaged: .*({message})"):
        WordIndex.load(tmp_path / "words")


def test_a_folder_without_an_index_or_with_half_of_one_is_named(index, tmp_path):
    with pytest.raises(InputError, match="is not an index of words: it has no words.arrow"):
        WordIndex.load(tmp_path)
    index.save(tmp_path / "words")
    (tmp_path / "words" / "ids.arrow").unlink()
    with pytest.raises(InputError, match="words is damaged: ids.arrow: .*No such file"):
        WordIndex.load(tmp_path / "words")


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (lambda index: index.search("a", top_k=0), "top_k must be a whole number of at least 1. Received: 0"),
        (lambda index: index.search([""]), "Query 1 is empty"),
        (lambda index: index.postings.nearest(csr_array(np.eye(1, 3)), 1), r"\[number, 9\].* the shape \[1, 3\]"),
    ],
)
def test_what_cannot_be_searched_is_refused(index, search, message):
    with pytest.raises(InputError, match=message):
        search(index)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "at least one text"),
        (["a", " "], {}, "Text 2 is empty"),
        (["a", "b"], {"ids": ["1"]}, "2 texts and 1 different ids"),
        (["a", "b"], {"ids": ["1", "1"]}, "2 texts and 1 different ids"),
        (["a"], {"k1": -1}, "k1 must be a number of at least 0"),
        (["a"], {"b": 1.5}, "b must be a number of at least 0 and at most 1. Received: 1.5"),
    ],
)
def test_what_cannot_be_indexed_is_refused(texts, options, message):
    with pytest.raises(InputError, match=message):
        WordIndex.build(texts, **options)


def test_sparse_vectors_are_searched_as_words_are():
    documents = Postings.of_rows(csr_array(np.float32([[0, 2, 0], [1, 1, 0], [0, 0, 3], [0, 2, 0], [0, 5, 0]])))
    queries = csr_array(np.float32([[1, 1, 0], [0, 0, 0]]))
    numbers, scores = documents.nearest(queries, top_k=9)
    assert numbers.tolist() == [[4, 0, 1, 3, -1], [-1] * 5]
    assert scores.tolist() == [[5, 2, 2, 2, 0], [0] * 5]
    assert documents.nearest(queries, top_k=2)[0].tolist() == [[4, 0], [-1, -1]]
