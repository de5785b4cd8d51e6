"""Queries and documents, for `MultiVectorEncoder`."""

import dataclasses

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.base import ExampleRows, TextTask
from keras_bert.tasks.classification.scores import regression_scores
from keras_bert.tasks.embedding.examples import SCORES
from keras_bert.tasks.embedding.task import examples_of_columns, forget_traces
from keras_bert.tasks.multi_vector.encoding import DOCUMENT, QUERY, rows_of, scored_vectors
from keras_bert.tasks.multi_vector.examples import MultiVectorExamples
from keras_bert.tasks.prediction import Calls, predict_rows
from keras_bert.tasks.ranking.task import RankingTask
from keras_bert.tokenization.user_inputs import as_list


class MultiVectorTask(RankingTask):
    """Queries and documents -> scores.

    `x` is a tuple of columns of N texts: queries, their documents and, in further columns, other documents. `y` is
    None, or N lists of a teacher's scores of the documents. The scores are those of ranking the documents of each
    query, the first being relevant; with a teacher's scores, their correlations with the model's.
    """

    name = "multi_vector"

    def examples(self, x, y=None, sample_weight=None) -> MultiVectorExamples:
        columns = examples_of_columns(x).columns
        teacher_scores = None if y is None else as_list(y, "a teacher's scores")
        return MultiVectorExamples(columns, weights=sample_weight, teacher_scores=teacher_scores)

    def before_training(self, examples: MultiVectorExamples) -> None:
        """Chooses the loss, and checks that it can learn from the examples."""
        # Only now, because it takes seconds, and predictions of loaded exports do without it.
        from keras_bert.tasks.multi_vector.losses import DEFAULT_LOSSES

        self.main_score = "spearman" if examples.kind == SCORES else "mrr@10"
        self.model.set_loss_of_examples(DEFAULT_LOSSES[examples.kind])
        forget_traces(self.model)
        loss = self.model.embedding_loss
        if loss.learns_from != examples.kind or len(examples.columns) < loss.fewest_texts:
            raise InputError(
                f"{examples.source}: {type(loss).__name__} learns from {loss.learns_from}, with {loss.fewest_texts} "
                f"texts or more in an example. Received: {examples.kind}, with {len(examples.columns)}"
            )
        if examples.kind != SCORES and len(set(examples.columns[0])) < 2:
            raise InputError(f"{examples.source}: in-batch negatives need two different queries or more. Received: one")

    def rows(self, examples: MultiVectorExamples, max_seq_length: int | None = None) -> ExampleRows:
        queries, *columns = examples.columns
        documents = [text for texts in zip(*columns, strict=True) for text in texts]
        parts, notes = [], []
        for role, texts in ((QUERY, queries), (DOCUMENT, documents)):
            rows, is_cut = rows_of(self.model, texts, role, max_seq_length)
            length = self.model.longest(role, max_seq_length)
            notes += self._notes_of_cuts(
                examples, is_cut, length, "queries were" if role == QUERY else "documents were"
            )
            parts.append(rows)
        rows = self._with_labels(_in_turns(*parts, len(columns)), None, examples.weights)
        if examples.teacher_scores is not None:
            labels = {features.LABEL_IDS: np.asarray(examples.teacher_scores, np.float32)}
        else:
            numbers: dict[str, int] = {}  # equal texts, which are no negatives of each other, have equal numbers
            texts = zip(*examples.columns, strict=True)
            found = [[numbers.setdefault(text, len(numbers)) for text in row] for row in texts]
            labels = {features.TEXT_NUMBERS: np.array(found, np.int32)}
        return ExampleRows(rows.with_labels(**labels), notes)

    def outputs(self, rows: TokenRows, batch_size: int = 32, verbose="auto", calls: Calls | None = None) -> np.ndarray:
        """Returns the vectors of all tokens, float32 `(T, D)`, computed text by text."""
        texts = dataclasses.replace(rows, rows_per_example=1, labels={})
        return predict_rows(self.model, texts, batch_size, verbose, calls)

    def answers(self, examples: MultiVectorExamples, example_rows: ExampleRows, outputs: np.ndarray) -> np.ndarray:
        """Returns the scores, float32 `[N]`, or `[N, C]` for C documents per query."""
        vectors, num_texts = scored_vectors(example_rows.rows, outputs), len(examples.columns)
        texts = (vectors[first : first + num_texts] for first in range(0, len(vectors), num_texts))
        scores = np.concatenate([self.model.similarity([query], documents) for query, *documents in texts])
        return scores[:, 0] if num_texts == 2 else scores

    def scores(self, examples: MultiVectorExamples, answers: np.ndarray, is_worst: bool = False) -> dict[str, float]:
        if examples.teacher_scores is None:
            return super().scores(examples, answers, is_worst)
        found = regression_scores(np.ravel(examples.teacher_scores), np.ravel(answers))
        return {name: found[name] for name in ("spearman", "pearson")}

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
