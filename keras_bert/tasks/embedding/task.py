"""Pairs, triplets, scored pairs and labelled texts, for `SentenceEncoder`."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.atomic_output import atomic_file, save_array
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list, as_texts
from keras_bert.records import features
from keras_bert.records.mixed_rows import MixedRows
from keras_bert.tasks.base import Answered, ExampleRows, TextTask, text_task
from keras_bert.tasks.classification.report import write_regression_report
from keras_bert.tasks.embedding.examples import (
    LABELS,
    LISTS,
    PAIRS,
    ROUND_ROBIN,
    SCORES,
    TEXTS,
    DataSets,
    SentenceExamples,
    data_sets_of,
)
from keras_bert.tasks.embedding.scores import (
    cosines_of_pairs,
    label_scores,
    nearest_by_cosine,
    pair_scores,
    similarity_scores,
)
from keras_bert.tasks.prediction import Calls
from keras_bert.tasks.report_files import aligned, write_numbers, write_table, write_text


class SentenceTask(TextTask):
    """A task on `SentenceExamples`, whose model has several losses: it chooses losses, mixes data sets, asks teachers.

    Attributes:
        main_scores: the kind of examples -> `main_score`.
        losses: the losses to train with, one for each data set.
    """

    scores_texts = True
    main_scores: Mapping[str, str]
    losses: Sequence[Any] = ()

    def check_kind(self, examples: SentenceExamples) -> None:
        """Raises `InputError` if no loss can learn from the examples."""

    def rows_of(self, examples: SentenceExamples, max_seq_length: int | None = None) -> ExampleRows:
        """Returns the rows of one data set; the arguments are those of `rows`."""
        raise NotImplementedError

    def before_training(self, examples: SentenceExamples | DataSets) -> None:
        """Chooses the loss, and checks that it can learn from the examples."""
        self.main_score = self.main_scores.get(examples.kind, self.main_score)
        forget_traces(self.model)
        chosen, is_mixed = self.model.loss_choice, isinstance(examples, DataSets)
        if is_mixed and chosen is not None:
            raise InputError(
                f"Each data set has its own loss, but the model was given {chosen}. Name the losses in the data sets, "
                "and set model.loss_choice = None."
            )
        self.losses = [self._loss(part) for part in data_sets_of(examples)]
        self.model.set_loss_of_examples(self.model.mixed_loss(self.losses, examples) if is_mixed else self.losses[0])

    def _loss(self, examples: SentenceExamples) -> Any:
        self.check_kind(examples)
        model, kind = self.model, examples.kind
        loss = model.loss_choice or model.as_loss(examples.loss) or model.default_losses.get(kind)
        if loss is None:
            raise InputError(
                f"{examples.source}: there is no loss, and for {kind} one must be named, such as loss='margin_mse'."
            )
        loss.check(examples, model)
        return loss

    def rows(self, examples: SentenceExamples | DataSets, max_seq_length: int | None = None) -> ExampleRows:
        if not isinstance(examples, DataSets):
            return self.rows_of(examples, max_seq_length)
        parts = [self.rows_of(part, max_seq_length) for part in examples.parts]
        rows: Any = MixedRows(tuple(part.rows for part in parts), examples.sampler == ROUND_ROBIN)
        return ExampleRows(rows, [note for part in parts for note in part.notes])

    def taught(
        self, rows: Any, examples: Any, batch_size: int, kept: Callable = lambda name, compute: compute()
    ) -> Any:
        is_mixed = isinstance(examples, DataSets)
        found = list(rows.parts if is_mixed else [rows])
        for number, (part, loss) in enumerate(zip(data_sets_of(examples), self.losses, strict=False)):
            if loss.teacher is not None:
                arguments = loss.teacher, part, loss.teaches_vectors, batch_size
                labels = kept(f"teacher_labels_{number + 1}", functools.partial(teacher_labels, *arguments))
                found[number] = found[number].with_labels(**{features.LABEL_IDS: labels})
        return dataclasses.replace(rows, parts=tuple(found)) if is_mixed else found[0]

    def outputs(self, rows: Any, batch_size: int = 32, verbose="auto", calls: Calls | None = None) -> Any:
        check_one_data_set(rows)
        return super().outputs(rows, batch_size, verbose, calls)


class EmbeddingTask(SentenceTask):
    """Texts -> vectors.

    `x` is N texts, or a tuple of two or more columns of N texts: anchors, positives and hard negatives. `y` is None
    for these, N scores for pairs, or N labels for single texts. The scores are those of retrieval for pairs without
    scores, correlations for scored pairs, and the labels of nearest neighbours for labelled texts.
    """

    name = "embedding"
    main_score = "spearman"
    main_scores = {PAIRS: "ndcg@10", LISTS: "ndcg@10", SCORES: "spearman", LABELS: "neighbour_accuracy"}

    def examples(self, x, y=None, sample_weight=None) -> SentenceExamples | DataSets:
        return examples_of_columns(x, y, sample_weight)

    def check_kind(self, examples: SentenceExamples) -> None:
        if examples.kind == TEXTS:
            raise InputError(
                f"{examples.source}: there is nothing to learn from single texts. Give pairs (texts, second_texts), "
                "pairs with scores, or texts with labels."
            )
        if examples.kind == LABELS:
            examples.check_labels()

    def rows_of(self, examples: SentenceExamples, max_seq_length: int | None = None) -> ExampleRows:
        length = self.checked_length(self.model.max_seq_length if max_seq_length is None else max_seq_length)
        prefixes = self._prefixes(examples)
        lists = zip(*examples.columns, strict=True)
        texts = (prefix + text for texts in lists for prefix, text in zip(prefixes, texts, strict=True))
        rows, is_cut, _ = self.text_rows(texts, None, length)
        rows = dataclasses.replace(rows, rows_per_example=len(examples.columns))
        notes = self._notes_of_cuts(examples, is_cut, length)
        equal = sum(len(set(texts)) < len(texts) for texts in zip(*examples.columns, strict=True))
        if examples.is_ranked and equal:
            notes.append(f"{examples.source}: in {equal} of {len(examples)} examples two texts are equal")
        return ExampleRows(self._with_labels(rows, self._labels(examples), examples.weights), notes)

    def _with_labels(self, rows, labels, weights):
        return super()._with_labels(rows, None, weights).with_labels(**labels)

    def _labels(self, examples: SentenceExamples) -> dict[str, np.ndarray]:
        if examples.scores is not None:
            return {features.LABEL_IDS: np.asarray(examples.scores, np.float32)}
        if examples.labels is not None:
            return {features.LABEL_IDS: numbers_of([examples.labels])[:, 0]}
        # Equal texts are no negatives of each other.
        return {features.TEXT_NUMBERS: numbers_of(examples.columns)} if examples.kind == PAIRS else {}

    def _prefixes(self, examples: SentenceExamples) -> list[str]:
        """Returns the prompt of each column: in pairs, anchors are queries and the other texts are documents."""
        prompt, prompt_for = self.model.prompt, self.model.prompt_for
        if not examples.is_ranked:
            return [prompt()] * len(examples.columns)
        return [prompt(prompt_for("query")), *[prompt(prompt_for("document"))] * (len(examples.columns) - 1)]

    def no_answers(self, num_columns: int) -> np.ndarray:
        vectors = self.model.encode([])
        return vectors if num_columns == 1 else np.zeros((0, num_columns, vectors.shape[1]), np.float32)

    def answers(self, examples: SentenceExamples, example_rows: ExampleRows, outputs: np.ndarray) -> np.ndarray:
        """Returns the vectors, float32 `[N, D]`, or `[N, C, D]` for C columns."""
        return outputs

    def scores(self, examples: SentenceExamples, answers: np.ndarray, is_worst: bool = False) -> dict[str, float]:
        if examples.kind == SCORES:
            return similarity_scores(cosines_of_pairs(answers), examples.scores)
        if examples.kind == LABELS:
            examples.check_labels()
            return label_scores(answers, examples.labels, is_worst)
        if examples.is_ranked:
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
        nearest = nearest_by_cosine(vectors[:, 0], vectors[:, 1]) if examples.is_ranked else None
        write_scores_and_misses(folder, examples, scores, nearest)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_vectors.npy, float32 `[N, D]` or `[N, C, D]`; for pairs also NAME_results.tsv with cosines."""
        with atomic_file(os.path.join(folder, f"{name}_vectors.npy")) as file:
            save_array(file, answered.answers)
        if answered.answers.ndim == 3:
            cosines = cosines_of_pairs(answered.answers)
            write_numbers(os.path.join(folder, f"{name}_results.tsv"), cosines[:, None])


def examples_of_columns(x, y=None, sample_weight=None) -> SentenceExamples | DataSets:
    """Returns examples of one column of texts, or of a tuple of columns; `y` are labels or scores.

    `SentenceExamples` and `DataSets` are returned as they are.
    """
    if isinstance(x, SentenceExamples | DataSets):
        if y is not None or sample_weight is not None:
            raise InputError(f"{type(x).__name__} has its own labels and weights. Leave y and sample_weight out.")
        return x
    columns = x if isinstance(x, tuple) else (x,)
    advice = " Pairs are given as two columns: (texts, second_texts)."
    columns = [as_texts(column, f"text of column {number}", advice) for number, column in enumerate(columns, 1)]
    kind = "labels" if len(columns) == 1 else "scores"
    values = None if y is None else as_list(y, kind)
    return SentenceExamples(columns, weights=sample_weight, **{kind: values})


def write_scores_and_misses(
    folder: str | os.PathLike, examples: SentenceExamples, scores: Mapping[str, float], nearest: Sequence[int] | None
) -> None:
    """Writes report.txt, and, if not None, misses.tsv: anchors whose `nearest` positive, a number, is not their own."""
    table = aligned(["score", "value"], [list(item) for item in scores.items()])
    write_text(os.path.join(folder, "report.txt"), table)
    if nearest is not None:
        anchors, positives = examples.columns[:2]
        rows = zip(anchors, positives, nearest, strict=True)
        misses = [[anchor, text, positives[found]] for anchor, text, found in rows if positives[found] != text]
        write_table(os.path.join(folder, "misses.tsv"), ["anchor", "positive", "found"], misses)


def check_one_data_set(rows: Any) -> None:
    """Raises `InputError` if rows that are to be predicted are those of several data sets."""
    if isinstance(rows, MixedRows):
        raise InputError("Several data sets are for training. Evaluate and predict them one by one.")


def forget_traces(model) -> None:
    """Lets the next `fit` trace anew: TensorFlow would generalise two numbers of axes to an unknown one."""
    model.train_function = model.test_function = None


def numbers_of(columns: Sequence[Sequence]) -> np.ndarray:
    """Returns a number for each value, int32 `[N, C]`; equal values have equal numbers.

    >>> numbers_of([["a", "b"], ["b", "c"]]).tolist()
    [[0, 1], [1, 2]]
    """
    numbers: dict = {}
    rows = [[numbers.setdefault(value, len(numbers)) for value in row] for row in zip(*columns, strict=True)]
    return np.array(rows, np.int32)


def teacher_labels(teacher: Any, examples: SentenceExamples, gives_vectors: bool, batch_size: int) -> np.ndarray:
    """Returns what a teacher gives for N examples of C texts: float32 `[N, C - 1]`, or vectors `[N, C, G]`.

    Args:
        teacher: a `CrossEncoder`, whose scores are those of `predict`; a `SentenceEncoder`, whose scores are dot
            products with the anchor; or the folder of one.
        gives_vectors: whether its vectors are wanted instead of its scores.
        batch_size: examples computed at once.

    Raises `InputError` if the teacher scores no texts, or has no vectors.
    """
    if isinstance(teacher, str | os.PathLike):
        from keras_bert.checkpoints.pretrained import from_pretrained

        teacher = from_pretrained(None, teacher)
    task = text_task(teacher) if getattr(teacher, "task_class", None) else None
    if task is None or not task.scores_texts:
        raise InputError(
            f"A teacher of texts is a CrossEncoder or a SentenceEncoder. Received: {type(teacher).__name__}"
        )
    plain = dataclasses.replace(examples, scores=None, labels=None, weights=None, loss=None)
    example_rows = task.rows(plain)
    found = task.answers(plain, example_rows, task.outputs(example_rows.rows, batch_size)).astype(np.float32)
    has_vectors = found.ndim == 3
    if gives_vectors and not has_vectors:
        raise InputError(f"A guide is a SentenceEncoder, which has vectors. Received: {type(teacher).__name__}")
    if has_vectors and not gives_vectors:
        found = np.sum(found[:, :1] * found[:, 1:], axis=-1)
    return found if gives_vectors else found.reshape(len(examples), -1)
