"""`VectorIndex.search(..., hybrid=True)`: one ranking of those by vectors and by words."""

import numpy as np
import pytest
from clustered_vectors import index_of

from keras_bert.program.errors import InputError

# By vectors, the texts come in this order for every query.
TEXTS = ["a red fox", "a dog", "libfoo-1.2", "the red dog"]
IDS = ["fox", "dog", "lib", "red dog"]
VECTORS = np.float32([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]])


@pytest.fixture(autouse=True)
def vectors(use_vectors):
    use_vectors(lambda text: [1, 0])


def built():
    metadata = {"year": np.array([2023, 2024, 2024, 2023])}
    return index_of(VECTORS, TEXTS, ids=IDS, metadata=metadata)


def found(index, query, top_k=4, **options):
    (hits,) = index.search(None, [query], top_k, hybrid=True, **options)
    return [hit.id for hit in hits]


def test_a_word_that_vectors_blur_brings_its_text_to_the_top():
    (hits,) = built().search(None, ["libfoo"], 2, hybrid=True)
    assert [(hit.id, hit.text, hit.score) for hit in hits] == [
        ("lib", "libfoo-1.2", pytest.approx(1 / 63 + 1 / 61)),
        ("fox", "a red fox", pytest.approx(1 / 61)),
    ]
    assert hits[0].metadata == {"year": 2024}


def test_without_a_known_word_the_ranking_is_that_of_the_vectors():
    assert found(built(), "unknown") == IDS


def test_texts_that_a_filter_leaves_out_or_that_are_deleted_are_not_found_by_words_either():
    assert found(built(), "dog libfoo", where={"year": 2023}) == ["red dog", "fox"]
    assert found(built(), "dog", where=lambda columns: columns["year"] > 2024) == []
    deleted = index_of(VECTORS, TEXTS, ids=IDS)
    deleted.delete(["lib"])
    assert found(deleted, "libfoo the") == ["red dog", "fox", "dog"]


@pytest.mark.parametrize("texts", [["!!!", "?", "...", "\N{GRINNING FACE}"], ["123 !!!", "", " ", "?"], [""] * 4])
def test_texts_without_letters_are_found_by_their_vectors(texts):
    index = index_of(VECTORS, texts, ids=IDS)
    assert found(index, "dog") == found(index, "?!") == IDS
    assert found(index, "123")[0] == "fox"


def test_changes_count_the_words_again(use_vectors):
    index = built()
    assert found(index, "cat")[0] == "fox"
    use_vectors(lambda text: [-1, 0])
    index.update(None, ["lib"], ["a cat"], metadata={"year": [2024]})
    assert found(index, "cat", 1) == ["lib"]
    index.delete(["lib"])
    assert "lib" not in found(index, "cat")


def test_top_k_below_1_is_refused():
    with pytest.raises(InputError, match="top_k must be a whole number of at least 1"):
        found(built(), "dog", 0)
