"""Reciprocal rank fusion: sums of 1 / (60 + rank)."""

import numpy as np
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
    # 8 has the ranks 7, 1 and 2, and 1 has 1, 2 and 7: added up in this order, their sums are not quite equal.
    rankings = [[1, 12, 13, 14, 15, 16, 8], [8, 1], [22, 8, 23, 24, 25, 26, 1]]
    for given in (rankings, rankings[::-1]):
        found = reciprocal_rank_fusion(given, top_k=2)
        assert [number for number, _ in found] == [1, 8]
        assert found[0][1] == found[1][1]


def test_a_document_that_comes_again_counts_once_at_its_first_rank():
    rankings = [[5, 2, 5, 9], np.array([2, 2, 7])]
    assert reciprocal_rank_fusion(rankings, top_k=4) == reciprocal_rank_fusion([[5, 2, 9], [2, 7]], top_k=4)


def test_ids_of_several_types_are_ranked_and_numbers_come_first():
    found = reciprocal_rank_fusion([["b", 10], [9, "a"]], top_k=4)
    assert [one for one, _ in found] == [9, "b", 10, "a"]


@pytest.mark.parametrize("ranking", [{3, 1}, {1: 0.2, 2: 0.9}, "12"])
def test_what_has_no_order_is_no_ranking(ranking):
    with pytest.raises(InputError, match="A ranking must be a list. Received"):
        reciprocal_rank_fusion([[1], ranking], top_k=1)


def test_no_ranking_gives_no_documents_and_wrong_numbers_are_refused():
    assert reciprocal_rank_fusion([[], []], top_k=1) == []
    with pytest.raises(InputError, match="top_k must be a whole number of at least 1. Received: 0"):
        reciprocal_rank_fusion([[1]], top_k=0)
