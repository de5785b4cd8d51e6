"""Queries with documents, for `SparseEncoder`."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.base import Answered, ExampleRows
from keras_bert.tasks.embedding.examples import LABELS, SCORES, TEXTS, SentenceExamples
from keras_bert.tasks.embedding.scores import scores_of_pairs
from keras_bert.tasks.embedding.task import EmbeddingTask, check_one_data_set, numbers_of, write_scores_and_misses
from keras_bert.tasks.prediction import Calls
from keras_bert.tasks.report_files import write_numbers
from keras_bert.tasks.sparse.encoding import num_active, rows_of_columns, vectors_of_rows

_QUERIES_AT_ONCE = 256


class SparseTask(EmbeddingTask):
    """Texts -> sparse vectors.

    `x` is N texts, or a tuple of two or more columns of N texts: queries, documents and others. `y` is None, or a
    teacher's scores of the documents or their margins, see `SentenceExamples`; or `x` is several data sets. The scores
    are those of retrieval, and the mean numbers of tokens with a weight: `query_active_dims` and
    `document_active_dims`.
    """

    name = "sparse"
    main_score = "ndcg@10"
    scores_texts = False

    def check_kind(self, examples: SentenceExamples) -> None:
        if examples.kind in (TEXTS, LABELS):
            raise InputError(
                f"{examples.source}: there is nothing to learn from single texts. Give (queries, documents), or "
                "(queries, documents, others) with a teacher's scores."
            )
        if examples.kind == SCORES:
            raise InputError(
                f"{examples.source}: a teacher's scores belong to a query and two documents or more. Received: one "
                "document. Give (queries, documents, others)."
            )

    def before_updates(self, num_updates: int) -> None:
        self.model.updates_of_run = num_updates

    def _labels(self, examples: SentenceExamples) -> dict[str, np.ndarray]:
        # In-batch negatives may ignore a teacher's scores.
        return super()._labels(examples) | {features.TEXT_NUMBERS: numbers_of(examples.columns)}

    def outputs(self, rows: TokenRows, batch_size: int = 32, verbose="auto", calls: Calls | None = None) -> tuple:
        """Returns the vectors of each column of texts, CSR arrays `[N, V]`; see `vectors_of_rows`."""
        check_one_data_set(rows)
        found = []
        for number, column in enumerate(rows_of_columns(rows)):
            is_query = number == 0 if rows.rows_per_example > 1 else self.model.default_route == "query"
            is_static = is_query and self.model.static_queries
            found.append(vectors_of_rows(self.model, column, is_static, self.model.max_active_dims, batch_size, calls))
        return tuple(found)

    def no_answers(self, num_columns: int) -> Any:
        nothing = self.model.encode([])
        return nothing if num_columns == 1 else (nothing,) * num_columns

    def answers(self, examples: SentenceExamples, example_rows: ExampleRows, outputs: tuple) -> Any:
        """Returns the vectors, a CSR array `[N, V]`, or for C columns a tuple of C of them."""
        return outputs if len(outputs) > 1 else outputs[0]

    def scores(self, examples: SentenceExamples, answers: Any, is_worst: bool = False) -> dict[str, float]:
        if len(examples.columns) == 1:
            raise InputError(f"{examples.source}: single texts have no scores. Give (queries, documents).")
        queries, *documents = answers

        def products(rows, numbers):
            from scipy.sparse import vstack

            return _products(queries, vstack(documents, format="csr")[(numbers - 1) * len(examples) + rows])

        found = scores_of_pairs(examples.columns, products, is_worst)
        return found | {"query_active_dims": num_active([queries]), "document_active_dims": num_active(documents)}

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        """Writes report.txt, and misses.tsv with the queries whose document is not the first found."""
        nearest = [int(row.argmax()) for row in _products(*answered.answers[:2])]
        write_scores_and_misses(folder, answered.examples, scores, nearest)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_vectors_1.npz, a CSR array `[N, V]`, for the first column and so on; for pairs also
        NAME_results.tsv with products."""
        from scipy.sparse import save_npz

        columns = answered.answers if isinstance(answered.answers, tuple) else (answered.answers,)
        for number, vectors in enumerate(columns, start=1):
            with atomic_file(os.path.join(folder, f"{name}_vectors_{number}.npz")) as file:
                save_npz(file, vectors)
        if len(columns) > 1:
            products = columns[0].multiply(columns[1]).sum(axis=1)
            write_numbers(os.path.join(folder, f"{name}_results.tsv"), products[:, None])


def _products(queries: Any, documents: Any) -> Iterator[np.ndarray]:
    """Yields the products of each query with all documents, float32 `(D,)`. Few are dense at a time."""
    for first in range(0, queries.shape[0], _QUERIES_AT_ONCE):
        yield from (queries[first : first + _QUERIES_AT_ONCE] @ documents.T).toarray()
