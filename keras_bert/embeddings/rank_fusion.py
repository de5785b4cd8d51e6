"""One ranking made of several, such as those by vectors and by words."""

import math
from collections.abc import Iterable
from typing import Any

from keras_bert.program.options import check_number, check_whole
from keras_bert.tasks.embedding.scores import distinct_documents

# How many documents of each ranking a hybrid search fuses, if not more are asked for.
FUSED = 100


def reciprocal_rank_fusion(rankings: Iterable[Any], top_k: int, k: int = 60) -> list[tuple[int, float]]:
    """Returns the documents with the largest sums of `1 / (k + rank)` over the rankings of one query.

    Scores are not compared, so the rankings may come from models of any kind. A document that a ranking lacks gets
    nothing from it. Among equal sums, the lowest number comes first, and numbers before strings.

    >>> [number for number, _ in reciprocal_rank_fusion([[7, 3], [3, 1, 7]], top_k=3)]
    [3, 7, 1]

    Args:
        rankings: for each ranking the numbers or ids of documents, the best first. A document that comes again counts
            once, at its first rank.
        top_k: how many documents, 1 or more.
        k: how little the first ranks stand out, 0 or more.

    Returns:
        at most `top_k` pairs of a document and its sum.

    Raises:
        InputError: `top_k` or `k` is out of range, or a ranking has no order, such as a set or a dictionary of scores.

    Reference: Cormack et al., 2009, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
    Methods".
    """
    check_whole("top_k", top_k, at_least=1)
    check_number("k", k, at_least=0)
    parts: dict[Any, list[float]] = {}
    for ranking in rankings:
        for rank, number in enumerate(distinct_documents(ranking), start=1):
            parts.setdefault(number, []).append(1 / (k + rank))
    # Exact sums, so that equal ranks give equal sums in any order of the rankings.
    sums = [(number, math.fsum(of_number)) for number, of_number in parts.items()]
    return sorted(sums, key=lambda pair: (-pair[1], id_order(pair[0])))[:top_k]


def id_order(one: int | str) -> tuple[bool, int | str]:
    """Returns the key to sort ids by: numbers come first, then strings.

    >>> sorted(["b", 10, "a", 9], key=id_order)
    [9, 10, 'a', 'b']
    """
    return isinstance(one, str), one
