"""`answers_frame`: the answers of any task as a table of pandas."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.user_inputs import checked_column


def answers_frame(answers: Any, *, index: Any = None, columns: Sequence[Any] | None = None) -> Any:
    """Returns answers as a `pandas.DataFrame`, with a column for each field of the answers.

    A text has one row; a text with entities, masks or hits has one for each of them. The index says which text a row
    belongs to: it is the number of the text from 0, named `example`, or what `index` has for the text:

        test.assign(predicted=answers_frame(model.predict(test["text"]), index=test.index)["label"])

    A field that is a dictionary becomes a column for each key, such as `probabilities.good`.
    Fields with further answers, such as `nbest`, are left out: `answers_frame(answer.nbest)` shows them. Scores,
    `[N]`, are the column `score`, and vectors, `[N, D]`, have D columns.

    Args:
        answers: what `predict`, `rank`, `explain` or the `search` of an index returns: answers, lists of them, or an
            array; or one answer.
        index: what the index of the table has for each text: the index of the table that has the texts, or a list.
        columns: the columns to return, in this order; a table without rows has them too. None for all. A table without
            answers has then none, since the answers have the columns.

    Raises:
        InputError: pandas is not installed, these are no answers, the index has not one entry for each text or is given
            for the ranking of one query, or no answer has a column.
    """
    try:
        import pandas
    except ImportError:
        raise InputError(f"A table of answers needs the package pandas. {how_to_install('pandas')}") from None
    if hasattr(answers, "tocsr"):  # the sparse vectors of texts
        frame = pandas.DataFrame.sparse.from_spmatrix(answers)
        numbers = np.arange(len(frame))
    elif isinstance(answers, np.ndarray):
        frame = pandas.DataFrame(answers, columns=["score"] if answers.ndim == 1 else None)
        numbers = np.arange(len(frame))
    else:
        answers = [answers] if _is_answer(answers) else list(answers)
        if index is not None and any(hasattr(answer, "number") for answer in answers):
            raise InputError(
                "The answers are one ranking, whose order is not that of the texts. Take their index by the column "
                "number: frame.set_index(index[frame['number']])."
            )
        rows = [(number, row) for number, answer in enumerate(answers) for row in _rows_of(answer)]
        cells = (cell for _, row in rows for cell in row.items())
        nested = {name for name, value in cells if isinstance(value, tuple) and any(map(_is_answer, value))}
        kept = [{name: value for name, value in row.items() if name not in nested} for _, row in rows]
        # Answers that have no rows, such as texts without entities, may have columns.
        columns_without_rows = (list(one.table_columns) for one in answers if hasattr(one, "table_columns"))
        frame = pandas.DataFrame(kept, columns=None if kept else next(columns_without_rows, None))
        numbers = np.array([number for number, _ in rows], np.intp)
    num_texts = answers.shape[0] if hasattr(answers, "shape") else len(answers)
    frame.index = _index_of_texts(pandas, index, num_texts).take(numbers)
    return frame if columns is None else _selected(frame, list(checked_column(columns, "columns")))


def _index_of_texts(pandas: Any, index: Any, num_texts: int) -> Any:
    if index is None:
        return pandas.Index(np.arange(num_texts), name="example")
    if not isinstance(index, pandas.Index):
        index = pandas.Index(list(checked_column(index, "index")), name="example")
    if len(index) != num_texts:
        raise InputError(
            f"index must have an entry for each of the {num_texts:,} texts. Received: {len(index):,} entries"
        )
    return index


def _selected(frame: Any, columns: list) -> Any:
    """Returns some columns of a table. Raises `InputError` if a table with rows lacks one."""
    if not len(frame):
        return frame.reindex(columns=columns)
    if unknown := [name for name in columns if name not in frame]:
        raise InputError(
            f"The answers have no column {unknown[0]!r:.100}. They have: {', '.join(map(str, frame.columns))}"
        )
    return frame[columns]


def _rows_of(answer: Any) -> Iterable[dict[Any, Any]]:
    """Returns the rows of an answer, name of the column -> value. An answer may say itself which rows it has."""
    if hasattr(answer, "table_rows"):
        return answer.table_rows()
    if isinstance(answer, np.ndarray) and answer.ndim == 2:  # a vector for each token
        return [dict(enumerate(vector)) for vector in answer]
    if isinstance(answer, list):
        return [row for one in answer for row in _rows_of(one)]
    if not _is_answer(answer):
        raise InputError(f"answers_frame takes the answers of predict. Received: {answer!r:.100}")
    row: dict[str, Any] = {}
    for name, value in _fields_of(answer).items():
        row |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
    return [row]


def _fields_of(answer: Any) -> dict[str, Any]:
    names = answer._fields if hasattr(answer, "_fields") else [field.name for field in dataclasses.fields(answer)]
    return {name: getattr(answer, name) for name in names}


def _is_answer(value: Any) -> bool:
    return not isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))
