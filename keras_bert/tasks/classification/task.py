"""Texts, or pairs of texts, with a label, several labels or scores, for `SequenceClassifier`."""

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.label_types import Label
from keras_bert.program.user_inputs import as_list, as_texts
from keras_bert.records import features
from keras_bert.tasks.base import Answered, ExampleRows, TextTask
from keras_bert.tasks.classification import examples as classification
from keras_bert.tasks.classification import report
from keras_bert.tasks.classification.answers import (
    LabelAnswer,
    LabelsAnswer,
    ScoreAnswer,
    label_answers,
    label_arrays,
    with_likeliest,
)
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.scores import f1_score, multi_label_scores, regression_scores, single_label_scores
from keras_bert.tasks.classification.thresholds import (
    TunedThresholds,
    as_thresholds,
    best_threshold,
    check_answer_options,
    check_several_labels,
)
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, number_of, pieces_of_row, pools_all_tokens
from keras_bert.tasks.label_names import label_name, label_names, values_of_labels
from keras_bert.tasks.report_files import write_numbers, write_table

_SMALLEST_PROBABILITY = np.finfo(np.float64).tiny


class ClassificationTask(TextTask):
    """Texts -> labels or scores.

    `x` is N texts, or a tuple of two columns of N texts for pairs. `y` depends on the model's `problem_type`: N label
    names or label ids for `classification`; N lists of label names, or 0 and 1 (N, labels), for `multi_label`; N
    numbers for `regression`. Answers may have other `labels` and another `problem_type` than the model.
    """

    name = "classifier"

    def __init__(self, model, labels: Sequence[str] | None = None, problem_type: str | None = None):
        super().__init__(model)
        self.labels = model.labels if labels is None else labels
        self.label_values = model.label_values if labels is None else labels
        self.label_type = model.label_type if labels is None else "str"
        self.problem_type = problem_type or model.problem_type
        self._kind = _KINDS[self.problem_type]
        self.main_score = self._kind.main_score

    def examples(self, x, y=None, sample_weight=None) -> TextExamples:
        columns = x if isinstance(x, tuple) and len(x) == 2 and not isinstance(x[0], str) else (x, None)
        advice = " Pairs are given as two columns: (texts, second_texts)."
        texts = as_texts(columns[0], advice=advice)
        second_texts = None if columns[1] is None else as_texts(columns[1], "second text", advice)
        labels = None if y is None else self._kind.as_labels(as_list(y, "labels"), self)
        return TextExamples(texts, second_texts, labels, weights=sample_weight)

    def rows(self, examples: TextExamples, max_seq_length: int | None = None) -> ExampleRows:
        """As `TextTask.rows`. In training, each window of a text has the label of the text."""
        stride = self.model.doc_stride
        rows, is_cut, texts = self.text_rows(examples.texts, examples.second_texts, max_seq_length, doc_stride=stride)
        labels = None if examples.labels is None else self._kind.label_ids(examples, self.labels)[texts]
        weights = None if examples.weights is None else np.asarray(examples.weights, np.float32)[texts]
        rows = self._with_labels(rows, labels, weights)
        if stride and examples.second_texts is None:
            return ExampleRows(rows, windows=texts)
        return ExampleRows(rows, self._notes_of_cuts(examples, is_cut, max_seq_length))

    def answers(
        self,
        examples: TextExamples,
        example_rows: ExampleRows,
        outputs: np.ndarray,
        top_k: int | None = None,
        threshold: Any = None,
    ) -> list:
        """Returns the answers; `top_k` and `threshold` are those of `SequenceClassifier.predict`."""
        check_answer_options(self.model, top_k, threshold)
        arrays = self.arrays(example_rows.outputs_of_examples(outputs), self.label_values, threshold)
        answers = label_answers(arrays, {}, score_name=self.label_values[0])
        return answers if top_k is None else with_likeliest(answers, top_k)

    def arrays(self, outputs: np.ndarray, labels: Sequence[Label], threshold=None) -> dict[str, np.ndarray]:
        """Returns `label_arrays` in float64 for outputs of the model, with these names of the labels."""
        return label_arrays(outputs.astype(np.float64), labels, self.problem_type, self._thresholds(threshold))

    def _thresholds(self, threshold=None) -> tuple[float, ...]:
        kept = as_thresholds(self.model.thresholds, self.labels, name="thresholds")
        return as_thresholds(threshold, self.labels, kept, self.label_type)

    def logits_and_labels(self, examples: TextExamples, example_rows: ExampleRows, outputs) -> tuple:
        if self.problem_type == "regression":
            return None, None
        gold = example_rows.rows.labels.get(features.LABEL_IDS)
        if gold is not None and example_rows.windows is not None:
            gold = gold[np.unique(example_rows.windows, return_index=True)[1]]
        return example_rows.outputs_of_examples(outputs), gold

    def explained_rows(
        self, examples: TextExamples, example_rows: ExampleRows, outputs, targets: Sequence
    ) -> list[ExplainedRow]:
        """Explains the logit of a label, by default of the most probable one, or a score."""
        of_examples, labels = example_rows.outputs_of_examples(outputs), self.labels
        windows = range(len(examples)) if example_rows.windows is None else example_rows.windows.tolist()
        lengths, rows, before = np.diff(example_rows.rows.splits), [], {}
        for row, example in enumerate(windows):
            texts = tuple(column[example] for column in (examples.texts, examples.second_texts) if column is not None)
            best = 0 if self.problem_type == "regression" else int(of_examples[example].argmax())
            target = targets[example]
            if target is not None and self.label_type != "str":
                target = label_name(target, labels, "A target of explain", self.label_type)
            number = best if target is None else number_of(target, labels, "label")
            first = before.get(example, 0)
            before[example] = first + (self.model.doc_stride or 0)
            pieces = pieces_of_row(self.row_ids(example_rows, row), texts, self.tokenizer, [first] * len(texts))
            weight = lengths[row] / lengths[np.array(windows) == example].sum()
            columns = () if pools_all_tokens(self.model) else (0,)
            rows.append(ExplainedRow(example, row, labels[number], (number,), columns, texts, pieces, float(weight)))
        return rows

    def scores(self, examples: TextExamples, answers: Sequence, is_worst: bool = False) -> dict[str, float]:
        return self._kind.scores(examples, answers, self)

    def without_labels(self, examples: TextExamples) -> TextExamples:
        return dataclasses.replace(examples, labels=None)

    def scores_of_guessing(self, examples: TextExamples) -> dict[str, float]:
        """Returns `majority_rate`, the accuracy of always predicting the most frequent label; `classification` only."""
        if self.problem_type != "classification":
            return {}
        return {"majority_rate": max(Counter(examples.labels).values()) / len(examples)}

    def comparison(self, examples: TextExamples, scores: Mapping[str, float]) -> str | None:
        if self.problem_type != "classification":
            return None
        label, count = Counter(examples.labels).most_common(1)[0]
        return (
            f"accuracy {scores['accuracy']:.4f} on {len(examples)} examples; always answering {label!r} would have "
            f"{count / len(examples):.4f}"
        )

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        examples, answers, labels = answered.examples, answered.answers, self.labels
        texts = (examples.texts, examples.second_texts)
        if self.problem_type == "regression":
            report.write_regression_report(
                folder, *texts, examples.labels, [answer.score for answer in answers], scores
            )
        elif self.problem_type == "multi_label":
            gold = classification.multi_hot_labels(examples.labels, labels, examples.source)
            values = (gold, probabilities_of(answers), labels, scores, self._thresholds())
            report.write_label_set_report(folder, *texts, *values)
        else:
            gold = classification.label_ids(examples, labels)
            report.write_label_report(folder, *texts, gold, probabilities_of(answers), labels, scores)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_results.tsv, a line per example with a probability per label or a score, and NAME_predictions.tsv
        with the texts and their answers."""
        is_regression = self.problem_type == "regression"
        values = answered.outputs if is_regression else probabilities_of(answered.answers)
        path = os.path.join(folder, f"{name}_results.tsv")
        write_numbers(path, np.asarray(values, np.float64))
        examples = answered.examples
        texts = report.of_texts(examples.texts, examples.second_texts)
        header, cells = self._kind.cells(answered.answers)
        rows = ([*row, *cell] for *row, cell in zip(*texts.values(), cells, strict=True))
        write_table(os.path.join(folder, f"{name}_predictions.tsv"), [*texts, *header], rows)
        print(f"{path}: the columns are {', '.join(self.labels)}")

    def class_weights(self, examples: TextExamples, class_weight: Mapping | str) -> list[float]:
        if self.problem_type != "classification" or examples.labels is None:
            return super().class_weights(examples, class_weight)
        labels = self.labels
        if isinstance(class_weight, str) and class_weight == "balanced":
            counts = Counter(examples.labels)
            return [len(examples) / (len(counts) * counts[label]) for label in examples.labels]
        weights = values_of_labels(class_weight, labels, "class_weight", self.label_type)
        if weights is None:
            raise InputError(
                f'class_weight must be a dictionary label -> weight, or "balanced". Received: {class_weight!r:.200}'
            )
        return [weights.get(label, 1.0) for label in examples.labels]


class _SingleLabel:
    main_score = "accuracy"

    def as_labels(self, values: list, task: ClassificationTask) -> list[str]:
        return [
            label_name(value, task.labels, f"The label of example {number}", task.label_type)
            for number, value in enumerate(values, 1)
        ]

    def label_ids(self, examples: TextExamples, labels: Sequence[str]) -> np.ndarray:
        return np.array(classification.label_ids(examples, labels), np.int32)

    def scores(self, examples: TextExamples, answers: Sequence[LabelAnswer], task: ClassificationTask):
        gold = self.label_ids(examples, task.labels)
        ids = {label: number for number, label in enumerate(task.label_values)}
        predicted = np.array([ids[answer.label] for answer in answers])
        of_gold = probabilities_of(answers)[np.arange(len(gold)), gold]
        return {**single_label_scores(gold, predicted, len(ids)), "loss": _loss(of_gold)}

    def cells(self, answers: Sequence[LabelAnswer]) -> tuple[list[str], list[list]]:
        return ["label", "probability"], [[answer.label, answer.probability] for answer in answers]


class _SeveralLabels:
    main_score = "micro_f1"

    def as_labels(self, values: list, task: ClassificationTask) -> list[list[str]]:
        return [
            label_names(value, task.labels, f"The labels of example {number}", task.label_type)
            for number, value in enumerate(values, 1)
        ]

    def label_ids(self, examples: TextExamples, labels: Sequence[str]) -> np.ndarray:
        return classification.multi_hot_labels(examples.labels, labels, examples.source).astype(np.float32)

    def scores(self, examples: TextExamples, answers: Sequence[LabelsAnswer], task: ClassificationTask):
        gold = self.label_ids(examples, task.labels).astype(np.int64)
        probabilities = probabilities_of(answers)
        of_gold = np.where(gold == 1, probabilities, 1 - probabilities)
        predicted = classification.multi_hot_labels([answer.labels for answer in answers], task.label_values)
        return {**multi_label_scores(gold, predicted), "loss": _loss(of_gold)}

    def cells(self, answers: Sequence[LabelsAnswer]) -> tuple[list[str], list[list]]:
        return ["labels"], [[", ".join(map(str, answer.labels))] for answer in answers]


class _Score:
    main_score = "pearson"

    def as_labels(self, values: list, task: ClassificationTask) -> list[float]:
        try:
            return [float(value) for value in values]
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"The labels of a regression must be numbers: {error}.") from None

    def label_ids(self, examples: TextExamples, labels: Sequence[str]) -> np.ndarray:
        return classification.checked_scores(examples.labels, examples.source)

    def scores(self, examples: TextExamples, answers: Sequence[ScoreAnswer], task: ClassificationTask):
        scores = regression_scores(examples.labels, [answer.score for answer in answers])
        return {**scores, "loss": scores["mean_squared_error"]}

    def cells(self, answers: Sequence[ScoreAnswer]) -> tuple[list[str], list[list]]:
        return ["score"], [[answer.score] for answer in answers]


def tune_on_answers(answered: Answered) -> TunedThresholds:
    """Chooses thresholds on outputs for examples that have labels; see `SequenceClassifier.tune_thresholds`."""
    model, task = answered.model, ClassificationTask(answered.model)
    check_several_labels(model.problem_type, "tune_thresholds")
    if answered.examples.labels is None:
        raise InputError("There are no labels to choose thresholds by: give tune_thresholds(texts, labels).")
    gold = classification.multi_hot_labels(answered.examples.labels, model.labels, answered.examples.source)
    answers = task.answers(answered.examples, answered.example_rows, answered.outputs)
    probabilities, before = probabilities_of(answers), as_thresholds(model.thresholds, model.labels)
    after = tuple(best_threshold(*columns) for columns in zip(probabilities.T, gold.T, strict=True))
    model.thresholds = after
    labels = model.label_values
    scores = (
        {label: f1_score(probabilities[:, n] > thresholds[n], gold[:, n]) for n, label in enumerate(labels)}
        for thresholds in (before, after)
    )
    return TunedThresholds(dict(zip(labels, after, strict=True)), *scores)


def probabilities_of(answers: Sequence[LabelAnswer] | Sequence[LabelsAnswer]) -> np.ndarray:
    """Returns float64 (examples, labels), in the order of the model's labels."""
    return np.array([list(answer.probabilities.values()) for answer in answers])


def _loss(of_gold: np.ndarray) -> float:
    return float(-np.log(np.maximum(of_gold, _SMALLEST_PROBABILITY)).mean())


_KINDS = {"classification": _SingleLabel(), "multi_label": _SeveralLabels(), "regression": _Score()}
