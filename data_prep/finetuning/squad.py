"""Reads questions about contexts: SQuAD files, JSON Lines, Parquet and tensorflow_datasets."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from data_prep.finetuning.complete_rows import complete_rows, labels_are_read
from data_prep.finetuning.span_rows import span_column, text_column_of
from data_prep.finetuning.tables import Row, has_named_values, read_rows, rows_of_list
from data_prep.text.text_lines import read_text, without_lone_surrogates
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json
from keras_bert.program.user_inputs import MissingValue, is_missing
from keras_bert.tasks.question_answering.examples import Answer, QuestionExamples
from keras_bert.tasks.tagging.annotated_spans import read_spans


def read_squad(
    path: str | os.PathLike, *, has_answers: bool | None = True, skip_missing: bool = False
) -> QuestionExamples:
    """Reads questions, their contexts and their answers.

    `.json` (or `.json.gz`) is the format of SQuAD 1.1 and 2.0: `data` -> `paragraphs` -> `context` and `qas`. `.jsonl`
    and Parquet files and `tfds:` names have one question per row: `id`, `question`, `context`, and `answers` with
    `text` and `answer_start`. So have the `.json` lists of Label Studio, whose answers are spans of a context (or text)
    beside a question, and rows of other tools with a `question` and spans.

    Args:
        has_answers: whether each question has a list of answers; it is empty if the context does not answer it. None
            reads answers if all questions have a list, or some and `skip_missing`. False reads no answers.
        skip_missing: whether questions without a text, a context or a list of answers are left out; a warning says how
            many.

    Raises:
        InputError: the file cannot be read or has another format, or a question, a context or a list of answers is
            missing.
    """
    path = os.fspath(path)
    questions = list(
        _questions_of_rows(read_rows(path), has_answers)
        if has_named_values(path)
        else _questions_of_squad(path, has_answers)
    )

    if has_answers is None:
        has_answers = labels_are_read(path, [answers is not None for _, _, _, answers in questions], skip_missing)

    def values(found: tuple[str, dict, dict, Any]) -> tuple[str, str, str, list[Answer]]:
        where, question, paragraph, answer_lists = found
        if has_answers and answer_lists is None:
            raise MissingValue(
                f"{where}: question {question.get('id')!r}: there is no list 'answers', not even an empty one"
            )
        name, text = _text(question, "id", where), _text(question, "question", where)
        answers = _answers(answer_lists, f"{where}: question {name!r}") if has_answers else []
        return name, text, _text(paragraph, "context", where), answers

    found = complete_rows(path, questions, values, skip_missing=skip_missing)
    if not found:
        raise InputError(f"{path} has no question.")
    ids, texts, contexts, answers = map(list, zip(*found, strict=True))
    return QuestionExamples(ids, texts, contexts, answers if has_answers else None, path)


def _questions_of_squad(path: str, has_answers: bool | None) -> Iterator[tuple[str, dict, dict, Any]]:
    data = parse_json(read_text(path), path)
    if isinstance(data, list) and data:
        yield from _questions_of_rows(rows_of_list(path, data), has_answers)
        return
    for article_number, article in enumerate(_list(data, "data", path), start=1):
        where = f"{path}: article {article_number}"
        for number, paragraph in enumerate(_list(article, "paragraphs", where), start=1):
            place = f"{where}, paragraph {number}"
            for question in _list(paragraph, "qas", place):
                if not isinstance(question, dict):
                    raise InputError(f"{place}: a question must be a JSON object. Received: {question!r}")
                yield place, question, paragraph, _answer_lists(question)


def _questions_of_rows(rows: Iterable[Row], has_answers: bool | None) -> Iterator[tuple[str, dict, dict, Any]]:
    for row in rows:
        values, where = row.values, row.where
        name = "context" if "context" in values else text_column_of(row)
        is_annotated = "spans" in values or span_column(row) is not None
        if "answers" in values or not is_annotated or name is None:
            yield where, values, values, _answer_lists(values)
            continue
        context, spans = values[name], values.get(span_column(row))
        answers = None
        if has_answers is not False and spans is not None and isinstance(context, str):
            found = read_spans(spans, context, where, may_overlap=True)
            answers = [{"text": context[start:end], "answer_start": start} for start, end, _ in found]
        yield where, {"id": where.rpartition(" ")[2], **values}, {"context": context}, answers


def _answer_lists(question: Mapping) -> Any:
    """Returns the answers of a question in any form; None if it has none, not even an empty list.

    As in the official script, they tell whether there is an answer, not `is_impossible`: SQuAD 2.0 has
    `plausible_answers` beside an empty list. Some files leave the list out where a question is impossible.
    """
    answers = question.get("answers")
    return [] if answers is None and question.get("is_impossible") is True else answers


def _list(container: Any, name: str, where: str) -> list:
    value = container.get(name) if isinstance(container, dict) else None
    if not isinstance(value, list):
        raise InputError(
            f"{where}: there is no list {name!r}. Expected a SQuAD file: data -> paragraphs -> context and qas."
        )
    return value


def _text(container: dict, name: str, where: str) -> str:
    value = container.get(name)
    if name == "id" and isinstance(value, int):
        value = str(value)
    if is_missing(value):
        raise MissingValue(f"{where}: {name!r} must be a non-empty text. Received: {value!r}")
    if not isinstance(value, str):
        raise InputError(f"{where}: {name!r} must be a non-empty text. Received: {value!r:.100}")
    return without_lone_surrogates(value)


def _answers(found: Any, where: str) -> list[Answer]:
    """Converts [{"text": "a", "answer_start": 3}] or {"text": ["a"], "answer_start": [3]} to answers."""
    try:
        if isinstance(found, dict):
            pairs = list(zip(found["text"], found["answer_start"], strict=True))
        else:
            pairs = [(answer["text"], answer["answer_start"]) for answer in found]
        # pandas writes whole numbers as 2.0 where others of the column are missing.
        pairs = [
            (text, int(start) if isinstance(start, float) and start.is_integer() else start) for text, start in pairs
        ]
        if not all(isinstance(text, str) and isinstance(start, int) for text, start in pairs):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{where}: each answer must have a text and a number answer_start. Received: {found!r}"
        ) from None
    return [Answer(without_lone_surrogates(text), start) for text, start in pairs]
