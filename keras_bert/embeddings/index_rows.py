"""The rows of an index: a vector, a text, an id and metadata each, in tables of Arrow. Changes return new rows."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.index_columns import ID, TEXT, VECTOR, Filters, Where, checked_ids
from keras_bert.embeddings.neighbour_graph import build_graph, import_faiss
from keras_bert.embeddings.vector_search import VectorSearch
from keras_bert.embeddings.word_index import WordIndex
from keras_bert.program.arrow_files import as_mask, pa
from keras_bert.program.errors import InputError

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
    def filters(self) -> Filters:
        """Filters over the columns of metadata."""
        return Filters(self.described)

    @functools.cached_property
    def words(self) -> tuple[WordIndex, np.ndarray]:
        """The words of the texts that are not deleted, counted when they are first asked for, and their rows."""
        rows = np.arange(len(self.search)) if self.deleted is None else np.flatnonzero(~self.deleted)
        return WordIndex.of_texts(self.table[TEXT].take(pa.array(rows)).to_pylist()), rows

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
        """Returns ids and their rows, int64; `num_texts` is how many these must be.

        Raises:
            InputError: the index has no ids, or not one of these, or one is given twice.
        """
        if ID not in self.table.column_names:
            raise InputError("The texts of the index have no ids. Build it with ids=.")
        ids = checked_ids(ids, num_texts)
        rows = self.find(ids)
        if (rows < 0).any():
            unknown = ids[int(rows.argmin())]
            raise InputError(f"The index has no text with the id {unknown!r:.100}. It has {len(self):,} texts.")
        return ids, rows

    def mask(self, where: Where | None) -> np.ndarray | None:
        """Returns which rows may be found, bool (N), or None for all; see `mask_of`."""
        if where is None:
            return None if self.deleted is None else ~self.deleted
        mask = self.filters.mask(where)
        return mask if self.deleted is None else mask & ~self.deleted

    def added(self, table: Any, vectors: np.ndarray) -> Sequence[Any]:
        """Returns the tables of these rows and of new ones behind them, which have these vectors, float32 (n, H)."""
        *tables, last = self.tables
        new = with_vectors(table, vectors).select(last.column_names).cast(last.schema)
        if len(last) < _FEW_ROWS:
            return [*tables, pa.concat_tables([last, new]).combine_chunks()]
        return [*tables, last, new]

    def changed(self, tables: Sequence[Any], deleted: Sequence[int] | np.ndarray, exact: bool) -> "IndexRows":
        """Returns the rows of tables which begin with the present rows, without some rows, and with a graph of all.

        Args:
            tables: those of these rows, or from `added`.
            deleted: the numbers of rows. They are masked or, if too many are, all is made anew without them.
            exact: whether new rows have no graph.
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
