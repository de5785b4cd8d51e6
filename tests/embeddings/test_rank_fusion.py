"""Reciprocal rank fusion: sums of 1 / (60 + rank)."""

import pytest

from keras_bert.embeddings.rank_fusion import reciprocal_rank_fusion
from keras_bert.program.errors import InputError


def test_sums_are_those_of_the_paper():
    assert reciprocal_rank_fusion([[5, 2, 9], [2, 7]], top_k=3) == [
        (2, pytest.approx(1 / 62 + 1 / 61)),
        (5, pytest.approx(1 / 61)),
        (7, pytest.approx(1 / 62)),
    ]
    assert reciprocal_rank_fusion([[5]], top_k=2, k=0) == [(5, 1.0)]


def test_among_equal_sums_the_lowest_number_is_first_in_any_order_of_the_rankings():
    rankings = [[8, 1, 3], [3, 8, 1], [1, 3, 8]]
    for given in (rankings, rankings[::-1]):
        assert [number for number, _ in reciprocal_rank_fusion(given, top_k=3)] == [1, 3, 8]


def test_no_ranking_gives_no_documents_and_wrong_numbers_are_refused():
    assert reciprocal_rank_fusion([[], []], top_k=1) == []
    with pytest.raises(InputError, match="top_k must be 1 or more, and k 0 or more. Received: 0 and 60"):
        reciprocal_rank_fusion([[1]], top_k=0)
