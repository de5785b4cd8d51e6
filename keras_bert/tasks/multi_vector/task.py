"""Queries and documents, for `MultiVectorEncoder`."""

import dataclasses

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.base import Answered, ExampleRows, TextTask
from keras_bert.tasks.embedding.examples import PAIRS, SCORES, DataSets, SentenceExamples, data_sets_of
from keras_bert.tasks.embedding.scores import scores_of_pairs
from keras_bert.tasks.embedding.task import check_one_data_set, examples_of_columns, numbers_of
from keras_bert.tasks.multi_vector.encoding import DOCUMENT, QUERY, rows_of, scored_vectors
from keras_bert.tasks.prediction import Calls, predict_rows
from keras_bert.tasks.ranking.task import RankingTask


class MultiVectorTask(RankingTask):
    """Queries and documents -> scores.

    `x` is a tuple of columns of N texts: queries, their documents and, in further columns, other documents. `y` is
    None, or N lists of a teacher's scores of the documents; or `x` is several data sets. The scores are those of
    `RankingTask`, and those of retrieval for pairs.
    """

    name = "multi_vector"

    def examples(self, x, y=None, sample_weight=None) -> SentenceExamples | DataSets:
        examples = examples_of_columns(x, y, sample_weight)
        if any(len(part.columns) < 2 for part in data_sets_of(examples)):
            raise InputError(
                f"{examples.source}: queries are compared with documents. Give two columns or more: (queries, "
                "documents). encode_query and encode_document return vectors."
            )
        return examples

    def check_kind(self, examples: SentenceExamples) -> None:
        if examples.kind == SCORES:
            raise InputError(
                f"{examples.source}: a teacher's scores belong to two documents or more of each query. Received: one "
                "document. Give (queries, documents, others)."
            )

    def rows_of(self, examples: SentenceExamples, max_seq_length: int | None = None) -> ExampleRows:
        queries, *columns = examples.columns
        documents = [text for texts in zip(*columns, strict=True) for text in texts]
        parts, notes = [], []
        for role, texts in ((QUERY, queries), (DOCUMENT, documents)):
            rows, is_cut = rows_of(self.model, texts, role, max_seq_length)
            length, what = self.model.longest(role, max_seq_length), "queries" if role == QUERY else "documents"
            notes += self._notes_of_cuts(examples, is_cut, length, f"{what} were")
            parts.append(rows)
        rows = self._with_labels(_in_turns(*parts, len(columns)), None, examples.weights)
        if examples.scores is not None:
            return ExampleRows(rows.with_labels(**{features.LABEL_IDS: np.asarray(examples.scores, np.float32)}), notes)
        # Equal texts are no negatives of each other.
        return ExampleRows(rows.with_labels(**{features.TEXT_NUMBERS: numbers_of(examples.columns)}), notes)

    def outputs(self, rows: TokenRows, batch_size: int = 32, verbose="auto", calls: Calls | None = None) -> np.ndarray:
        """Returns the vectors of all tokens, float32 `(T, D)`, computed text by text."""
        check_one_data_set(rows)
        texts = dataclasses.replace(rows, rows_per_example=1, labels={})
        return predict_rows(self.model, texts, batch_size, verbose, calls)

    def answers(self, examples: SentenceExamples, example_rows: ExampleRows, outputs: np.ndarray) -> np.ndarray:
        """Returns the scores, float32 `[N]`, or `[N, C]` for C documents per query."""
        vectors, num_texts = scored_vectors(example_rows.rows, outputs), len(examples.columns)
        texts = (vectors[first : first + num_texts] for first in range(0, len(vectors), num_texts))
        scores = np.concatenate([self.model.similarity([query], documents) for query, *documents in texts])
        return scores[:, 0] if num_texts == 2 else scores

    def scores_of(self, answered: Answered, is_worst: bool = False) -> dict[str, float]:
        """Returns `scores`; for pairs those of retrieval, as every query ranks all documents."""
        examples = answered.examples
        if examples.kind != PAIRS or len(examples.columns) > 2:
            return super().scores_of(answered, is_worst)
        vectors = scored_vectors(answered.example_rows.rows, answered.outputs)
        queries, documents = vectors[::2], vectors[1::2]

        def similarities(rows, numbers):
            return self.model.similarity(queries, [documents[row] for row in rows])

        return scores_of_pairs(examples.columns, similarities, is_worst)

    explained_rows = TextTask.explained_rows


def _in_turns(queries: TokenRows, documents: TokenRows, num_documents: int) -> TokenRows:
    """Returns the row of each query, followed by the rows of its documents."""
    splits = np.concatenate([queries.splits, queries.splits[-1] + documents.splits[1:]])
    num_queries = len(queries)
    order = np.arange(num_queries * num_documents).reshape(num_queries, num_documents) + num_queries
    order = np.concatenate([np.arange(num_queries)[:, None], order], axis=1).reshape(-1)
    lengths = np.diff(splits)[order]
    ends = np.cumsum([0, *lengths])
    tokens = np.repeat(splits[order] - ends[:-1], lengths) + np.arange(ends[-1])
    columns = {name: np.append(values, documents.tokens[name])[tokens] for name, values in queries.tokens.items()}
    return dataclasses.replace(queries, tokens=columns, splits=ends, rows_per_example=1 + num_documents)
