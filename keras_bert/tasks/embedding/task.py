"""Pairs, triplets, scored pairs and labelled texts, for `SentenceEncoder`."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tasks.base import Answered, ExampleRows, TextTask
from keras_bert.tasks.classification.report import write_regression_report
from keras_bert.tasks.embedding.examples import LABELS, PAIRS, SCORES, TEXTS, SentenceExamples
from keras_bert.tasks.embedding.scores import (
    cosines_of_pairs,
    label_scores,
    nearest_by_cosine,
    pair_scores,
    similarity_scores,
)
from keras_bert.tasks.report_files import aligned, write_numbers, write_table, write_text
from keras_bert.tokenization.user_inputs import as_list, as_texts

MAIN_SCORES = {PAIRS: "ndcg@10", SCORES: "spearman", LABELS: "neighbour_accuracy"}


class EmbeddingTask(TextTask):
    """Texts -> vectors.

    `x` is N texts, or a tuple of two or more columns of N texts: anchors, positives and hard negatives. `y` is None
    for these, N scores for pairs, or N labels for single texts. The scores are those of retrieval for pairs without
    scores, correlations for scored pairs, and the labels of nearest neighbours for labelled texts.
    """

    name = "embedding"
    main_score = "spearman"

    def examples(self, x, y=None, sample_weight=None) -> SentenceExamples:
        return examples_of_columns(x, y, sample_weight)

    def before_training(self, examples: SentenceExamples) -> None:
        """Chooses the loss, and checks that it can learn from the examples."""
        # Only now, because it takes seconds, and predictions of loaded exports do without it.
        from keras_bert.tasks.embedding.losses import DEFAULT_LOSSES, CosineRegression, InBatchNegatives, Matryoshka

        if examples.kind == TEXTS:
            raise InputError(
                f"{examples.source}: there is nothing to learn from single texts. Give pairs (texts, second_texts), "
                "pairs with scores, or texts with labels."
            )
        self.main_score = MAIN_SCORES[examples.kind]
        self.model.set_loss_of_examples(examples.loss or DEFAULT_LOSSES[examples.kind])
        forget_traces(self.model)
        loss = self.model.embedding_loss
        inner = loss.loss if isinstance(loss, Matryoshka) else loss
        name = type(inner).__name__ if inner is loss else f"Matryoshka({type(inner).__name__})"
        if loss.learns_from != examples.kind or len(examples.columns) < loss.fewest_texts:
            raise InputError(
                f"{examples.source}: {name} learns from {loss.learns_from}, with {loss.fewest_texts} texts or "
                f"more in an example. Received: {examples.kind}, with {len(examples.columns)}"
            )
        if isinstance(loss, Matryoshka) and max(loss.dimensions) > self.model.embedding_size:
            raise InputError(
                f"Matryoshka dimensions must be at most {self.model.embedding_size}, the size of the vectors. "
                f"Received: {max(loss.dimensions)}"
            )
        if isinstance(inner, CosineRegression) and not all(-1 <= score <= 1 for score in examples.scores):
            wrong = next(score for score in examples.scores if not -1 <= score <= 1)
            raise InputError(
                f"{examples.source}: a cosine is between -1 and 1, so the scores must be, too. Received: {wrong}. "
                "Divide scores from 0 to 5 by 5, or use the loss CoSENT."
            )
        if isinstance(inner, InBatchNegatives) and len(set(examples.columns[0])) < 2:
            raise InputError(f"{examples.source}: in-batch negatives need two different anchors or more. Received: one")

    def rows(self, examples: SentenceExamples, max_seq_length: int | None = None) -> ExampleRows:
        length = self.checked_length(self.model.max_seq_length if max_seq_length is None else max_seq_length)
        prefixes = self._prefixes(examples)
        lists = zip(*examples.columns, strict=True)
        texts = (prefix + text for texts in lists for prefix, text in zip(prefixes, texts, strict=True))
        rows, is_cut, _ = self.text_rows(texts, None, length)
        rows = dataclasses.replace(rows, rows_per_example=len(examples.columns))
        notes = self._notes_of_cuts(examples, is_cut, length)
        equal = sum(len(set(texts)) < len(texts) for texts in zip(*examples.columns, strict=True))
        if examples.kind == PAIRS and equal:
            notes.append(f"{examples.source}: in {equal} of {len(examples)} examples two texts are equal")
        return ExampleRows(self._with_labels(rows, self._labels(examples), examples.weights), notes)

    def _with_labels(self, rows, labels, weights):
        return super()._with_labels(rows, None, weights).with_labels(**labels)

    def _labels(self, examples: SentenceExamples) -> dict[str, np.ndarray]:
        if examples.scores is not None:
            return {features.LABEL_IDS: np.asarray(examples.scores, np.float32)}
        if examples.labels is not None:
            return {features.LABEL_IDS: _numbers_of([examples.labels])[:, 0]}
        # Equal texts are no negatives of each other.
        return {features.TEXT_NUMBERS: _numbers_of(examples.columns)} if examples.kind == PAIRS else {}

    def _prefixes(self, examples: SentenceExamples) -> list[str]:
        """Returns the prompt of each column: in pairs, anchors are queries and the other texts are documents."""
        prompt, prompt_for = self.model.prompt, self.model.prompt_for
        if examples.kind != PAIRS:
            return [prompt()] * len(examples.columns)
        return [prompt(prompt_for("query")), *[prompt(prompt_for("document"))] * (len(examples.columns) - 1)]

    def answers(self, examples: SentenceExamples, example_rows: ExampleRows, outputs: np.ndarray) -> np.ndarray:
        """Returns the vectors, float32 `[N, D]`, or `[N, C, D]` for C columns."""
        return outputs

    def scores(self, examples: SentenceExamples, answers: np.ndarray, is_worst: bool = False) -> dict[str, float]:
        if examples.kind == SCORES:
            return similarity_scores(cosines_of_pairs(answers), examples.scores)
        if examples.kind == LABELS:
            return label_scores(answers, examples.labels, is_worst)
        if examples.kind == PAIRS:
            return pair_scores(examples.columns, answers, is_worst)
        raise InputError(f"{examples.source}: single texts without labels have no scores.")

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        """Writes report.txt; for scored pairs also those of a regression, for other pairs misses.tsv.

        misses.tsv has the anchors whose positive is not the first found, with the text that was found instead.
        """
        examples, vectors = answered.examples, answered.answers
        if examples.kind == SCORES:
            gold = np.asarray(examples.scores, np.float64)
            write_regression_report(folder, *examples.columns, gold, cosines_of_pairs(vectors), scores)
            return
        write_text(
            os.path.join(folder, "report.txt"), aligned(["score", "value"], [list(item) for item in scores.items()])
        )
        if examples.kind == PAIRS:
            anchors, positives = examples.columns[:2]
            rows = zip(anchors, positives, nearest_by_cosine(vectors[:, 0], vectors[:, 1]), strict=True)
            misses = [[anchor, text, positives[found]] for anchor, text, found in rows if positives[found] != text]
            write_table(os.path.join(folder, "misses.tsv"), ["anchor", "positive", "found"], misses)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_vectors.npy, float32 `[N, D]` or `[N, C, D]`; for pairs also NAME_results.tsv with cosines."""
        with atomic_file(os.path.join(folder, f"{name}_vectors.npy")) as file:
            np.save(file, answered.answers)
        if answered.answers.ndim == 3:
            cosines = cosines_of_pairs(answered.answers)
            write_numbers(os.path.join(folder, f"{name}_results.tsv"), cosines[:, None])


def examples_of_columns(x, y=None, sample_weight=None) -> SentenceExamples:
    """Returns examples of one column of texts, or of a tuple of columns; `y` are labels or scores."""
    columns = x if isinstance(x, tuple) else (x,)
    advice = " Pairs are given as two columns: (texts, second_texts)."
    columns = [as_texts(column, f"text of column {number}", advice) for number, column in enumerate(columns, 1)]
    values = None if y is None else as_list(y, "labels" if len(columns) == 1 else "scores")
    is_labelled = values is not None and len(columns) == 1
    return SentenceExamples(
        columns,
        scores=None if is_labelled else values,
        labels=values if is_labelled else None,
        weights=sample_weight,
    )


def forget_traces(model) -> None:
    """Lets the next `fit` trace its step anew.

    Its features may have another number of axes than before. TensorFlow would generalise the two to an unknown number,
    which the model cannot take.
    """
    model.train_function = model.test_function = None


def _numbers_of(columns: Sequence[Sequence]) -> np.ndarray:
    """Returns a number for each value, int32 `[N, C]`; equal values have equal numbers.

    >>> _numbers_of([["a", "b"], ["b", "c"]]).tolist()
    [[0, 1], [1, 2]]
    """
    numbers: dict = {}
    rows = [[numbers.setdefault(value, len(numbers)) for value in row] for row in zip(*columns, strict=True)]
    return np.array(rows, np.int32)
