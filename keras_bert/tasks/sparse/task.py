"""Queries with documents, for `SparseEncoder`."""

from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.base import ExampleRows
from keras_bert.tasks.embedding.examples import TEXTS
from keras_bert.tasks.embedding.scores import scores_of_pairs
from keras_bert.tasks.embedding.task import EmbeddingTask, forget_traces
from keras_bert.tasks.prediction import Calls
from keras_bert.tasks.sparse.encoding import num_active, rows_of_columns, vectors_of_rows
from keras_bert.tasks.sparse.examples import SparseExamples
from keras_bert.tokenization.user_inputs import as_list, as_texts

_QUERIES_AT_ONCE = 256


class SparseTask(EmbeddingTask):
    """Texts -> sparse vectors.

    `x` is N texts, or a tuple of two or more columns of N texts: queries, documents and others. `y` is None, or a
    teacher's scores, see `SparseExamples.with_scores`. The scores are those of retrieval, and the mean numbers of
    tokens with a weight: `query_active_dims` and `document_active_dims`.
    """

    name = "sparse"
    main_score = "ndcg@10"
    scores_texts = False

    def examples(self, x, y=None, sample_weight=None) -> SparseExamples:
        columns = x if isinstance(x, tuple) else (x,)
        advice = " Queries and documents are given as columns: (queries, documents)."
        columns = [as_texts(column, f"text of column {number}", advice) for number, column in enumerate(columns, 1)]
        scores = None if y is None else as_list(y, "the teacher's scores")
        return SparseExamples.with_scores(columns, scores, weights=sample_weight)

    def before_training(self, examples: SparseExamples) -> None:
        """Checks that the model can learn from the examples."""
        if examples.kind == TEXTS:
            raise InputError(
                f"{examples.source}: there is nothing to learn from single texts. Give (queries, documents), or "
                "(queries, documents, others) with a teacher's scores."
            )
        if self.model.splade_loss.needs_teacher and examples.margins is None:
            raise InputError(f"{examples.source}: margin_mse learns from a teacher's scores. Give them as y.")
        if len(set(examples.columns[0])) < 2 and examples.margins is None:
            raise InputError(f"{examples.source}: in-batch negatives need two different queries or more. Received: one")
        forget_traces(self.model)

    def _labels(self, examples: SparseExamples) -> dict[str, np.ndarray]:
        margins = {} if examples.margins is None else {features.LABEL_IDS: np.asarray(examples.margins, np.float32)}
        return super()._labels(examples) | margins

    def outputs(self, rows: TokenRows, batch_size: int = 32, verbose="auto", calls: Calls | None = None) -> tuple:
        """Returns the vectors of each column of texts, CSR arrays `[N, V]`; see `vectors_of_rows`."""
        found = []
        for number, column in enumerate(rows_of_columns(rows)):
            is_query = number == 0 if rows.rows_per_example > 1 else self.model.default_route == "query"
            is_static = is_query and self.model.static_queries
            found.append(vectors_of_rows(self.model, column, is_static, self.model.max_active_dims, batch_size, calls))
        return tuple(found)

    def answers(self, examples: SparseExamples, example_rows: ExampleRows, outputs: tuple) -> Any:
        """Returns the vectors, a CSR array `[N, V]`, or for C columns a tuple of C of them."""
        return outputs if len(outputs) > 1 else outputs[0]

    def scores(self, examples: SparseExamples, answers: Any, is_worst: bool = False) -> dict[str, float]:
        if examples.kind == TEXTS:
            raise InputError(f"{examples.source}: single texts have no scores. Give (queries, documents).")
        queries, *documents = answers

        def products(rows, numbers):
            from scipy.sparse import vstack

            found = vstack(documents, format="csr")[(numbers - 1) * len(examples) + rows]
            for first in range(0, len(examples), _QUERIES_AT_ONCE):
                yield from (queries[first : first + _QUERIES_AT_ONCE] @ found.T).toarray()

        found = scores_of_pairs(examples.columns, products, is_worst)
        return found | {"query_active_dims": num_active([queries]), "document_active_dims": num_active(documents)}
