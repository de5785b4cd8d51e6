"""Search over vectors of texts, kept in a folder that knows its model: exact, or by a graph where there are many."""

import dataclasses
import os
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.checkpoints.model_fingerprint import model_fingerprint
from keras_bert.embeddings.index_files import FINGERPRINT, read_index, read_rows, save_index
from keras_bert.embeddings.index_rows import ID, TEXT, IndexRows, Where, gets_graph, table_of, with_vectors
from keras_bert.embeddings.rank_fusion import FUSED, reciprocal_rank_fusion
from keras_bert.embeddings.text_vectors import search_vectors
from keras_bert.embeddings.word_index import checked_texts
from keras_bert.program.arrow_files import pa, write_parquet
from keras_bert.program.errors import InputError

# Threads change and save indexes one after another. It is no attribute, since a lock cannot be copied or pickled.
_changing = threading.RLock()


@dataclasses.dataclass(frozen=True)
class Hit:
    """A text that was found.

    Attributes:
        number: its row in the index, counted from 0. Deletions may change it.
        text: the text.
        score: its cosine similarity to the query; in a hybrid search its sum of reciprocal ranks.
        id: its id, if the index has ids.
        metadata: its values by column, if the index has metadata.
    """

    number: int
    text: str
    score: float
    id: str | int | None = None
    metadata: dict[str, Any] | None = None


class VectorIndex:
    """Texts, their embeddings and what they were made with.

    Made by `build`, `from_arrow` or `load`.

    Args:
        rows: the texts, with vectors of length 1.
        fingerprint: of the model, see `model_fingerprint`.
        options: the arguments of `sentence_embeddings` beside model and texts: `pooling`, `max_seq_length`.

    Example:
        encoder = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
        texts = ["A cat sits on the mat.", "Stocks fell on Monday."]
        index = VectorIndex.build(encoder, texts, ids=["a", "b"], metadata={"year": [2023, 2024]})
        index.search(encoder, ["a kitten"], top_k=1)[0][0].text
        # 'A cat sits on the mat.'
        index.search(encoder, ["a kitten"], where={"year": 2024})[0][0].id
        # 'b'
        index.delete(["a"])
        index.save("my_index")

    Threads may search one index, and change it, at the same time. A search reads the index before or after a change.
    """

    def __init__(self, rows: IndexRows, fingerprint: str, options: dict):
        # Replaced as one, so that no search in another thread sees the texts of one state and the vectors of another.
        self.rows = rows
        self.fingerprint, self.options = fingerprint, dict(options)
        # The folders it was loaded from or saved to: their states then, and the tables of their files.
        self._stored: dict[str, tuple[Hashable, Sequence[Any]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vectors(self) -> np.ndarray:
        """The vectors of all rows, float32 (N, H); a copy if they are in several files."""
        return self.rows.search[:]

    @property
    def graph(self) -> np.ndarray | None:
        """The graph of the vectors, if there is one."""
        return self.rows.search.graph

    @property
    def texts(self) -> list[str]:
        """The texts of all rows; "" where one was deleted and the index has not been made anew."""
        return self.rows.values(TEXT, "")

    @property
    def ids(self) -> list | None:
        """The ids of all rows, if there are ids; None where a text was deleted."""
        return self.rows.values(ID, None) if ID in self.rows.table.column_names else None

    @property
    def metadata(self) -> dict[str, np.ndarray]:
        """The columns of metadata, a value for each row, also for deleted ones; strings are objects."""
        return dict(self.rows.arrays)

    @classmethod
    def build(
        cls,
        model: Any,
        texts: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        pooling: str | None = None,
        max_seq_length: int | None = None,
        batch_size: int = 32,
        exact: bool = False,
    ) -> "VectorIndex":
        """Computes the embeddings of texts; the arguments not named here are those of `sentence_embeddings`.

        If the model has a prompt for documents, it is put before each text. An index of 50,000 texts or more gets a
        graph for approximate search, unless it is `exact`.

        Args:
            ids: a different string for each text, or a different whole number.
            metadata: column -> a value for each text, for filters.

        Raises:
            InputError: there are no texts, or one is empty; an id occurs twice; metadata have another length or no
                valid values; FAISS is missing where a graph is built; and as `sentence_embeddings`.
        """
        texts = checked_texts(texts, "text")
        table = table_of(texts, ids, metadata)
        gets_graph(len(texts), exact)
        options = {"pooling": pooling, "max_seq_length": max_seq_length}
        table = with_vectors(table, search_vectors(model, texts, "document", batch_size=batch_size, **options))
        return cls(IndexRows.of([table]).with_graph(exact), model_fingerprint(model), options)

    @classmethod
    def from_arrow(
        cls,
        paths: Any,
        model: Any,
        *,
        names: Mapping[str, str] | None = None,
        pooling: str | None = None,
        max_seq_length: int | None = None,
    ) -> "VectorIndex":
        """Opens Arrow files (Feather 2) that others wrote. They are mapped, not copied, and not changed.

        A file has the columns `text`, `vector` (lists of a fixed size, float32, of length 1, since scores are products)
        and perhaps `id`, uncompressed and without nulls. All other columns are metadata: strings, whole numbers,
        numbers or truth values. Searches are exact.

        Args:
            paths: a file, or several with equal columns.
            model: the model that made the vectors. Files that an index wrote say which it was.
            names: a name of a column in the files -> its name here, where these differ: `{"embedding": "vector"}`.
            pooling, max_seq_length: how the texts were embedded, see `sentence_embeddings`; queries are embedded alike.

        Raises:
            InputError: a file is missing or damaged, or its columns are others; an id occurs twice; the files were made
                by another model; or the model has no vocabulary.
        """
        paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        fingerprint = model_fingerprint(model)
        try:
            rows = read_rows([os.fspath(path) for path in paths], fingerprint, names or {})
        except ValueError as error:
            raise InputError(f"The files are no index: {error}.") from None
        return cls(rows, fingerprint, {"pooling": pooling, "max_seq_length": max_seq_length})

    def append(
        self,
        model: Any,
        texts: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        batch_size: int = 32,
        exact: bool = False,
    ) -> None:
        """Adds texts behind those of the index; save it afterwards with `replace=True`, or to a new folder.

        A graph grows with the texts. One is built where the index reaches 50,000 texts. With `exact`, none is kept.
        After an error, the index is as it was.

        Raises:
            InputError: the model is another than that of the index; ids are missing, needless or there already;
                metadata have other columns; and as `build`.
        """
        with _changing:
            table = self._table_of(model, texts, ids, metadata)
            if ID in table.column_names and (found := self.rows.find(table[ID].to_pylist())).max() >= 0:
                taken = table[ID][int(found.argmax())].as_py()
                raise InputError(f"The index has the id {taken!r:.100} already. Use upsert, or give another id.")
            self._put(model, table, np.zeros(0, np.int64), batch_size, exact)

    def update(self, model: Any, ids: Any, texts: Any, *, metadata: Any = None, batch_size: int = 32) -> None:
        """Replaces the texts with these ids, and their metadata, if given. The new texts stand at the end of the index.

        Raises:
            InputError: the index has no ids, or not one of these; and as `append`.
        """
        with _changing:
            texts = checked_texts(texts, "text")
            ids, numbers = self.rows.known(ids, len(texts))
            if metadata is None:
                metadata = self.rows.described.take(pa.array(numbers)).to_pydict()
            table = self._table_of(model, texts, ids, metadata)
            self._put(model, table, numbers, batch_size, self.graph is None)

    def upsert(
        self, model: Any, ids: Any, texts: Any, *, metadata: Any = None, batch_size: int = 32, exact: bool = False
    ) -> None:
        """Adds texts, in place of those that have the same ids. So it may be repeated, after a kill for example.

        Raises:
            InputError: the index has no ids; and as `append`.
        """
        with _changing:
            table = self._table_of(model, texts, ids, metadata)
            found = self.rows.find(table[ID].to_pylist())
            self._put(model, table, found[found >= 0], batch_size, exact)

    def delete(self, ids: Any) -> None:
        """Removes texts; save the index afterwards.

        They are never found again. Their rows stay, in the files too, until a fifth of all is deleted; then the index
        is made anew without them, and gets a new graph if it had one.

        Raises:
            InputError: the index has no ids, or not one of these; one is given twice; or no text would be left.
        """
        with _changing:
            _, numbers = self.rows.known(ids)
            if len(numbers) == len(self):
                raise InputError("Without these texts the index would be empty. Remove its folder instead.")
            self.rows = self.rows.changed(self.rows.tables, numbers, self.graph is None)

    def _table_of(self, model: Any, texts: Any, ids: Any, metadata: Any) -> Any:
        """Returns the columns of new texts."""
        self.check_model(model)
        return table_of(checked_texts(texts, "text"), ids, metadata, self.rows.table.schema)

    def _put(self, model: Any, table: Any, replaced: np.ndarray, batch_size: int, exact: bool) -> None:
        """Adds the texts of a table, and deletes the rows that they replace."""
        gets_graph(len(self.rows.search) + len(table), exact)
        texts = table[TEXT].to_pylist()
        vectors = search_vectors(model, texts, "document", batch_size=batch_size, **self.options)
        self.rows.search.check_dimension(vectors)
        self.rows = self.rows.changed(self.rows.added(table, vectors), replaced, exact)

    def search(
        self,
        model: Any,
        queries: Any,
        top_k: int = 5,
        *,
        where: Where | None = None,
        hybrid: bool = False,
        batch_size: int = 32,
        exact: bool = False,
    ) -> list[list[Hit]]:
        """Returns the most similar texts of each query, the best first; the earlier of equally similar texts first.

        Approximate where the index has a graph, unless `exact`; see `nearest`.

        Args:
            hybrid: whether to search the words too (`WordIndex`) and fuse both rankings: the 100 best texts of each,
                or `top_k` if that is more. Scores are then those of `reciprocal_rank_fusion`. The words are counted
                in the first such search after the index was loaded or changed.
            where: which texts may be found: a dictionary, column of the metadata -> its value, or a list of values of
                which it has one, where all conditions must hold; an expression of `pyarrow.compute`, such as
                `field("year") >= 2024`; or a function that receives a dictionary of all columns, arrays [rows], and
                returns a mask, bool [rows].

        Raises:
            InputError: the model is another than that of the index, or a query is empty; and as `nearest`.
        """
        queries = checked_texts(queries, "query", may_be_none=True)
        self.check_model(model)
        if not queries:
            return []
        rows = self.rows
        mask = rows.mask(where)
        vectors = search_vectors(model, queries, "query", batch_size=batch_size, **self.options)
        numbers, scores = rows.search.nearest(vectors, max(top_k, FUSED) if hybrid else top_k, mask, exact)
        found = [list(zip(*of_query, strict=True)) for of_query in zip(numbers.tolist(), scores.tolist(), strict=True)]
        if hybrid:
            words, live = rows.words
            by_words, _ = words.nearest(queries, max(numbers.shape[1], 1), None if mask is None else mask[live])
            pairs = zip(numbers.tolist(), by_words, strict=True)
            found = [reciprocal_rank_fusion([near, live[far[far >= 0]].tolist()], top_k) for near, far in pairs]
        columns = {name: rows.table[name] for name in rows.table.column_names}
        return [[_hit(columns, *pair) for pair in of_query] for of_query in found]

    def nearest(
        self, vectors: np.ndarray, top_k: int = 5, *, where: Where | None = None, exact: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers and products of the nearest texts of each vector, int64 and float32 (Q, top_k).

        Exact, by comparing all vectors part by part, if `exact`, without a graph, for more than 100 texts, or where
        `where` keeps less than 5 % of them. By a graph, about 1 in 200 of the nearest ten is missed; the products are
        exact. There are fewer columns where fewer texts may be found.

        Raises:
            InputError: the vectors have another dimension, `where` names no column or returns no mask, or FAISS is
                missing where a graph is searched.
        """
        rows = self.rows
        return rows.search.nearest(np.asarray(vectors, np.float32), top_k, rows.mask(where), exact)

    def check_model(self, model: Any) -> None:
        """Raises `InputError` when a model is not the one that made the index."""
        if model_fingerprint(model) != self.fingerprint:
            raise InputError(
                "The index was made with another model (other weights, vocabulary or casing), so its vectors cannot be "
                "compared with this model's. Build it again, or load the model that it was made with."
            )

    def to_parquet(self, path: str | os.PathLike) -> None:
        """Writes the texts that are not deleted as one file of Parquet, with the columns of `from_arrow`.

        Raises:
            InputError: the file cannot be written.
        """
        write_parquet(path, self.rows.live_table().replace_schema_metadata({FINGERPRINT: self.fingerprint}))

    def save(self, path: str | os.PathLike, *, replace: bool = False) -> None:
        """Writes a folder, see `index_files.py`: a process that is killed leaves the old or the new index.

        Args:
            path: a new or empty folder.
            replace: `path` may also be the folder of an index. The new one takes its place when it is complete.

        Raises:
            InputError: the folder has an index and `replace` is not set; it has other files; another process has
                changed the index there since this one was loaded or saved; or it cannot be written.
        """
        with _changing:
            place = os.path.realpath(path)
            facts = {"model_sha256": self.fingerprint, **self.options}
            self._stored[place] = save_index(path, self.rows, facts, replace, self._stored.get(place))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "VectorIndex":
        """Reads a folder that `save` wrote; the vectors stay on disk until they are used.

        Raises:
            InputError: it is no index, it is damaged, or a file is a link out of the folder.
        """
        rows, facts, state = read_index(path)
        index = cls(rows, facts.pop("model_sha256"), facts)
        index._stored[os.path.realpath(path)] = state, rows.tables
        return index


def _hit(columns: Mapping[str, Any], number: int, score: float) -> Hit:
    values = {name: column[number].as_py() for name, column in columns.items()}
    return Hit(number, values.pop(TEXT), score, values.pop(ID, None), values or None)
