"""Questions about contexts -> batches of windows, and a side file that maps their columns back to the text."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from data_prep.finetuning.finetuning_task import FinetuningOptions, FinetuningTask, has_labels
from data_prep.finetuning.glue import GlueTask
from data_prep.finetuning.squad import read_squad
from data_prep.text.column_files import COLUMN_SUFFIXES
from data_prep.text.text_lines import JSON_LINES
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.features import Feature
from keras_bert.tasks.question_answering import examples as question_answering
from keras_bert.tasks.question_answering.rows import WindowOptions, Windows, make_windows

# The number of the first window, as in google-research/bert.
_FIRST_UNIQUE_ID = 1_000_000_000
# The largest number of names in a message.
_MOST_NAMES = 5


class QuestionAnswering(FinetuningTask):
    """The part of a context that answers a question."""

    task_type = "bert_squad"
    endings = (".json", *JSON_LINES, *COLUMN_SUFFIXES)
    rows_at_once = 256  # questions; each may have many windows

    def __init__(self, options: FinetuningOptions, glue: GlueTask | None = None):
        super().__init__(options, glue)
        self._windows = WindowOptions(options.max_seq_length, options.doc_stride, options.max_query_length)

    def settle(self) -> None:
        self._spans = {part: self._find_answers(part) for part in self._labelled_parts()}

    def record(self, part: str) -> list[Feature]:
        return features.question_answering_features(self.options.max_seq_length, has_answers=has_labels(part))

    def has_side_file(self, part: str) -> bool:
        return part != "train"

    def _records(self, part: str, examples: slice, tokenizer, write_line) -> dict[str, np.ndarray]:
        if examples.start == 0:
            self._unique_id = _FIRST_UNIQUE_ID
        questions = self.examples[part].part(examples.start, examples.stop)
        num_special = tokenizer.vocabulary.special_tokens.num_special(2)
        options = dataclasses.replace(self._windows, num_special=num_special)
        windows = make_windows(questions.questions, questions.contexts, tokenizer, options)
        self.counts[part]["cut_questions"] += windows.num_cut_questions
        batch = windows.rows.padded(options.max_seq_length)
        if has_labels(part):
            batch = self._with_answers(part, batch, windows, examples)
        batch[features.UNIQUE_IDS] = self._unique_id + np.arange(len(batch[features.INPUT_IDS]))[:, None]
        self._unique_id += len(batch[features.INPUT_IDS])
        if self.has_side_file(part):
            for line in side_lines(questions, windows, batch[features.UNIQUE_IDS][:, 0]):
                write_line(line)
        return batch

    def metadata(self) -> dict[str, Any]:
        return {
            "max_query_length": self.options.max_query_length,
            "doc_stride": self.options.doc_stride,
            "version_2_with_negative": self.options.version_2_with_negative,
        }

    def _read(self, part: str, path: str) -> question_answering.QuestionExamples:
        return read_squad(path, has_answers=has_labels(part), skip_missing=self.options.skip_missing)

    def _find_answers(self, part: str) -> list[tuple[int, int] | None]:
        """Returns the character span of each question's first answer. Training loses questions whose answer is lost."""
        examples = self.examples[part]
        if not any(examples.answers):
            raise InputError(f"{examples.source}: no question has an answer. Is it a --predict_file?")
        spans, lost = [], []
        for number, answers in enumerate(examples.answers):
            span = question_answering.find_answer(examples.contexts[number], answers[0]) if answers else None
            if answers and span is None:
                lost.append(number)
            if not answers and part == "train" and not self.options.version_2_with_negative:
                raise InputError(
                    f"{examples.source}: the question {examples.ids[number]!r} has no answer. If this is intended, as "
                    "in SQuAD 2.0, add --version_2_with_negative."
                )
            self.counts[part]["moved_answers"] += span is not None and span[0] != answers[0].start
            spans.append(span)
        if lost:
            self.counts[part]["absent_answers"] = len(lost)
            names = ", ".join(examples.ids[number] for number in lost[:_MOST_NAMES])
            names += ", ..." if len(lost) > _MOST_NAMES else ""
            done = "were left out" if part == "train" else "are labelled as unanswerable"
            self.notes[part].append(
                f"{len(lost)} questions {done}: their answer is not in the context. They are {names}"
            )
            if part == "train":
                spans = self._leave_out(part, lost, spans)
        return spans

    def _leave_out(self, part: str, lost: list[int], spans: list) -> list:
        """Removes examples, and returns the spans of the others."""
        examples = self.examples[part]
        kept = sorted(set(range(len(examples))) - set(lost))
        if not kept:
            raise InputError(f"{examples.source}: no question has an answer that occurs in its context.")
        columns = (examples.ids, examples.questions, examples.contexts, examples.answers)
        columns = [[column[number] for number in kept] for column in columns]
        self.examples[part] = question_answering.QuestionExamples(*columns, source=examples.source)
        return [spans[number] for number in kept]

    def _with_answers(self, part: str, batch: dict, windows: Windows, examples: slice) -> dict[str, np.ndarray]:
        """Adds the positions of answers. Training loses windows of answers without a token, of dropped characters."""
        spans = self._spans[part][examples]
        starts, ends = windows.positions(spans)
        has_answer = np.array([bool(answers) for answers in self.examples[part].answers[examples]])
        is_seen = np.zeros(len(spans), bool)
        is_seen[windows.question[starts > 0]] = True
        is_located = np.array([windows.tokens_of(number, span) is not None for number, span in enumerate(spans)])
        self.counts[part]["answers_longer_than_a_window"] += int((is_located & ~is_seen).sum())
        batch |= {
            features.START_POSITIONS: starts[:, None],
            features.END_POSITIONS: ends[:, None],
            features.IS_IMPOSSIBLE: (~has_answer[windows.question]).astype(np.int64)[:, None],
        }
        is_lost = ~is_located & np.array([span is not None for span in spans])
        if part != "train" or not is_lost.any():
            return batch
        self.counts[part]["answers_without_tokens"] += int(is_lost.sum())
        return {name: values[~is_lost[windows.question]] for name, values in batch.items()}


def side_lines(
    questions: question_answering.QuestionExamples, windows: Windows, unique_ids: np.ndarray
) -> Iterator[bytes]:
    """Yields a line of JSON for each question, with which logits of its windows are converted to an answer."""
    best, splits = windows.best_window
    window_splits = np.searchsorted(windows.question, np.arange(len(questions) + 1))
    for number in range(len(questions)):
        starts, ends = windows.offsets(number)
        shown = range(window_splits[number], window_splits[number + 1])
        line = {
            "id": questions.ids[number],
            "question": questions.questions[number],
            "context": questions.contexts[number],
        }
        if questions.answers is not None:
            line["answers"] = [answer.text for answer in questions.answers[number]]
        line["windows"] = [
            {
                "unique_id": int(unique_ids[window]),
                "first_token": int(windows.first_token[window]),
                "num_tokens": int(windows.num_tokens[window]),
                "first_column": int(windows.first_column[window]),
            }
            for window in shown
        ]
        line["token_starts"] = starts.tolist()
        line["token_ends"] = ends.tolist()
        line["best_window"] = best[splits[number] : splits[number + 1]].tolist()
        yield (json.dumps(line, ensure_ascii=False) + "\n").encode()
