"""Scores of a search in a collection: every query is ranked against all documents."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from keras_bert.embeddings.rank_fusion import FUSED, id_order, reciprocal_rank_fusion
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.embeddings.vector_search import parts_of
from keras_bert.embeddings.word_index import WordIndex
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import as_mapping
from keras_bert.tasks.embedding.scores import checked_ks, relevant_documents, retrieval_scores

SCORES = ("ndcg", "mrr", "map", "recall")


def evaluate_search(
    model: Any,
    corpus: Any,
    queries: Any,
    relevant: Any,
    *,
    ks: Iterable[int] | int = (1, 10, 100),
    index: VectorIndex | None = None,
    exact: bool = False,
    others: Mapping[str, Any] | None = None,
    hybrid: bool = False,
    reranker: Any = None,
    num_candidates: int = 100,
    batch_size: int = 32,
) -> dict[str, dict[str, float]]:
    """Searches for every query in all documents and scores what is found.

    Documents with equal scores are ranked by their ids, the lowest first. Ids are strings or whole numbers, which come
    before strings. Queries without a relevant document are left out. A document is relevant or not: there are no
    degrees. A document with the id of the query counts as any other.

    Args:
        model: a `SentenceEncoder`, or a `BertEncoder`, with a vocabulary. Similarity is the cosine. Or None.
        corpus: the id of each document -> its text: a dictionary, or a Series of pandas by its index.
        queries: the id of each query -> its text, in the same form.
        relevant: the id of each query -> the ids of all its relevant documents, or a dictionary: id -> grade, where
            those with a grade above 0 are relevant. In the same form.
        ks: the numbers of ranks that count.
        index: of the texts of the corpus, in the order of their ids, `sorted(corpus)`, with their ids or without ids.
            By default all vectors are compared.
        exact: whether all vectors are compared where `index` has a graph.
        others: a name -> a `SparseEncoder` or `MultiVectorEncoder`, which compares all documents by its `similarity`.
        hybrid: whether the words are searched too, and all rankings fused, see `reciprocal_rank_fusion`.
        reranker: a `CrossEncoder` or `MultiVectorEncoder`, which ranks the first `num_candidates` of each query again,
            of the hybrid search if there is one, else of the first; the others follow.
        num_candidates: see `reranker`.
        batch_size: texts computed at once.

    Returns:
        "search" -> `ndcg@k`, `mrr@k`, `map@k` and `recall@k` for each k, means over the queries; and the same for each
        name of `others`, for "BM25" (if `hybrid`, or without a model), "hybrid" and "re-ranked". The average precision
        is divided by the number of relevant documents, or by k if that is less.

    Raises:
        InputError: an id has no text, no query has a relevant document, `index` has other texts or another model, a
            text is empty, ids are of another type, or a number is out of range.

    Example:
        corpus = {"d1": "a cat on a mat", "d2": "stocks fell"}
        evaluate_search(encoder, corpus, {"q1": "a kitten"}, {"q1": {"d1"}}, ks=[1])["search"]["ndcg@1"]  # 1.0

    Reference: sentence-transformers 6.2, `InformationRetrievalEvaluator`.
    """
    ks = checked_ks(ks)
    corpus, queries = _by_id(corpus, "corpus"), _by_id(queries, "queries")
    corpus = {name: corpus[name] for name in sorted(corpus, key=id_order)}  # so equal scores come in this order
    judged = _judged(corpus, queries, _by_id(relevant, "relevant"))
    options = {"index": index, "exact": exact, "others": others or {}, "hybrid": hybrid, "batch_size": batch_size}
    options |= {"reranker": reranker, "num_candidates": num_candidates}
    rankings = _rankings(model, corpus, [queries[name] for name in judged], max(ks), **options)
    return {kind: _scores(ranking, list(judged.values()), ks) for kind, ranking in rankings.items()}


def _rankings(
    model, corpus, asked: list[str], depth: int, *, index, exact, others, hybrid, batch_size, reranker, num_candidates
) -> dict[str, list[list[int]]]:
    """Returns the documents of each query by each ranking of `evaluate_search`: their numbers in the corpus."""
    check_whole("num_candidates", num_candidates, at_least=1)
    texts = list(corpus.values())
    depth = max(depth, num_candidates if reranker is not None else 1, FUSED if hybrid else 1)
    rankings: dict[str, list[list[int]]] = {}
    if model is not None:
        index = _index_of(index, model, list(corpus), texts, batch_size)
        hits = index.search(model, asked, depth, batch_size=batch_size, exact=exact)
        rankings["search"] = [[hit.number for hit in of_query] for of_query in hits]
    for name, other in others.items():
        rankings[name] = _most_similar(other, texts, asked, depth, batch_size)
    if hybrid or not rankings:
        found, _ = WordIndex.build(texts).nearest(asked, depth)
        rankings["BM25"] = [row[row >= 0].tolist() for row in found]
    if hybrid:
        of_queries = zip(*rankings.values(), strict=True)
        rankings["hybrid"] = [[number for number, _ in reciprocal_rank_fusion(some, depth)] for some in of_queries]
    if reranker is not None:
        first = rankings["hybrid" if hybrid else next(iter(rankings))]
        pairs = progress_bar([*zip(asked, first, strict=True)], unit=" queries", mininterval=1, delay=2)
        rankings["re-ranked"] = [
            _ranked_again(reranker, query, found, texts, num_candidates, batch_size) for query, found in pairs
        ]
    return rankings


def _scores(ranking: list[list[int]], relevant: list[set[int]], ks: list[int]) -> dict[str, float]:
    scores = retrieval_scores(ranking, relevant, ks, dict.fromkeys(("mrr", "ndcg", "map"), ks))
    return {name: scores[name] for name in (f"{score}@{k}" for score in SCORES for k in ks)}


def _index_of(index: VectorIndex | None, model, ids: list[str], texts: list[str], batch_size: int) -> VectorIndex:
    if index is None:
        return VectorIndex.build(model, texts, batch_size=batch_size, exact=True)
    if index.texts != texts or index.ids not in (None, ids):
        raise InputError(
            f"The index must have the {len(texts):,} texts of the corpus in the order of their ids. Received: "
            f"{len(index):,} texts. Build it again."
        )
    return index


def _most_similar(model, texts: list[str], queries: list[str], depth: int, batch_size: int) -> list[list[int]]:
    """Returns the documents of each query with the largest `similarity`, as numbers. All vectors are in memory."""
    documents = model.encode_document(texts, batch_size=batch_size)
    vectors, found = model.encode_query(queries, batch_size=batch_size), []
    for some in parts_of(len(queries), len(texts)):
        scores = model.similarity(vectors[some], documents)
        found += np.argsort(-scores, axis=1, kind="stable")[:, :depth].tolist()
    return found


def _by_id(values: Any, name: str) -> Mapping:
    """Returns an argument of `evaluate_search` as a dictionary. Raises `InputError` if it has no ids."""
    found = as_mapping(values, name)
    if found is None:
        raise InputError(
            f"{name} must be a dictionary with ids as keys, or a Series of pandas with ids as index. Received: "
            f"{type(values).__name__}"
        )
    if wrong := [one for one in found if not isinstance(one, (str, Integral))]:
        raise InputError(f"The ids of {name} must be strings or whole numbers. Received: {wrong[0]!r:.100}")
    return found


def _judged(corpus: Mapping[Any, str], queries: Mapping[Any, str], relevant: Mapping[Any, Any]) -> dict[Any, set[int]]:
    """Returns the numbers of the relevant documents of each query that has some, in the order of `queries`."""
    numbers = {name: number for number, name in enumerate(corpus)}
    unknown = next((name for name in relevant if name not in queries), None)
    if unknown is not None:
        raise InputError(f"relevant has the query {unknown!r}, but queries have no text for it.")
    right = {query: relevant_documents(judged, f"the query {query!r}") for query, judged in relevant.items()}
    for query, names in right.items():
        unknown = next((name for name in names if name not in numbers), None)
        if unknown is not None:
            raise InputError(f"The query {query!r} has the relevant document {unknown!r}, which the corpus lacks.")
    judged = {name: {numbers[document] for document in right[name]} for name in queries if right.get(name)}
    if not judged:
        raise InputError("No query has a relevant document, so nothing can be found.")
    return judged


def _ranked_again(
    reranker, query: str, found: list[int], texts: list[str], num_candidates: int, batch_size: int
) -> list[int]:
    candidates = sorted(found[:num_candidates])  # `rank` keeps the order of equal scores
    if not candidates:
        return []
    ranked = reranker.rank(query, [texts[number] for number in candidates], batch_size=batch_size)
    return [*(candidates[one.number] for one in ranked), *found[num_candidates:]]
