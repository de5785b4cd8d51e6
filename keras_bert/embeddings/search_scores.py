"""Scores of a search in a collection: every query is ranked against all documents."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from keras_bert.embeddings.vector_index import Hit, VectorIndex
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.scores import retrieval_scores

SCORES = ("ndcg", "mrr", "map", "recall")


def evaluate_search(
    model: Any,
    corpus: Mapping[str, str],
    queries: Mapping[str, str],
    relevant: Mapping[str, Collection[str]],
    *,
    ks: Sequence[int] = (1, 10, 100),
    index: VectorIndex | None = None,
    exact: bool = False,
    reranker: Any = None,
    num_candidates: int = 100,
    batch_size: int = 32,
) -> dict[str, dict[str, float]]:
    """Searches for every query in all documents and scores what is found.

    Documents with equal scores are ranked by their ids, the lowest first. Queries without a relevant document are left
    out. A document is relevant or not: there are no degrees. A document with the id of the query counts as any other.

    Args:
        model: a `SentenceEncoder`, or a `BertEncoder`, with a vocabulary. Similarity is the cosine.
        corpus: the id of each document -> its text.
        queries: the id of each query -> its text.
        relevant: the id of each query -> the ids of all its relevant documents.
        ks: the numbers of ranks that count.
        index: of the texts of the corpus, in the order of `sorted(corpus)`, with their ids or without ids. By default
            all vectors are compared.
        exact: whether all vectors are compared where `index` has a graph.
        reranker: a `CrossEncoder`, which ranks the first `num_candidates` of each query again; the others follow.
        num_candidates: see `reranker`.
        batch_size: texts computed at once.

    Returns:
        "search" -> `ndcg@k`, `mrr@k`, `map@k` and `recall@k` for each k, means over the queries; and "re-ranked" -> the
        same, with a `reranker`. The average precision is divided by the number of relevant documents, or by k if that
        is less.

    Raises:
        InputError: an id has no text, no query has a relevant document, `index` has other texts or another model, a
            text is empty, or a number is out of range.

    Example:
        corpus = {"d1": "a cat on a mat", "d2": "stocks fell"}
        evaluate_search(encoder, corpus, {"q1": "a kitten"}, {"q1": {"d1"}}, ks=[1])["search"]["ndcg@1"]  # 1.0

    Reference: sentence-transformers 6.2, `InformationRetrievalEvaluator`.
    """
    if not ks or min(ks) < 1 or num_candidates < 1:
        raise InputError(f"ks and num_candidates must be 1 or more. Received: {list(ks)} and {num_candidates}")
    ids = sorted(corpus)  # so that equal scores come in the order of the ids
    numbers = {name: number for number, name in enumerate(ids)}
    judged = _judged(numbers, queries, relevant)
    asked = [queries[name] for name in judged]
    texts = [corpus[name] for name in ids]
    if index is None:
        index = VectorIndex.build(model, texts, batch_size=batch_size, exact=True)
    elif index.texts != texts or index.ids not in (None, ids):
        raise InputError(
            f"The index must have the {len(texts):,} texts of the corpus in the order of their ids. Received: "
            f"{len(index):,} texts. Build it again."
        )
    depth = max(*ks, num_candidates if reranker is not None else 1)
    found = index.search(model, asked, depth, batch_size=batch_size, exact=exact)
    rankings = {"search": [[hit.number for hit in hits] for hits in found]}
    if reranker is not None:
        with tqdm(zip(asked, found, strict=True), total=len(asked), unit=" queries", mininterval=1, delay=2) as pairs:
            rankings["re-ranked"] = [
                _ranked_again(reranker, query, hits, num_candidates, batch_size) for query, hits in pairs
            ]
    names = [f"{score}@{k}" for score in SCORES for k in ks]
    scores = {
        kind: retrieval_scores(ranking, list(judged.values()), ks, dict.fromkeys(("mrr", "ndcg", "map"), ks))
        for kind, ranking in rankings.items()
    }
    return {kind: {name: of_kind[name] for name in names} for kind, of_kind in scores.items()}


def _judged(
    numbers: Mapping[str, int], queries: Mapping[str, str], relevant: Mapping[str, Collection[str]]
) -> dict[str, set[int]]:
    """Returns the numbers of the relevant documents of each query that has some, in the order of `queries`."""
    unknown = next((name for name in relevant if name not in queries), None)
    if unknown is not None:
        raise InputError(f"relevant has the query {unknown!r}, but queries have no text for it.")
    for query, names in relevant.items():
        unknown = next((name for name in names if name not in numbers), None)
        if unknown is not None:
            raise InputError(f"The query {query!r} has the relevant document {unknown!r}, which the corpus lacks.")
    judged = {name: {numbers[document] for document in relevant[name]} for name in queries if relevant.get(name)}
    if not judged:
        raise InputError("No query has a relevant document, so nothing can be found.")
    return judged


def _ranked_again(reranker, query: str, hits: Sequence[Hit], num_candidates: int, batch_size: int) -> list[int]:
    candidates = sorted(hits[:num_candidates], key=lambda hit: hit.number)  # `rank` keeps the order of equal scores
    ranked = reranker.rank(query, [hit.text for hit in candidates], batch_size=batch_size)
    return [*(candidates[one.number].number for one in ranked), *(hit.number for hit in hits[num_candidates:])]
