"""The rows of an index: a vector, a text, an id and metadata each. Changes return new rows."""

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_bert.embeddings.metadata_columns import Columns, Where, checked_columns, joined_columns, mask_of
from keras_bert.embeddings.quantised_vectors import StoredVectors
from keras_bert.embeddings.rank_fusion import RowWords
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list


@dataclasses.dataclass(frozen=True)
class IndexRows:
    """Rows of an index.

    Attributes:
        stored: N vectors.
        texts: N strings; "" in deleted rows.
        ids: N strings or whole numbers, None in deleted rows; or None if the texts have no ids.
        metadata: columns of N values.
        deleted: bool (N): rows that only the graph needs; None if there are none.
    """

    stored: StoredVectors
    texts: list[str]
    ids: list | None = None
    metadata: Columns = dataclasses.field(default_factory=dict)
    deleted: np.ndarray | None = None

    def __post_init__(self):
        if len(self.stored.codes) != len(self.texts):
            raise InputError(
                f"Expected a text for each vector. Received: {len(self.stored.codes)} vectors, {len(self.texts)} texts"
            )

    def __len__(self) -> int:
        """Returns the number of texts that are not deleted."""
        return len(self.texts) - (0 if self.deleted is None else int(np.count_nonzero(self.deleted)))

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """Each id as a string -> its row, so that 7 and "7" are one id."""
        return {str(one): row for row, one in enumerate(self.ids or ()) if one is not None}

    @functools.cached_property
    def words(self) -> RowWords:
        """The words of the texts, counted when they are first asked for."""
        return RowWords(self.texts, self.deleted)

    def numbers_of(self, ids: Any, num_texts: int | None = None) -> np.ndarray:
        """Returns the rows of ids, int64; `num_texts` is how many these must be.

        Raises:
            InputError: the index has no ids, or not one of these, or one is given twice.
        """
        if self.ids is None:
            raise InputError("The texts of the index have no ids. Build it with ids=.")
        ids = checked_ids(ids, num_texts)
        unknown = next((one for one in ids if str(one) not in self.numbers), None)
        if unknown is not None:
            raise InputError(f"The index has no text with the id {unknown!r:.100}. It has {len(self):,} texts.")
        return np.array([self.numbers[str(one)] for one in ids], np.int64)

    def checked_additions(self, num_texts: int, ids: Any, metadata: Any) -> tuple[list | None, Columns]:
        """Returns the ids and the columns of further texts.

        Raises:
            InputError: the index has ids and these have none, or the other way round; or the columns are others.
        """
        if (ids is None) != (self.ids is None):
            has, given = ("no ids", "ids") if self.ids is None else ("ids", "none")
            raise InputError(f"The texts of the index have {has}, so new ones must be alike. Received: {given}")
        columns = checked_columns({} if metadata is None else metadata, num_texts)
        joined_columns({name: column[:0] for name, column in self.metadata.items()}, columns)
        return None if ids is None else checked_ids(ids, num_texts), columns

    def joined(self, vectors: np.ndarray, texts: list[str], ids: list | None, columns: Columns) -> "IndexRows":
        """Returns these rows and further ones behind them; `vectors` are float32 and become as the others."""
        return IndexRows(
            self.stored.joined(vectors),
            [*self.texts, *texts],
            None if self.ids is None else [*self.ids, *(ids or ())],
            joined_columns(self.metadata, columns),
            None if self.deleted is None else np.append(self.deleted, np.zeros(len(texts), bool)),
        )

    def marked(self, rows: np.ndarray) -> "IndexRows":
        """Returns these rows with some marked as deleted: these keep their vectors only."""
        deleted = np.zeros(len(self.texts), bool) if self.deleted is None else self.deleted.copy()
        deleted[rows] = True
        texts, ids = list(self.texts), list(self.ids or ())
        for row in rows.tolist():
            texts[row], ids[row] = "", None
        metadata = {name: np.array(column) for name, column in self.metadata.items()}
        for column in metadata.values():
            column[rows] = column.dtype.type()
        return IndexRows(self.stored, texts, ids, metadata, deleted)

    def compacted(self) -> "IndexRows":
        """Returns the rows that are not deleted."""
        if self.deleted is None:
            return self
        rows = np.flatnonzero(~self.deleted)
        texts, ids = ([values[row] for row in rows.tolist()] for values in (self.texts, self.ids or ()))
        return IndexRows(
            self.stored.kept(rows), texts, ids, {name: column[rows] for name, column in self.metadata.items()}
        )

    def mask(self, where: Where | None) -> np.ndarray | None:
        """Returns which rows may be found, bool (N), or None for all; see `mask_of`."""
        if where is None:
            return None if self.deleted is None else ~self.deleted
        mask = mask_of(where, self.metadata, len(self.texts))
        return mask if self.deleted is None else mask & ~self.deleted


def checked_ids(ids: Any, num_texts: int | None) -> list:
    """Returns ids as a list. Raises `InputError`: one is given twice, is no id, or there are not `num_texts`."""
    ids = as_list([ids] if isinstance(ids, (str, int)) else ids, "ids")
    if num_texts is not None and len(ids) != num_texts:
        raise InputError(f"Expected an id for each of the {num_texts:,} texts. Received: {len(ids):,} ids")
    seen: set[str] = set()
    for one in ids:
        if type(one) not in (str, int) or one == "":
            raise InputError(f"An id must be a string or a whole number. Received: {one!r:.100}")
        if str(one) in seen:
            raise InputError(f"The id {one!r:.100} is given twice. Every text needs an id of its own.")
        seen.add(str(one))
    return ids
