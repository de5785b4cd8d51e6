"""A sparse matrix of documents, kept by its columns: what a search by words or by sparse vectors adds up."""

import itertools
from typing import Any

import numpy as np

from keras_bert.embeddings.vector_search import largest, parts_of
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole


class Postings:
    """N documents with weights for V columns, such as words.

    Args:
        columns: a `scipy.sparse` CSR array `[V, N]`, float32: for each column the documents with a weight.
    """

    def __init__(self, columns: Any):
        self.columns = columns

    @classmethod
    def of_rows(cls, rows: Any) -> "Postings":
        """Takes a sparse array `[N, V]`, a row for each document: words, or vectors of a `SparseEncoder`."""
        return cls(rows.T.tocsr().astype(np.float32))

    @property
    def num_documents(self) -> int:
        """The number N of documents."""
        return self.columns.shape[1]

    def nearest(self, queries: Any, top_k: int, is_allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the documents with the largest products, the lowest number first among equal products.

        Args:
            queries: a sparse array `[Q, V]`.
            top_k: how many documents for each query, 1 or more.
            is_allowed: bool `(N,)`, which documents may be found; None for all.

        Returns:
            numbers int64 `(Q, K)` and scores float32 `(Q, K)`, where K is `top_k`, or N if that is less. A document
            whose product is 0 is not found: the number -1 and the score 0 fill up.

        Raises:
            InputError: the queries have other columns, such as those of another model, or `top_k` is below 1.
        """
        check_whole("top_k", top_k, at_least=1)
        if queries.shape[1:] != self.columns.shape[:1]:
            raise InputError(
                f"Queries must be [number, {self.columns.shape[0]}], as the documents. Received the shape "
                f"{list(queries.shape)}. Make both with one model."
            )
        queries = queries.tocsr().astype(np.float32)
        depth = min(top_k, self.num_documents)
        numbers = np.full((queries.shape[0], depth), -1, np.int64)
        scores = np.zeros((queries.shape[0], depth), np.float32)
        for some in parts_of(queries.shape[0], self.num_documents):
            products = queries[some] @ self.columns
            products.sort_indices()  # so that the lowest number is first among equal products
            for place, (start, end) in enumerate(itertools.pairwise(products.indptr), start=some.start):
                documents, values = products.indices[start:end], products.data[start:end]
                is_found = values > 0 if is_allowed is None else (values > 0) & is_allowed[documents]
                documents, values = documents[is_found], values[is_found]
                best = largest(values, depth)
                numbers[place, : len(best)], scores[place, : len(best)] = documents[best], values[best]
        return numbers, scores
