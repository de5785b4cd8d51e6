"""The task of `SpanClassifier` on texts: answers questions by parts of their contexts."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import write_json
from keras_bert.program.user_inputs import as_list, as_texts
from keras_bert.records import features
from keras_bert.tasks.base import ExampleRows, TextTask, text_task
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, pieces_of_row
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions
from keras_bert.tasks.question_answering.answers import FoundAnswer, answer_arrays, answers_of, span_columns
from keras_bert.tasks.question_answering.examples import Answer, QuestionExamples
from keras_bert.tasks.question_answering.rows import WindowOptions, Windows, locate_answers, make_windows
from keras_bert.tasks.question_answering.scores import normalized_answer, score_question, squad_scores
from keras_bert.tasks.report_files import write_table
from keras_bert.tasks.served_values import byte_places

# The score of an answer that is not there; its probability is 0.
_NO_ANSWER = -1e9


@dataclasses.dataclass(frozen=True)
class QuestionRows(ExampleRows):
    """The rows of questions: a row for each window."""

    windows: Windows | None = None


class QuestionAnsweringTask(TextTask):
    """Questions and contexts -> answers.

    `x` is a tuple of two columns, N questions and N contexts. A single string instead of the contexts is the context of
    all questions. `y` has the answers of each question; if there are several, training uses the first. An answer is an
    `Answer(text, start)` or {"text": ..., "answer_start": ...}. Several are a list of these or, as in SQuAD's tables,
    {"text": [...], "answer_start": [...]}. None or an empty list means that the context has no answer.

    `predict` returns a `FoundAnswer` for each question.
    """

    name = "question_answering"
    main_score = "f1"
    usual_length = 384
    labels_may_be_missing = True

    def examples(self, x, y=None, sample_weight=None) -> QuestionExamples:
        if not isinstance(x, tuple) or len(x) != 2:
            raise InputError(
                "Questions and their contexts are given as a tuple of two columns: (questions, contexts). "
                f"Received: {type(x).__name__}{f' of {len(x)}' if isinstance(x, (list, tuple)) else ''}"
            )
        questions, contexts = as_texts(x[0], "question"), as_texts(x[1], "context")
        if isinstance(x[1], (str, bytes)):
            contexts *= len(questions)
        answers = None if y is None else _answers_of(y)
        ids = [str(number) for number in range(1, len(questions) + 1)]
        return QuestionExamples(ids, questions, contexts, answers, weights=sample_weight)

    def before_training(self, examples: QuestionExamples) -> None:
        if examples.answers is not None and self.model.null_threshold is None and not all(examples.answers):
            self.model.null_threshold = 0.0

    def rows(self, examples: QuestionExamples, max_seq_length: int | None = None) -> QuestionRows:
        options = WindowOptions.of_model(self.model, self.checked_length(max_seq_length))
        windows = make_windows(examples.questions, examples.contexts, self.tokenizer, options)
        notes = _length_notes(examples, windows, options)
        if examples.answers is None:
            return QuestionRows(windows.rows, notes, windows)
        starts, ends, is_known, further = locate_answers(examples, windows)
        weights = np.ones(len(examples), np.float32) if examples.weights is None else np.asarray(examples.weights)
        rows = windows.rows.with_labels(
            **{
                features.START_POSITIONS: starts.astype(np.int32),
                features.END_POSITIONS: ends.astype(np.int32),
                features.EXAMPLE_WEIGHTS: weights[windows.question].astype(np.float32),
                features.IS_REAL_EXAMPLE: is_known[windows.question].astype(np.int32),
            }
        )
        return QuestionRows(rows, [*notes, *further], windows)

    def answers(
        self,
        examples: QuestionExamples,
        example_rows: QuestionRows,
        outputs: Mapping[str, np.ndarray],
        *,
        n_best_size: int = 20,
        max_answer_length: int = 30,
        null_threshold: float | None = None,
    ) -> list[FoundAnswer]:
        """Returns the answers; see `AnswerOptions` for the options. `null_threshold` defaults to the model's."""
        threshold = self.model.null_threshold if null_threshold is None else null_threshold
        options = AnswerOptions(n_best_size, max_answer_length, threshold)
        return answers_of(self.arrays(examples, example_rows, outputs, options))

    def arrays(self, examples: QuestionExamples, example_rows: QuestionRows, outputs, options: AnswerOptions) -> dict:
        """Returns `answer_arrays` for outputs of the model; places are characters."""
        logits = (outputs["start_logits"], outputs["end_logits"])
        spans, nulls = span_columns(example_rows.windows, examples.contexts, *logits, options)
        return answer_arrays(spans, nulls, options)

    def logits_and_labels(self, examples: QuestionExamples, example_rows: QuestionRows, outputs) -> tuple:
        """Returns the scores of the n best answers to each question, and the number of the best right one among them,
        -1 without one. Answers are right by the rules of SQuAD's exact match."""
        answers = self.answers(examples, example_rows, outputs)
        scores = np.full((len(answers), max(1, *(len(answer.nbest) for answer in answers))), _NO_ANSWER)
        for row, answer in zip(scores, answers, strict=True):
            row[: len(answer.nbest)] = [candidate.start_logit + candidate.end_logit for candidate in answer.nbest]
        if examples.answers is None:
            return scores, None
        right_answers = [{normalized_answer(one.text) for one in right} or {""} for right in examples.answers]
        gold = [
            next((number for number, found in enumerate(answer.nbest) if normalized_answer(found.text) in right), -1)
            for answer, right in zip(answers, right_answers, strict=True)
        ]
        return scores, np.array(gold)

    def explained_rows(
        self, examples: QuestionExamples, example_rows: QuestionRows, outputs, targets: Sequence
    ) -> list[ExplainedRow]:
        """Explains the sum of the start logit and the end logit of an answer, by default of the model's, in the window
        where this sum is greatest. Without an answer, it is that of [CLS] where it is least."""
        windows, answers = example_rows.windows, self.answers(examples, example_rows, outputs)
        spans = [
            _span_of(target, answer, context)
            for target, answer, context in zip(targets, answers, examples.contexts, strict=True)
        ]
        starts, ends = windows.positions(spans)
        logits = [
            outputs[name][windows.rows.splits[:-1] + columns]
            for name, columns in (("start_logits", starts), ("end_logits", ends))
        ]
        rows = []
        for number, span in enumerate(spans):
            has_it = (windows.question == number) & ((starts > 0) if span else (starts == 0))
            if not has_it.any():
                raise InputError(f"The target of question {number + 1}, {span}, is not in a window of the context.")
            totals = np.where(has_it, np.sum(logits, axis=0) * (1 if span else -1), -np.inf)
            row = int(totals.argmax())
            ids, texts = self.row_ids(example_rows, row), (examples.questions[number], examples.contexts[number])
            pieces = pieces_of_row(ids, texts, self.tokenizer, [0, int(windows.first_token[row])])
            start, end = int(starts[row]), int(ends[row])
            target = texts[1][slice(*span)] if span else "no answer"
            rows.append(ExplainedRow(number, row, target, (start, len(ids) + end), (start, end), texts, pieces))
        return rows

    def scores(
        self, examples: QuestionExamples, answers: Sequence[FoundAnswer], is_worst: bool = False
    ) -> dict[str, float]:
        """Returns the official scores, in percent: those of SQuAD 1.1 if every question has an answer, else of 2.0.

        If the model may give no answer, they include the best scores over all thresholds and those thresholds:
        `best_exact`, `best_exact_thresh`, `best_f1`, `best_f1_thresh`.
        """
        right_answers = {
            name: [answer.text for answer in texts] for name, texts in zip(examples.ids, examples.answers, strict=True)
        }
        named = dict(zip(examples.ids, answers, strict=True))
        given = {name: answer.text for name, answer in named.items()}
        scores = squad_scores(right_answers, given, as_in_1_1=all(right_answers.values()))
        odds = {name: answer.null_score_difference for name, answer in named.items()}
        if None not in odds.values():
            best = {name: answer.best_text for name, answer in named.items()}
            with_odds = squad_scores(right_answers, best, null_odds=odds)
            scores |= {name: value for name, value in with_odds.items() if name.startswith("best_")}
        return scores


def _span_of(target, answer: FoundAnswer, context: str) -> tuple[int, int] | None:
    """Returns the characters of the answer to explain; None for no answer."""
    if target is None:
        return (answer.start, answer.end) if answer.has_answer else None
    if target == "":
        return None
    if (
        len(target) == 2
        and all(isinstance(number, int) for number in target)
        and 0 <= target[0] < target[1] <= len(context)
    ):
        return tuple(target)
    raise InputError(
        f'A target of explain must be a pair (start, end) of characters of the context, or "" for no answer. Received: '
        f"{target!r:.100}"
    )


def _length_notes(examples: QuestionExamples, windows: Windows, options: WindowOptions) -> list[str]:
    notes = []
    if windows.num_cut_questions:
        notes.append(
            f"{examples.source}: {windows.num_cut_questions} of {len(examples)} questions were cut to "
            f"{options.max_query_length} tokens"
        )
    num_long = int((np.bincount(windows.question, minlength=len(examples)) > 1).sum())
    if num_long:
        notes.append(
            f"{examples.source}: {num_long} of {len(examples)} contexts do not fit in {options.max_seq_length} tokens "
            f"and were cut into several windows; there are {len(windows)} windows"
        )
    return notes


def _answers_of(y: Any) -> list[list[Answer]]:
    """Returns the answers of each question."""
    if isinstance(y, Mapping):  # a data set or a table with two columns
        y = [{"text": text, "answer_start": start} for text, start in _texts_and_starts(y, 0)]
    return [_answers_of_one(value, number) for number, value in enumerate(as_list(y, "answers"), start=1)]


def _answers_of_one(value: Any, number: int) -> list[Answer]:
    if value is None:
        return []
    if isinstance(value, list):
        return [answer for inner in value for answer in _answers_of_one(inner, number)]
    if isinstance(value, Answer):
        return [value]
    if not isinstance(value, Mapping):
        raise InputError(
            f'The answer to question {number} must be an Answer, {{"text": ..., "answer_start": ...}}, a list of '
            f"these, or None where there is none. Received: {value!r:.100}"
        )
    answers = []
    for text, start in _texts_and_starts(value, number):
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            raise InputError(
                f"An answer to question {number} must have a text and the number of the character where it begins. "
                f"Received: {text!r:.100} and {start!r}"
            )
        answers.append(Answer(text, start))
    return answers


def _texts_and_starts(value: Mapping, number: int) -> list[tuple]:
    """Returns the texts of the answers to a question and their starts; for the number 0, those of all questions."""
    missing = [name for name in ("text", "answer_start") if name not in value]
    if missing:
        place = f"The answer to question {number}" if number else "y"
        raise InputError(f"{place} has no {' and no '.join(missing)}. Received: {', '.join(map(str, value))}")
    texts, starts = value["text"], value["answer_start"]
    if number and isinstance(texts, (str, bytes)):
        texts, starts = [texts], [starts]
    texts = as_list(texts, f"answers to question {number}" if number else "texts of answers")
    starts = as_list(starts, f"starts of question {number}" if number else "starts of answers")
    if len(texts) != len(starts):
        owner = f"Question {number} has " if number else ""
        raise InputError(f"{owner}{len(texts)} answers but {len(starts)} starts of answers.")
    return list(zip(texts, starts, strict=True))


_BEST = {"answer": ("",), "start": (-1,), "end": (-1,), "probability": (0.0,)}
_CANDIDATES = {
    **{"answers": ("", None), "starts": (-1, None), "ends": (-1, None)},
    **{"probabilities": (0.0, None), "is_null": (False, None)},
}


class LoadedSpanClassifier:
    """Methods of loaded exports of a `SpanClassifier`."""

    served_inputs: ClassVar = {"question": (), "context": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        difference = {} if self.null_threshold is None else {"null_score_difference": (0.0,)}
        return {**_BEST, **_CANDIDATES, **difference}

    def serve(self, question: list[str], context: list[str]) -> dict[str, Any]:
        """See `AnswerSignature`. An empty question or context has no answer."""
        ids = list(map(str, range(len(question))))
        examples = QuestionExamples(ids, question, context, may_be_empty=True)
        options = AnswerOptions(null_threshold=self.null_threshold)
        arrays = text_task(self).arrays(examples, *self.computed(examples), options)
        places = [np.append(byte_places(text), -1) for text in context]  # the last is the byte of no answer
        for name in ("start", "end", "starts", "ends"):
            arrays[name] = np.array([of_text[at] for of_text, at in zip(places, arrays[name], strict=True)])
        return arrays


def write_answers(folder: str | os.PathLike, ids: Sequence[str], answers: Sequence[FoundAnswer]) -> None:
    """Writes `predictions.json`, `nbest_predictions.json` and, if answers may be "none", `null_odds.json`."""
    keys = ("text", "probability", "start_logit", "end_logit")
    columns = {
        "predictions": [answer.text for answer in answers],
        "nbest_predictions": [[{key: getattr(one, key) for key in keys} for one in answer.nbest] for answer in answers],
    }
    odds = [answer.null_score_difference for answer in answers]
    if None not in odds:
        columns["null_odds"] = odds
    for name, values in columns.items():
        write_json(os.path.join(folder, f"{name}.json"), dict(zip(ids, values, strict=True)), indent=4)


def write_errors(path: str | os.PathLike, examples: QuestionExamples, answers: Sequence[FoundAnswer]) -> None:
    """Writes a TSV file of wrongly answered questions: id, question, right answers, answer, F1, probability.

    The lowest F1 comes first; ties are sorted by probability, the highest first.
    """
    always = all(examples.answers)
    rows = []
    for number, answer in enumerate(answers):
        right_answers = [right.text for right in examples.answers[number]]
        score = score_question(right_answers, answer.text, as_in_1_1=always)
        if not score.exact:
            shown = " | ".join(dict.fromkeys(right_answers))
            texts = (examples.ids[number], examples.questions[number], shown, answer.text)
            rows.append((score.f1, answer.probability, [" ".join(text.split()) for text in texts]))
    rows.sort(key=lambda row: (row[0], -row[1]))
    header = ["id", "question", "answers", "predicted", "f1", "probability"]
    write_table(path, header, ([*texts, f"{f1:.4f}", f"{probability:.4f}"] for f1, probability, texts in rows))
