"""The rows of an index: a vector, a text, an id and metadata each, in tables of Arrow. Checks, filters and changes."""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.neighbour_graph import build_graph, import_faiss
from keras_bert.embeddings.vector_search import VectorSearch
from keras_bert.embeddings.word_index import WordIndex
from keras_bert.program.arrow_files import as_mask, pa
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list

ID, TEXT, VECTOR = "id", "text", "vector"
# What a column may have, and the types of Python that a value has which is compared with it.
_TYPES: dict[str, Any] = {"strings": str, "whole numbers": int, "numbers": (float, int), "truth values": bool}
# A filter: column -> the allowed value or values; an expression of pyarrow.compute; or a function of all columns.
Where = Mapping[str, Any] | pa.compute.Expression | Callable[[dict[str, np.ndarray]], np.ndarray]
# From this number of rows on, an index has a graph (docs/decisions/graph_is_checked_array.md).
GRAPH_FROM = 50_000
# New rows join the last table while it has fewer rows, so that an index has few tables.
_FEW_ROWS = 4096
# An index is made anew when a larger share of its rows has been deleted.
_MOST_DELETED = 0.2


@dataclasses.dataclass(frozen=True)
class IndexRows:
    """N rows of an index. A row that was deleted is masked until the rows are made anew.

    Attributes:
        tables: one for each file, with the columns `text`, `vector`, metadata and, if the texts have ids, `id`.
        search: finds their vectors.
        deleted: bool (N); None if no row is.
    """

    tables: Sequence[Any]
    search: VectorSearch
    deleted: np.ndarray | None = None

    @classmethod
    def of(
        cls, tables: Sequence[Any], graph: np.ndarray | None = None, deleted: np.ndarray | None = None
    ) -> "IndexRows":
        """Returns the rows of tables with equal columns, with a graph of their vectors, if there is one."""
        parts = [part for table in tables for part in table[VECTOR].chunks if len(part)]
        # Without a copy, and without pandas, which `to_numpy` imports if it is installed.
        arrays = [np.from_dlpack(part.flatten()).reshape(len(part), -1) for part in parts]
        return cls(tuple(tables), VectorSearch(arrays, graph), deleted)

    @functools.cached_property
    def table(self) -> Any:
        """All columns but the vectors, without a copy."""
        return pa.concat_tables([table.drop_columns(VECTOR) for table in self.tables])

    @functools.cached_property
    def described(self) -> Any:
        """The columns of metadata."""
        return self.table.select([name for name in self.table.column_names if name not in (ID, TEXT)])

    @functools.cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of metadata as arrays (N): numbers, truth values, or objects for strings."""
        return {name: self.described[name].to_numpy() for name in self.described.column_names}

    @functools.cached_property
    def _comparable(self) -> dict[str, tuple[str, Any, np.ndarray, Any]]:
        """The kind, the type and an array of each column. Those of strings are numbers of different strings."""
        found = {}
        for name in self.described.column_names:
            column, strings = self.described[name].combine_chunks(), None
            column_type, kind = column.type, kind_of(column.type)
            if kind == "strings":
                encoded = column.dictionary_encode()
                column, strings = encoded.indices, encoded.dictionary
            elif kind == "truth values":
                column = column.cast(pa.uint8())
            found[name] = kind, column_type, np.from_dlpack(column), strings  # `to_numpy` would import pandas
        return found

    @property
    def live(self) -> np.ndarray:
        """The numbers of the rows that are not deleted, int64."""
        return np.arange(len(self.search)) if self.deleted is None else np.flatnonzero(~self.deleted)

    @functools.cached_property
    def words(self) -> tuple[WordIndex, np.ndarray]:
        """The words of the texts that are not deleted, counted when they are first asked for, and their rows."""
        return WordIndex.of_texts(self.table[TEXT].take(pa.array(self.live)).to_pylist()), self.live

    def __len__(self) -> int:
        """Returns the number of texts that are not deleted."""
        return len(self.search) - (0 if self.deleted is None else int(np.count_nonzero(self.deleted)))

    def values(self, name: str, of_deleted: Any) -> list:
        """Returns a column as a list, with another value where a row is deleted."""
        values = self.table[name].to_pylist()
        for row in () if self.deleted is None else np.flatnonzero(self.deleted).tolist():
            values[row] = of_deleted
        return values

    def live_table(self) -> Any:
        """Returns all columns of the rows that are not deleted; a copy if some are."""
        table = pa.concat_tables(self.tables)
        return table if self.deleted is None else table.filter(as_mask(~self.deleted)).combine_chunks()

    def find(self, ids: Sequence[str | int]) -> np.ndarray:
        """Returns the rows of ids, int64; -1 where there is none. 7 and "7" are one id."""
        keys, wanted = self.table[ID].cast(pa.large_string()), [str(one) for one in ids]
        is_found = pa.compute.is_in(keys, pa.array(wanted, keys.type)).to_numpy()
        rows = np.flatnonzero(is_found if self.deleted is None else is_found & ~self.deleted)
        found = dict(zip(keys.take(pa.array(rows)).to_pylist(), rows.tolist(), strict=True))
        return np.array([found.get(one, -1) for one in wanted], np.int64)

    def known(self, ids: Any, num_texts: int | None = None) -> tuple[list, np.ndarray]:
        """Returns ids and their rows, int64. Raises `InputError`: one is unknown or twice, or there are not so many."""
        if ID not in self.table.column_names:
            raise InputError("The texts of the index have no ids. Build it with ids=.")
        ids = checked_ids(ids, num_texts)
        rows = self.find(ids)
        if (rows < 0).any():
            unknown = ids[int(rows.argmin())]
            raise InputError(f"The index has no text with the id {unknown!r:.100}. It has {len(self):,} texts.")
        return ids, rows

    def mask(self, where: Where | None) -> np.ndarray | None:
        """Returns which rows may be found, bool (N); None for all. Raises `InputError` if the filter does not fit."""
        if where is None:
            return None if self.deleted is None else ~self.deleted
        return self._kept(where) if self.deleted is None else self._kept(where) & ~self.deleted

    def _kept(self, where: Where) -> np.ndarray:
        num_rows = len(self.search)
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
            raise _no_column(name, self.described.schema)
        kind, column_type, array, strings = self._comparable[name]
        values = []
        for value in wanted if isinstance(wanted, Collection) and not isinstance(wanted, str) else [wanted]:
            value = value.item() if isinstance(value, np.generic) else value
            if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "truth values"):
                raise InputError(f"The column {name!r} has {kind}. Received: {value!r:.100}")
            # A number that the type cannot hold is in no row.
            with contextlib.suppress(OverflowError, pa.ArrowInvalid):
                values.append(pa.scalar(float(value) if kind == "numbers" else value, column_type).as_py())
        if strings is not None:
            values = pa.compute.index_in(pa.array(values, column_type), strings).drop_null().to_pylist()
        return array == values[0] if len(values) == 1 else np.isin(array, values)

    def _mask_of_expression(self, where: Any) -> np.ndarray:
        from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

        source = Declaration("table_source", TableSourceNodeOptions(self.described))
        plan = Declaration("project", ProjectNodeOptions([where], ["mask"]), [source])
        try:
            mask = plan.to_table(use_threads=False)["mask"].cast(pa.bool_())
        except pa.ArrowException as error:
            raise InputError(f"where does not fit {_described(self.described.column_names)}: {error!s:.200}") from None
        return mask.fill_null(False).to_numpy()

    def added(self, table: Any, vectors: np.ndarray) -> Sequence[Any]:
        """Returns the tables of these rows and of new ones behind them, which have these vectors, float32 (n, H)."""
        *tables, last = self.tables
        new = with_vectors(table, vectors).select(last.column_names).cast(last.schema)
        if len(last) < _FEW_ROWS:
            return [*tables, pa.concat_tables([last, new]).combine_chunks()]
        return [*tables, last, new]

    def changed(self, tables: Sequence[Any], deleted: Sequence[int] | np.ndarray, exact: bool) -> "IndexRows":
        """Returns the rows of tables which begin with the present rows, without some rows; with a graph unless `exact`.

        The rows with the numbers `deleted` are masked or, if too many are, all is made anew without them.
        """
        mask = np.zeros(sum(map(len, tables)), bool)
        mask[: len(self.search)] = False if self.deleted is None else self.deleted
        mask[np.asarray(deleted, np.int64)] = True
        if mask.mean() > _MOST_DELETED:
            return IndexRows.of([IndexRows.of(tables, None, mask).live_table()]).with_graph(exact)
        if tables is self.tables:
            return dataclasses.replace(self, deleted=mask)
        return IndexRows.of(tables, None, mask if mask.any() else None).with_graph(exact, self.search)

    def with_graph(self, exact: bool, begun: VectorSearch | None = None) -> "IndexRows":
        """Returns the rows with a graph if they are many, unless `exact`; `begun` may have that of the first rows."""
        if not gets_graph(len(self.search), exact):
            return self
        graph, start = (None, 0) if begun is None or begun.graph is None else (begun.graph, len(begun))
        graph = build_graph(self.search, graph, start)
        return dataclasses.replace(self, search=VectorSearch(self.search.parts, graph))


def with_vectors(table: Any, vectors: np.ndarray) -> Any:
    """Returns a table with a column of vectors, float32 (N, H), which are not copied if they lie in a row."""
    values = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    return table.append_column(VECTOR, pa.FixedSizeListArray.from_arrays(values, vectors.shape[1]))


def gets_graph(num_rows: int, exact: bool) -> bool:
    """Returns whether an index of this many rows gets a graph. Raises `InputError` if it does and FAISS is missing."""
    if num_rows < GRAPH_FROM or exact:
        return False
    import_faiss()
    return True


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
    """Returns the columns of N texts beside their vectors; ids and metadata are as for `VectorIndex.build`.

    Raises `InputError` if these are of another form, or do not fit `schema`, the columns that the table must have.
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
