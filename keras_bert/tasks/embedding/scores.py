"""Scores of sentence embeddings: retrieval, similarity and labels of nearest neighbours."""

from collections.abc import Collection, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.scores import regression_scores

_QUERIES_AT_ONCE = 256
_DEPTH = 100  # the number of ranks that count


def retrieval_scores(
    rankings: Sequence[Sequence[int]], relevant: Sequence[Collection[int]], ks: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """Returns the mean scores of ranked lists.

    Args:
        rankings: for each query the numbers of the documents that were found, the best first, without repetitions.
        relevant: for each query the numbers of all relevant documents, at least one.
        ks: the numbers of ranks for `accuracy@k` and `recall@k`.

    Returns:
        For each k, `accuracy@k`, the share of queries with a relevant document among the first k, and `recall@k`, the
        share of a query's relevant documents among the first k. `mrr@10`, the reciprocal rank of the first relevant
        document, 0 beyond rank 10. `ndcg@10`. `map@100`, the mean average precision of the first 100.

    Raises:
        InputError: there are no queries, the lengths differ, or a query has no relevant document.

    Example:
        >>> scores = retrieval_scores([[7, 3], [1, 2]], [{3}, {1}], ks=[1])
        >>> scores["accuracy@1"], scores["mrr@10"]
        (0.5, 0.75)

    Reference: Manning et al., 2008, "Introduction to Information Retrieval", chapter 8.
    """
    if len(rankings) != len(relevant) or not len(rankings):
        raise InputError(
            f"Rankings and relevant documents must be equally many. Received: {len(rankings)} and {len(relevant)}"
        )
    found: dict[str, list[float]] = {}
    for number, (ranking, right) in enumerate(zip(rankings, relevant, strict=True), start=1):
        right = set(right)
        if not right:
            raise InputError(f"Query {number} has no relevant document. Leave it out.")
        hits = np.array([document in right for document in ranking[: max(_DEPTH, *ks)]], bool)
        for k in ks:
            found.setdefault(f"accuracy@{k}", []).append(float(hits[:k].any()))
            found.setdefault(f"recall@{k}", []).append(hits[:k].sum() / len(right))
        first = np.flatnonzero(hits[:10])
        found.setdefault("mrr@10", []).append(1 / (first[0] + 1) if len(first) else 0.0)
        discounts = 1 / np.log2(np.arange(2, 12))
        best = discounts[: min(len(right), 10)].sum()
        found.setdefault("ndcg@10", []).append((hits[:10] * discounts[: len(hits[:10])]).sum() / best)
        ranks = np.flatnonzero(hits[:_DEPTH]) + 1
        precisions = np.arange(1, len(ranks) + 1) / ranks
        found.setdefault("map@100", []).append(precisions.sum() / min(len(right), _DEPTH))
    return {name: float(np.mean(values)) for name, values in found.items()}


def pair_scores(columns: Sequence[Sequence[str]], vectors: np.ndarray) -> dict[str, float]:
    """Returns the retrieval scores of anchors that search for their positives.

    The documents are the different texts of all columns except the first. Relevant for an anchor are all positives of
    equal anchors.

    Args:
        columns: C columns of N texts: anchors, positives, hard negatives.
        vectors: float `[N, C, D]`, the vectors of these texts.

    Returns:
        See `retrieval_scores`.
    """
    documents: dict[str, int] = {}
    places = []
    for column_number, column in enumerate(columns[1:], start=1):
        for row, text in enumerate(column):
            if text not in documents:
                documents[text] = len(documents)
                places.append((row, column_number))
    relevant: dict[str, set[int]] = {}
    for anchor, positive in zip(columns[0], columns[1], strict=True):
        relevant.setdefault(anchor, set()).add(documents[positive])
    rows, numbers = zip(*places, strict=True)
    ranked = ranked_by_cosine(vectors[:, 0], vectors[list(rows), list(numbers)])
    return retrieval_scores(ranked, [relevant[anchor] for anchor in columns[0]])


def similarity_scores(cosines: np.ndarray, scores: Sequence[float]) -> dict[str, float]:
    """Returns `spearman` and `pearson`, the correlations of cosines `[N]` with given scores."""
    found = regression_scores(scores, cosines)
    return {name: found[name] for name in ("spearman", "pearson")}


def label_scores(vectors: np.ndarray, labels: Sequence) -> dict[str, float]:
    """Returns `neighbour_accuracy`: the share of texts whose nearest other text has the same label.

    Args:
        vectors: float `[N, D]`.
        labels: N labels.
    """
    if len(vectors) < 2:
        raise InputError(f"The nearest other text needs at least two texts. Received: {len(vectors)}")
    nearest = [
        next(other for other in ranking if other != number)
        for number, ranking in enumerate(ranked_by_cosine(vectors, vectors, depth=2))
    ]
    return {
        "neighbour_accuracy": float(np.mean([labels[number] == labels[other] for number, other in enumerate(nearest)]))
    }


def ranked_by_cosine(queries: np.ndarray, documents: np.ndarray, depth: int = _DEPTH) -> list[list[int]]:
    """Returns for each query `[D]` the numbers of the `depth` documents with the highest cosines, the best first."""
    queries, documents = (_units(vectors) for vectors in (queries, documents))
    ranked: list[list[int]] = []
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
        products = queries[first : first + _QUERIES_AT_ONCE] @ documents.T
        if depth < len(documents):
            candidates = np.argpartition(-products, depth - 1, axis=1)[:, :depth]
            order = np.argsort(-np.take_along_axis(products, candidates, axis=1), axis=1, kind="stable")
            ranked += np.take_along_axis(candidates, order, axis=1).tolist()
        else:
            ranked += np.argsort(-products, axis=1, kind="stable").tolist()
    return ranked


def cosines_of_pairs(vectors: np.ndarray) -> np.ndarray:
    """Returns the cosine of the first two vectors of each example: `[N, C, D]` -> float64 `[N]`."""
    units = _units(vectors.astype(np.float64))
    return (units[:, 0] * units[:, 1]).sum(axis=-1)


def _units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
