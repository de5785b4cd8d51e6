"""Scores of sentence embeddings: retrieval, similarity and labels of nearest neighbours."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.label_types import plain
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.user_inputs import as_list, as_mapping
from keras_bert.tasks.classification.scores import regression_scores

_QUERIES_AT_ONCE = 256
_DEPTH = 100  # the number of ranks that count
# Score -> the numbers of ranks that count, unless others are asked for.
_DEPTHS: Mapping[str, Sequence[int]] = {"mrr": (10,), "ndcg": (10,), "map": (_DEPTH,)}


@dataclasses.dataclass(frozen=True)
class TiedRanking:
    """What one query found: G groups of documents with equal scores, the best group first.

    Attributes:
        sizes: int (G,), the number of documents in each group.
        hits: int (G,), the number of relevant ones among them.
    """

    sizes: np.ndarray
    hits: np.ndarray

    @classmethod
    def of_scores(cls, scores: np.ndarray, is_relevant: np.ndarray, is_worst: bool = False) -> "TiedRanking":
        """Groups the documents of a query by their scores, float (D,).

        With `is_worst`, the relevant ones of a group are a group of their own, behind the others.

        >>> ranking = TiedRanking.of_scores(np.array([0.5, 0.9, 0.5]), np.array([True, False, False]))
        >>> ranking.sizes.tolist(), ranking.hits.tolist()
        ([1, 2], [0, 1])
        """
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        firsts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        sizes, hits = np.diff(np.append(firsts, len(scores))), np.add.reduceat(is_relevant[order].astype(int), firsts)
        if is_worst:
            sizes, hits = (np.stack(pair, axis=1).reshape(-1) for pair in ((sizes - hits, hits), (0 * hits, hits)))
        return cls(sizes[sizes > 0], hits[sizes > 0])

    def scores(
        self, num_relevant: int, ks: Sequence[int], depths: Mapping[str, Sequence[int]] = _DEPTHS
    ) -> dict[str, float]:
        """Returns the scores of `retrieval_scores` for one query: the means over all orders of tied documents."""
        depth = _deepest(ks, depths)
        firsts = np.cumsum(self.sizes) - self.sizes
        group = np.repeat(np.arange(len(firsts)), np.clip(depth - firsts, 0, self.sizes))
        ranks = np.arange(1, len(group) + 1)
        size, hits, place = self.sizes[group], self.hits[group], ranks - firsts[group]
        # The probability that the document at each rank is relevant, and that none is until there.
        is_hit = hits / size
        is_miss = np.cumprod(np.maximum(size - hits - place + 1, 0) / (size - place + 1))
        none_before = np.append(1.0, is_miss)
        found = {}
        for k in ks:
            found[f"accuracy@{k}"] = 1.0 - none_before[min(k, len(ranks))]
            found[f"recall@{k}"] = is_hit[:k].sum() / num_relevant
        for k in depths["mrr"]:
            found[f"mrr@{k}"] = ((none_before[:-1] - is_miss) / ranks)[:k].sum()
        discounts = 1 / np.log2(np.arange(2, depth + 2))
        for k in depths["ndcg"]:
            ideal = discounts[: min(num_relevant, k)].sum()
            found[f"ndcg@{k}"] = (is_hit[:k] * discounts[: len(ranks[:k])]).sum() / ideal
        # The relevant documents until a rank, if the one at this rank is relevant.
        others = (place - 1) * (hits - 1) / np.maximum(size - 1, 1)
        until = (np.cumsum(self.hits) - self.hits)[group] + 1 + others
        for k in depths["map"]:
            found[f"map@{k}"] = (is_hit * until / ranks)[:k].sum() / min(num_relevant, k)
        return found


def retrieval_scores(
    rankings: Sequence[Sequence[int]],
    relevant: Sequence[Any],
    ks: Iterable[int] | int = (1, 5, 10),
    depths: Mapping[str, Sequence[int]] = _DEPTHS,
) -> dict[str, float]:
    """Returns the mean scores of ranked lists.

    Args:
        rankings: for each query the numbers or ids of the documents that were found, the best first. A document that
            comes again counts once, at its first rank.
        relevant: for each query all relevant documents, at least one; see `relevant_documents`.
        ks: the numbers of ranks for `accuracy@k` and `recall@k`.
        depths: those for "mrr", "ndcg" and "map".

    Returns:
        For each k, `accuracy@k`, the share of queries with a relevant document among the first k, and `recall@k`, the
        share of a query's relevant documents among the first k. `mrr@10`, the reciprocal rank of the first relevant
        document, 0 beyond rank 10. `ndcg@10`. `map@100`, the mean average precision of the first 100. These three have
        other numbers of ranks if `depths` say so.

    Raises:
        InputError: there are no queries, the lengths differ, a query has no relevant document, or `ks` are no numbers.

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
    ks, found = checked_ks(ks), []
    for number, (ranking, judged) in enumerate(zip(rankings, relevant, strict=True), start=1):
        ranking, right = distinct_documents(ranking), relevant_documents(judged, f"query {number}")
        if not right:
            raise InputError(f"Query {number} has no relevant document. Leave it out.")
        hits = np.array([document in right for document in ranking[: _deepest(ks, depths)]], int)
        found.append(TiedRanking(np.ones_like(hits), hits).scores(len(right), ks, depths))
    return mean_scores(found)


def distinct_documents(ranking: Any) -> list:
    """Returns the documents of a ranking, each at its first place only.

    >>> distinct_documents(np.array([7, 3, 7, 1]))
    [7, 3, 1]
    """
    return list(dict.fromkeys(as_list(ranking, "A ranking")))


def relevant_documents(judged: Any, query: str) -> set:
    """Returns the ids of the documents that are relevant to a query.

    >>> sorted(relevant_documents({"d1": 2, "d0": 0}, "q1")), relevant_documents("12", "q2")
    (['d1'], {'12'})

    `judged` are ids, strings or whole numbers; one id; or a dictionary or a Series of pandas, id -> grade, where a
    document is relevant if its grade is above 0. Raises `InputError`, which names the query, for all else.
    """
    place = f"The relevant documents of {query}"
    named = as_mapping(judged, place)
    if hasattr(judged, "iloc") and not all(isinstance(one, str) for one in named or [None]):
        raise InputError(
            f"{place} are a table or a Series of pandas whose index has no strings: it may be the ids or not. Give a "
            "list of ids, list(series), or a dictionary id -> grade, series.to_dict()."
        )
    if named is not None:
        grades = {document: plain(grade) for document, grade in named.items()}
        if wrong := [grade for grade in grades.values() if not isinstance(grade, Real) or grade != grade]:
            raise InputError(f"{place} must have numbers as grades: id -> grade. Received the grade {wrong[0]!r:.100}")
        ids = [document for document, grade in grades.items() if grade > 0]
    elif isinstance(judged, (set, frozenset)):
        ids = list(judged)
    else:
        ids = as_list([judged] if isinstance(judged, (str, Integral)) else judged, place)
    if wrong := [one for one in ids if not isinstance(one, (str, Integral))]:
        raise InputError(f"{place} must be ids: strings or whole numbers. Received: {wrong[0]!r:.100}")
    return set(ids)


def checked_ks(ks: Any) -> list[int]:
    """Returns numbers of ranks, one or several, as a list. Raises `InputError` unless they are whole numbers from 1."""
    found = [plain(k) for k in (ks if isinstance(ks, Iterable) else [ks])]
    if not found or not all(type(k) is int and k >= 1 for k in found):
        raise InputError(f"ks must be whole numbers from 1. Received: {ks!r:.100}")
    return found


def _deepest(ks: Sequence[int], depths: Mapping[str, Sequence[int]]) -> int:
    return max(itertools.chain(ks, *depths.values()))


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of each score over the queries."""
    return {name: float(np.mean([of_query[name] for of_query in scores])) for name in scores[0]}


def pair_scores(columns: Sequence[Sequence[str]], vectors: np.ndarray, is_worst: bool = False) -> dict[str, float]:
    """Returns the retrieval scores of anchors that search for their positives, see `retrieval_scores`.

    The documents are the different texts of all columns except the first. Relevant for an anchor are all positives of
    equal anchors.

    Args:
        columns: C columns of N texts: anchors, positives, hard negatives.
        vectors: float `[N, C, D]`, the vectors of these texts.
        is_worst: whether relevant documents come last among documents with equal cosines. Otherwise the scores are the
            means over all orders of these.

    Raises `InputError` if there are no pairs, or a cosine is not a number.
    """
    return scores_of_pairs(columns, lambda rows, numbers: _cosines(vectors[:, 0], vectors[rows, numbers]), is_worst)


def scores_of_pairs(
    columns: Sequence[Sequence[str]],
    similarities: Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray]],
    is_worst: bool = False,
) -> dict[str, float]:
    """As `pair_scores`, by any similarity.

    `similarities` gets the rows and the columns of D documents, int `(D,)`, and yields for each anchor its similarities
    with them, float `(D,)`.
    """
    columns = [as_list(column, "A column of texts") for column in columns]
    if len(columns) < 2 or not columns[0]:
        raise InputError("Scores of pairs need two columns of texts or more, with one text at least.")
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
    found = []
    for anchor, row in zip(columns[0], similarities(*np.array(places).T), strict=True):
        candidates = np.arange(len(row))
        if len(row) > _DEPTH:  # with all that are tied at the last rank that counts
            candidates = np.flatnonzero(row >= np.partition(row, -_DEPTH)[-_DEPTH])
        is_relevant = np.isin(candidates, list(relevant[anchor]))
        ranking = TiedRanking.of_scores(row[candidates], is_relevant, is_worst)
        found.append(ranking.scores(len(relevant[anchor]), (1, 5, 10)))
    return mean_scores(found)


def similarity_scores(cosines: np.ndarray, scores: Sequence[float]) -> dict[str, float]:
    """Returns `spearman` and `pearson`, the correlations of a model's scores `[N]`, as cosines, with given ones."""
    found = regression_scores(scores, cosines)
    return {name: found[name] for name in ("spearman", "pearson")}


def label_scores(vectors: np.ndarray, labels: Sequence, is_worst: bool = False) -> dict[str, float]:
    """Returns `neighbour_accuracy`: the share of texts, vectors `[N, D]`, whose nearest other one has the same label.

    Among equally near ones, the share of those with the same label counts or, with `is_worst`, one with another label
    makes the answer wrong. Raises `InputError`: fewer than two texts, not as many labels, or a cosine is no number.
    """
    labels = as_list(labels, "labels")
    if len(labels) != len(vectors):
        raise InputError(f"Every text needs a label. Received: {len(vectors)} vectors and {len(labels)} labels")
    if len(vectors) < 2:
        raise InputError(f"The nearest other text needs at least two texts. Received: {len(vectors)}")
    shares = []
    for number, row in enumerate(_cosines(vectors, vectors)):
        row[number] = -np.inf
        is_same = [labels[other] == labels[number] for other in np.flatnonzero(row == row.max())]
        shares.append(np.min(is_same) if is_worst else np.mean(is_same))
    return {"neighbour_accuracy": float(np.mean(shares))}


def nearest_by_cosine(queries: np.ndarray, documents: np.ndarray) -> list[int]:
    """Returns for each query `[D]` the number of the document with the highest cosine, the first of equal ones."""
    return [int(row.argmax()) for row in _cosines(queries, documents)]


def _cosines(queries: np.ndarray, documents: np.ndarray) -> Iterator[np.ndarray]:
    """Yields for each query `[Q, D]` its cosines with the documents. Equal documents have exactly equal cosines, which
    the product of matrices does not promise."""
    queries, documents = (unit_vectors(np.asarray(vectors)) for vectors in (queries, documents))
    numbers: dict[bytes, int] = {}
    of_documents = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in documents + 0.0])
    distinct = documents[np.unique(of_documents, return_index=True)[1]]
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
        products = queries[first : first + _QUERIES_AT_ONCE] @ distinct.T
        check_numbers(products)
        yield from products[:, of_documents]


def cosines_of_pairs(vectors: np.ndarray) -> np.ndarray:
    """Returns the cosine of the first two vectors of each example: `[N, C, D]` -> float64 `[N]`."""
    units = unit_vectors(vectors.astype(np.float64))
    return (units[:, 0] * units[:, 1]).sum(axis=-1)


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors `[..., D]` divided by their lengths; one of zeros stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
