"""Queries and texts, for `CrossEncoder`."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import as_texts
from keras_bert.tasks import answer_operations
from keras_bert.tasks.base import Answered, ExampleRows, text_task
from keras_bert.tasks.embedding.examples import LISTS, PAIRS, SCORES, DataSets, SentenceExamples, data_sets_of
from keras_bert.tasks.embedding.scores import TiedRanking, mean_scores, similarity_scores
from keras_bert.tasks.embedding.task import SentenceTask, examples_of_columns, write_scores_and_misses
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, pieces_of_row, pools_all_tokens
from keras_bert.tasks.prediction import predict_rows
from keras_bert.tasks.prompts import Prompts
from keras_bert.tasks.ranking.answers import RankedText, ranked_texts
from keras_bert.tasks.report_files import write_numbers, write_table


class RankingTask(SentenceTask):
    """Queries and texts -> scores.

    `x` is a tuple of columns of N texts: queries and texts, with `y` as N relevances from 0 to 1; or queries, relevant
    texts and one or more columns of other texts, without `y` or with a list of scores for each query. The scores are
    the correlations of the model's scores with the relevances, or those of ranking the texts of each query.
    """

    name = "ranking"
    main_score = "mrr@10"
    main_scores = {SCORES: "spearman", PAIRS: "mrr@10", LISTS: "mrr@10"}

    def examples(self, x, y=None, sample_weight=None) -> SentenceExamples | DataSets:
        examples = examples_of_columns(x, y, sample_weight)
        if any(len(part.columns) < 2 for part in data_sets_of(examples)):
            raise InputError("A query and a text are read together. Give two columns or more: (queries, texts).")
        return examples

    def check_kind(self, examples: SentenceExamples) -> None:
        if examples.kind == PAIRS and len(examples.columns) < 3:
            raise InputError(
                f"{examples.source}: there is nothing to rank. Give relevances, fit((queries, texts), relevances), or "
                "other texts beside the relevant one: fit((queries, texts, others))."
            )

    def rows_of(
        self, examples: SentenceExamples, max_seq_length: int | None = None, prompt: str | None = None
    ) -> ExampleRows:
        length, num_texts = self.checked_length(max_seq_length or self.model.max_seq_length), len(examples.columns) - 1
        prefix = self.model.prompt(prompt)
        queries = (prefix + query for query in examples.columns[0] for _ in range(num_texts))
        texts = (text for _, *texts in zip(*examples.columns, strict=True) for text in texts)
        rows, is_cut, _ = self.text_rows(queries, texts, length)
        rows = dataclasses.replace(rows, rows_per_example=num_texts)
        relevances = examples.scores
        if relevances is None:  # the first text of each query is the relevant one
            relevances = np.tile(np.eye(num_texts)[0], (len(examples), 1))
        rows = self._with_labels(rows, np.asarray(relevances, np.float32), examples.weights)
        return ExampleRows(rows, self._notes_of_cuts(examples, is_cut, length, "rows were"))

    def no_answers(self, num_columns: int) -> np.ndarray:
        return np.zeros((0, num_columns - 1) if num_columns > 2 else 0, np.float32)

    def answers(self, examples: SentenceExamples, example_rows: ExampleRows, outputs: np.ndarray) -> np.ndarray:
        """Returns the scores, float32 `[N]`, or `[N, C]` for C texts per query."""
        outputs = outputs.reshape(len(outputs), -1)  # a loaded export has an axis more
        scores = getattr(answer_operations, self.model.activation)(outputs)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def explained_rows(
        self, examples: SentenceExamples, example_rows: ExampleRows, outputs, targets
    ) -> list[ExplainedRow]:
        """Explains the output of each pair (query, text)."""
        if len(examples.columns) != 2:
            raise InputError(f"explain takes (queries, texts). Received: {len(examples.columns)} columns.")
        rows, prefix = [], self.model.prompt()
        for number, (query, text) in enumerate(zip(*examples.columns, strict=True)):
            texts = (prefix + query, text)
            pieces = pieces_of_row(self.row_ids(example_rows, number), texts, self.tokenizer)
            columns = () if pools_all_tokens(self.model) else (0,)
            rows.append(ExplainedRow(number, number, "score", (0,), columns, texts, pieces))
        return rows

    def scores(self, examples: SentenceExamples, answers: np.ndarray, is_worst: bool = False) -> dict[str, float]:
        if examples.kind == SCORES:
            return similarity_scores(answers, examples.scores)
        if answers.ndim == 1:
            raise InputError(f"{examples.source}: a single text per query has no rank. Give relevances or other texts.")
        places = np.arange(answers.shape[1])
        best = np.zeros(len(answers), int)
        if examples.kind == LISTS and len(examples.scores[0]) == len(places):  # scores instead of margins
            best = np.argmax(examples.scores, axis=1)
        rankings = (
            TiedRanking.of_scores(*pair, is_worst) for pair in zip(answers, best[:, None] == places, strict=True)
        )
        return mean_scores([ranking.scores(num_relevant=1, ks=(1,)) for ranking in rankings])

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        """Writes report.txt."""
        write_scores_and_misses(folder, answered.examples, scores, None)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_results.tsv, the scores of the texts of each query, and NAME_predictions.tsv with queries and
        their best texts."""
        answers = answered.answers.reshape(len(answered.examples), -1)
        write_numbers(os.path.join(folder, f"{name}_results.tsv"), answers)
        queries, *columns = answered.examples.columns
        best = answers.argmax(axis=1)
        rows = ([query, columns[best[row]][row], float(answers[row].max())] for row, query in enumerate(queries))
        write_table(os.path.join(folder, f"{name}_predictions.tsv"), ["query", "text", "score"], rows)


class LoadedCrossEncoder(Prompts):
    """Methods of loaded exports of a `CrossEncoder`."""

    labels = ("score",)
    problem_type = "regression"

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.check_prompts()

    served_inputs: ClassVar = {"text": (), "text_b": ()}
    served_outputs: ClassVar = {"score": (0.0,)}

    def serve(self, text: list[str], text_b: list[str]) -> dict[str, np.ndarray]:
        """See `AnswerSignature`."""
        examples = SentenceExamples([text, text_b], source="the texts")
        return {"score": text_task(self).answers(examples, *self.computed(examples))}

    def rank(
        self: Any, query: str, texts: Any, top_k: int | None = None, batch_size: int = 32, prompt: str | None = None
    ) -> list[RankedText]:
        """Returns a `RankedText` for each of the texts with the highest scores for a query, the best first.

        Args:
            query: a string.
            texts: strings.
            top_k: the number of texts to return; None for all.
            batch_size: texts computed at once.
            prompt: the name of the prompt of the query; "" for none. By default the model's default prompt.

        Raises:
            InputError: a text or the query is empty, or the model has no vocabulary or no such prompt.
        """
        check_whole("top_k", top_k, at_least=1, or_none=True)
        if not isinstance(query, str):
            raise InputError(f"The query must be a string. Received: {query!r:.100}")
        task, texts = text_task(self), as_texts(texts)
        if not texts:
            return []
        examples = SentenceExamples([[query] * len(texts), texts], source="the query and its texts")
        rows = task.rows_of(examples, prompt=prompt).print_notes().rows
        scores = task.answers(examples, None, predict_rows(self, rows, batch_size))
        return ranked_texts(scores, texts, top_k)
