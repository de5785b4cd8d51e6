"""`answers_frame`: the answers of any task as a table of pandas."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError, how_to_install


def answers_frame(answers: Any, index: Any = None) -> Any:
    """Returns answers as a `pandas.DataFrame`, with a column for each field of the answers.

    The index is that of the texts, or, as `example`, the number of the text from 0. A text has one row; a text with
    entities, masks or hits has one for each of them. A field that is a dictionary becomes a column for each key, such
    as `probabilities.good`. Fields with further answers, such as `nbest`, are left out: `answers_frame(answer.nbest)`
    shows them. Scores, `[N]`, are the column `score`, and vectors, `[N, D]`, have D columns.

    Args:
        answers: what `predict`, `rank`, `explain` or the `search` of an index returns: answers, lists of them, or an
            array; or one answer.
        index: the index of the texts in their table, a label for each answer. pandas aligns columns by their index:
            without it, `assign` gives the rows of a shuffled or filtered table the answers of other rows.

    Raises:
        InputError: pandas is not installed, these are no answers, or `index` has another length.

    Example:
        test.assign(label=answers_frame(model.predict(test["text"]), index=test.index)["label"])
    """
    try:
        import pandas
    except ImportError:
        raise InputError(f"A table of answers needs the package pandas. {how_to_install('pandas')}") from None
    if _is_answer(answers):
        answers = [answers]
    if isinstance(index, (pandas.Series, pandas.DataFrame)):
        index = index.index
    count = answers.shape[0] if hasattr(answers, "shape") else len(answers)
    labels = pandas.RangeIndex(count, name="example") if index is None else pandas.Index(index)
    if len(labels) != count:
        raise InputError(
            f"index must have a label for each answer: {count:,}. Received: {len(labels):,}. Give the index of the "
            "table that has the texts."
        )
    if hasattr(answers, "tocsr"):  # the sparse vectors of texts
        return pandas.DataFrame.sparse.from_spmatrix(answers, index=labels)
    if isinstance(answers, np.ndarray):
        columns = ["score"] if answers.ndim == 1 else None
        return pandas.DataFrame(answers, columns=columns, index=labels)
    rows = [(number, row) for number, answer in enumerate(answers) for row in _rows_of(answer)]
    nested = {name for _, row in rows for name, value in row.items() if _holds_answers(value)}
    kept = [{name: value for name, value in row.items() if name not in nested} for _, row in rows]
    columns = None if rows or not len(answers) else getattr(answers[0], "table_columns", None)
    return pandas.DataFrame(kept, columns=columns, index=labels.take([number for number, _ in rows]))


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


def _holds_answers(value: Any) -> bool:
    return isinstance(value, tuple) and any(map(_is_answer, value))
