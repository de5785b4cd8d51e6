"""The columns of an index, ids, texts and metadata: checks and filters."""

import collections
import contextlib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.arrow_files import pa
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list

ID, TEXT, VECTOR = "id", "text", "vector"
# What a column may have, and the types of Python that a value has which is compared with it.
_TYPES: dict[str, Any] = {"strings": str, "whole numbers": int, "numbers": (float, int), "truth values": bool}
# A filter: column -> the allowed value or values; an expression of pyarrow.compute; or a function of all columns.
Where = Mapping[str, Any] | pa.compute.Expression | Callable[[dict[str, np.ndarray]], np.ndarray]


def kind_of(type: Any) -> str | None:
    """Returns the kind of values in a column of this Arrow type, a key of `_TYPES`; None for other types."""
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return "strings"
    if pa.types.is_floating(type):
        return "numbers"
    if pa.types.is_integer(type):
        return "whole numbers"
    return "truth values" if pa.types.is_boolean(type) else None


def table_of(texts: Sequence[str], ids: Any, metadata: Any, schema: Any = None) -> Any:
    """Returns the columns of texts beside their vectors.

    Args:
        texts: N strings.
        ids: N different strings or whole numbers; or None.
        metadata: the name of each column -> a list or an array with N values, all strings, whole numbers, numbers or
            truth values; or None.
        schema: the columns that the table must have.

    Raises:
        InputError: ids or metadata are not of this form, or do not fit the schema.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f"metadata must be a dictionary: column -> list. Received: {type(metadata).__name__}")
    columns = {} if ids is None else {ID: _column_of(checked_ids(ids, len(texts)), ID)}
    columns[TEXT] = pa.array(texts, pa.large_string())
    for name, given in (metadata or {}).items():
        if not isinstance(name, str) or name in ("", ID, TEXT, VECTOR):
            raise InputError(
                f"A column of metadata is named by a string other than id, text and vector. Received: {name!r:.100}"
            )
        values = as_list(given, f"metadata[{name!r}]")
        if len(values) != len(texts):
            raise InputError(
                f"The column {name!r} of the metadata must have a value for each of the {len(texts):,} texts. "
                f"Received: {len(values):,} values"
            )
        columns[name] = _column_of(values, name)
    table = pa.table(columns)
    if schema is None:
        return table
    wanted, received = ({field.name: kind_of(field.type) for field in one} for one in (schema, table.schema))
    is_number = {name: kind == "numbers" and received.get(name) == "whole numbers" for name, kind in wanted.items()}
    if wanted.keys() == received.keys() and all(is_number[name] or received[name] == wanted[name] for name in wanted):
        with contextlib.suppress(pa.ArrowInvalid):  # a number that the type of a stranger's column cannot hold
            return table.select(schema.names).cast(schema)
    raise InputError(
        f"The index has the columns {_described(wanted)}. Received: {_described(received)}. Give the same, with values "
        "of the same kinds."
    )


def checked_ids(ids: Any, num_texts: int | None) -> list:
    """Returns ids as a list. Raises `InputError`: one is given twice, is no id, or there are not `num_texts`."""
    ids = as_list([ids] if isinstance(ids, (str, int)) else ids, "ids")
    if num_texts is not None and len(ids) != num_texts:
        raise InputError(f"Expected an id for each of the {num_texts:,} texts. Received: {len(ids):,} ids")
    if wrong := [one for one in ids if type(one) not in (str, int) or one == ""]:
        raise InputError(f"An id must be a string or a whole number. Received: {wrong[0]!r:.100}")
    if twice := [one for one, count in collections.Counter(map(str, ids)).items() if count > 1]:
        raise InputError(f"The id {twice[0]!r:.100} is given twice. Every text needs an id of its own.")
    return ids


class Filters:
    """Says which rows of a table of metadata a filter keeps."""

    def __init__(self, table: Any):
        self._table = table

    @functools.cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The columns as arrays [rows]: numbers, truth values, or objects for strings."""
        return {name: self._table[name].to_numpy() for name in self._table.column_names}

    @functools.cached_property
    def _comparable(self) -> dict[str, tuple[str, Any, np.ndarray, Any]]:
        """The kind, the type and an array of each column. Those of strings are numbers of different strings."""
        found = {}
        for name in self._table.column_names:
            column, strings = self._table[name].combine_chunks(), None
            column_type, kind = column.type, kind_of(column.type)
            if kind == "strings":
                encoded = column.dictionary_encode()
                column, strings = encoded.indices, encoded.dictionary
            elif kind == "truth values":
                column = column.cast(pa.uint8())
            found[name] = kind, column_type, np.from_dlpack(column), strings  # `to_numpy` would import pandas
        return found

    def mask(self, where: Where) -> np.ndarray:
        """Returns which rows a filter keeps, bool [rows].

        Raises:
            InputError: it names no column, or a value of another kind than the column's; or a function returns no mask.
        """
        num_rows = len(self._table)
        if isinstance(where, Mapping) and where:
            return functools.reduce(np.logical_and, [self._has(name, where[name]) for name in where])
        if isinstance(where, pa.compute.Expression):
            return self._mask_of_expression(where)
        if not callable(where):
            raise InputError(
                "where must be a dictionary, column -> value or list of values, an expression of pyarrow.compute, or a "
                f"function. Received: {where!r:.100}"
            )
        mask = where(dict(self.arrays))
        if getattr(mask, "dtype", None) != np.bool_ or np.shape(mask) != (num_rows,):
            found = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, np.ndarray) else type(mask).__name__
            raise InputError(
                f"where must return a mask: a bool array [{num_rows}], a value for each row. Received: {found}"
            )
        return np.array(mask)  # a copy, since the function may keep it and change it

    def _has(self, name: Any, wanted: Any) -> np.ndarray:
        """Returns which rows have a value, or one of several."""
        if name not in self._comparable:
            raise _no_column(name, self._table.schema)
        kind, column_type, array, strings = self._comparable[name]
        values = []
        for value in wanted if isinstance(wanted, Collection) and not isinstance(wanted, str) else [wanted]:
            value = value.item() if isinstance(value, np.generic) else value
            if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "truth values"):
                raise InputError(f"The column {name!r} has {kind}. Received: {value!r:.100}")
            with contextlib.suppress(
                OverflowError, pa.ArrowInvalid
            ):  # the type cannot hold this number, so no row has it
                values.append(pa.scalar(float(value) if kind == "numbers" else value, column_type).as_py())
        if strings is not None:
            values = pa.compute.index_in(pa.array(values, column_type), strings).drop_null().to_pylist()
        return array == values[0] if len(values) == 1 else np.isin(array, values)

    def _mask_of_expression(self, where: Any) -> np.ndarray:
        from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

        source = Declaration("table_source", TableSourceNodeOptions(self._table))
        plan = Declaration("project", ProjectNodeOptions([where], ["mask"]), [source])
        try:
            mask = plan.to_table(use_threads=False)["mask"].cast(pa.bool_())
        except pa.ArrowException as error:
            raise InputError(f"where does not fit {_described(self._table.column_names)}: {error!s:.200}") from None
        return mask.fill_null(False).to_numpy()


def type_of(name: Any, schema: Any) -> Any:
    """Returns the type of a column of metadata. Raises `InputError` if there is no such column."""
    if name not in schema.names:
        raise _no_column(name, schema)
    return schema.field(name).type


def _no_column(name: Any, schema: Any) -> InputError:
    return InputError(f"The metadata has no column {name!r:.100}. It has: {_described(schema.names)}")


def _described(columns: Mapping[str, str | None] | Sequence[str]) -> str:
    """Returns columns, perhaps with what they have: `id (strings), year (whole numbers)`."""
    if isinstance(columns, Mapping):
        columns = [f"{name} ({kind})" for name, kind in columns.items()]
    return ", ".join(columns) or "no columns"


def _column_of(values: list, name: str) -> Any:
    try:
        column = pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        reason = str(error)
    else:
        if kind_of(column.type) is not None and not column.null_count:
            return column.cast(pa.large_string()) if kind_of(column.type) == "strings" else column
        reason = f"{column.type} with {column.null_count} missing"
    raise InputError(
        f"The column {name!r} must have strings, whole numbers of at most 64 bits, numbers or truth values, all of one "
        f"kind and none missing. Received: {reason:.100}"
    )
