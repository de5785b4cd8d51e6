"""Search over vectors of texts, kept in a folder that knows its model: exact, or by a graph where there are many."""

import dataclasses
import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.index_files import FACTS_FILE, check_replaceable_index, read_index, state_of, write_index
from keras_bert.embeddings.index_rows import IndexRows, checked_ids
from keras_bert.embeddings.metadata_columns import Columns, Where, checked_columns
from keras_bert.embeddings.model_fingerprint import model_fingerprint
from keras_bert.embeddings.neighbour_graph import build_graph, import_faiss
from keras_bert.embeddings.quantised_vectors import PRECISIONS, StoredVectors
from keras_bert.embeddings.rank_fusion import FUSED
from keras_bert.embeddings.row_search import RowSearch
from keras_bert.embeddings.text_vectors import search_vectors
from keras_bert.embeddings.word_index import checked_texts
from keras_bert.program.atomic_output import atomic_folder, replacement_folder
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import waiting_for_folder
from keras_bert.program.long_work import progress_bar
from keras_bert.program.options import check_choice

# From this number of texts on, an index has a graph (docs/decisions/graph_is_checked_array.md).
GRAPH_FROM = 50_000
# An index with a graph is made anew when a larger share of its rows has been deleted.
_MOST_DELETED = 0.2

_SECONDS_WITHOUT_PROGRESS, _SECONDS_BETWEEN_LINES = 2, 1
# Threads change and save indexes one after another. It is no attribute, since a lock cannot be copied or pickled.
_changing = threading.RLock()


def _one_at_a_time(method: Callable) -> Callable:
    @functools.wraps(method)
    def changed(*arguments, **options):
        with _changing:
            return method(*arguments, **options)

    return changed


@dataclasses.dataclass(frozen=True)
class Hit:
    """A text that was found.

    Attributes:
        number: its row in the index, counted from 0. Deletions may change it.
        text: the text.
        score: its cosine similarity to the query; in a quantised index that of what is kept of its vector; in a
            hybrid search its sum of reciprocal ranks.
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

    Args:
        vectors: float32 (N, H), each of length 1; or `StoredVectors` of another precision.
        texts: N strings.
        fingerprint: of the model, see `model_fingerprint`.
        options: the arguments of `sentence_embeddings` beside model and texts: `pooling`, `max_seq_length`.
        graph: of the vectors, see `neighbour_graph.build_graph`. Without it, every search is exact.
        added: SHA-256 of each group of texts that was added at once, in order, see `has_added`.
        ids: N different strings or whole numbers.
        metadata: columns with N values each, see `metadata_columns.checked_columns`.
        deleted: bool (N): rows that are never found. Only an index with a graph has some.

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

    def __init__(
        self,
        vectors: np.ndarray | StoredVectors,
        texts: Sequence[str],
        fingerprint: str,
        options: dict,
        graph: np.ndarray | None = None,
        added: Sequence[str] = (),
        *,
        ids: Sequence[str | int] | None = None,
        metadata: Columns | None = None,
        deleted: np.ndarray | None = None,
    ):
        if not isinstance(vectors, StoredVectors):
            vectors = StoredVectors(vectors)
        rows = IndexRows(vectors, list(texts), None if ids is None else list(ids), metadata or {}, deleted)
        self.fingerprint, self.options = fingerprint, dict(options)
        # Replaced as one, so that no search in another thread sees the rows of one state and the vectors of another.
        self._rows_and_search = rows, RowSearch(rows.stored, graph)
        self.graph, self.added = graph, tuple(added)
        self._stored_states: dict[str, Hashable] = {}  # the folders it was loaded from or saved to, as they were then

    def _set(self, rows: IndexRows, graph: np.ndarray | None, added: Sequence[str]) -> None:
        search = self._rows_and_search[1]
        self._rows_and_search = rows, search if search.is_of(rows.stored, graph) else RowSearch(rows.stored, graph)
        self.graph, self.added = graph, tuple(added)

    @property
    def rows(self) -> IndexRows:
        """The vectors, texts, ids and metadata."""
        return self._rows_and_search[0]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vectors(self) -> np.ndarray:
        """The vectors of all rows: float32 (N, H), or int8 (N, H) in other precisions, see `quantise`."""
        return self.rows.stored.codes

    @property
    def precision(self) -> str:
        """How vectors are kept: `float32`, `int8` or `binary`."""
        return self.rows.stored.precision

    @property
    def texts(self) -> list[str]:
        """The texts of all rows; "" where one was deleted from an index with a graph."""
        return self.rows.texts

    @property
    def ids(self) -> list | None:
        """The ids of all rows, if there are ids; None where a text was deleted from an index with a graph."""
        return self.rows.ids

    @property
    def metadata(self) -> Columns:
        """The columns of metadata, a value for each row."""
        return self.rows.metadata

    @classmethod
    def build(
        cls,
        model: Any,
        texts: Any,
        *,
        ids: Any = None,
        metadata: Any = None,
        precision: str = "float32",
        pooling: str | None = None,
        max_seq_length: int | None = None,
        batch_size: int = 32,
        exact: bool = False,
    ) -> "VectorIndex":
        """Computes the embeddings of texts; the arguments not named here are those of `sentence_embeddings`.

        If the model has a prompt for documents, it is put before each text. An index of 50,000 texts or more gets a
        graph for approximate search, unless it is `exact` or `binary`.

        Args:
            ids: a different string or whole number for each text.
            metadata: column -> a value for each text, for filters.
            precision: `float32`; `int8`, a quarter of the memory, with the ranges of these texts; or `binary`, signs, a
                thirty-second of the memory, with int8 on the disk.

        Raises:
            InputError: there are no texts, or one is empty; an id occurs twice; metadata have another length or no
                valid values; int8 or binary has one text only; FAISS is missing where a graph is built; and as
                `sentence_embeddings`.
        """
        texts = checked_texts(texts, "text")
        check_choice("precision", precision, PRECISIONS)
        ids = None if ids is None else checked_ids(ids, len(texts))
        columns = checked_columns(metadata, len(texts)) if metadata is not None else {}
        gets_graph = _gets_graph(len(texts), exact, precision)
        options = {"pooling": pooling, "max_seq_length": max_seq_length}
        vectors = _document_vectors(model, texts, batch_size, options)
        stored = StoredVectors.of(vectors, precision)
        graph = _build_graph(stored) if gets_graph else None
        fingerprint, added = model_fingerprint(model), [_hash_of(texts, ids)]
        return cls(stored, texts, fingerprint, options, graph, added, ids=ids, metadata=columns)

    @_one_at_a_time
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
        In an int8 index, the ranges stay those of the first texts. After an error, the index is as it was.

        Raises:
            InputError: the model is another than that of the index; ids are missing, needless or there already;
                metadata have other columns; and as `build`.
        """
        texts = checked_texts(texts, "text")
        self.check_model(model)
        ids, columns = self.rows.checked_additions(len(texts), ids, metadata)
        taken = next((one for one in ids or () if str(one) in self.rows.numbers), None)
        if taken is not None:
            raise InputError(f"The index has the id {taken!r:.100} already. Use update, or give another id.")
        _gets_graph(len(self.texts) + len(texts), exact, self.precision)
        rows = self.rows.joined(self._added_vectors(model, texts, batch_size), texts, ids, columns)
        self._set(*self._grown(rows, self.graph, len(texts), exact), (*self.added, _hash_of(texts, ids)))

    @_one_at_a_time
    def update(self, model: Any, ids: Any, texts: Any, *, metadata: Any = None, batch_size: int = 32) -> None:
        """Gives the texts with these ids other texts, and other metadata, if given. They move to the end of the index.

        Raises:
            InputError: the index has no ids, or not one of these; and as `append`.
        """
        texts = checked_texts(texts, "text")
        self.check_model(model)
        numbers = self.rows.numbers_of(ids, len(texts))
        ids = [self.rows.ids[number] for number in numbers]  # type: ignore[index]
        if metadata is None:
            columns = {name: column[numbers] for name, column in self.metadata.items()}
        else:
            ids, columns = self.rows.checked_additions(len(texts), ids, metadata)
        vectors = self._added_vectors(model, texts, batch_size)
        rows, graph = self._without(numbers)
        rows = rows.joined(vectors, texts, ids, columns)
        self._set(*self._grown(rows, graph, len(texts), self.graph is None), ())

    @_one_at_a_time
    def delete(self, ids: Any) -> None:
        """Removes texts; save the index afterwards.

        An index without a graph is made smaller at once. One with a graph keeps the vectors for the graph, without
        text, id and metadata, until a fifth of its rows is deleted; then it is made smaller and gets a new graph.

        Raises:
            InputError: the index has no ids, or not one of these; one is given twice; or no text would be left.
        """
        numbers = self.rows.numbers_of(ids)
        if len(numbers) == len(self):
            raise InputError("Without these texts the index would be empty. Remove its folder instead.")
        # The texts may be added again: ids keep them from being added twice.
        self._set(*self._without(numbers), added=())

    def _without(self, numbers: np.ndarray) -> tuple[IndexRows, np.ndarray | None]:
        """Returns the rows without some, and their graph."""
        rows = self.rows.marked(numbers)
        assert rows.deleted is not None
        if self.graph is not None and rows.deleted.mean() <= _MOST_DELETED:
            return rows, self.graph
        rows = rows.compacted()
        has_graph = self.graph is not None and _gets_graph(len(rows), False, self.precision)
        return rows, _build_graph(rows.stored) if has_graph else None

    def _grown(
        self, rows: IndexRows, graph: np.ndarray | None, num_added: int, exact: bool
    ) -> tuple[IndexRows, np.ndarray | None]:
        """Returns the rows, and the graph of all; `graph` is of all but the last ones."""
        if _gets_graph(len(rows.texts), exact, self.precision):
            return rows, _build_graph(rows.stored, graph, len(rows.texts) - num_added)
        return rows.compacted(), None

    def has_added(self, texts: Any, ids: Any = None) -> bool:
        """Returns whether exactly these texts and ids, in this order, were added at once, by `build` or `append`.

        A command that was killed after it saved the index asks this when it runs again. Indexes with deletions or
        updates answer False.
        """
        ids = None if ids is None else checked_ids(ids, None)
        return _hash_of(checked_texts(texts, "text"), ids) in self.added

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
            where: which texts may be found: column of the metadata -> its value, where all conditions must hold, or a
                function that receives a dictionary of all columns, arrays [rows], and returns a mask, bool [rows].

        Raises:
            InputError: the model is another than that of the index, or a query is empty; and as `nearest`.
        """
        queries = checked_texts(queries, "query", may_be_none=True)
        self.check_model(model)
        if not queries:
            return []
        rows, search = self._rows_and_search
        mask = rows.mask(where)
        vectors = search_vectors(model, queries, "query", batch_size=batch_size, **self.options)
        numbers, scores = search.nearest(vectors, max(top_k, FUSED) if hybrid else top_k, mask, exact)
        if hybrid:
            fused = rows.words.fused(queries, numbers, top_k, mask)
            return [[_hit(rows, *pair) for pair in of_query] for of_query in fused]
        found = zip(numbers.tolist(), scores.tolist(), strict=True)
        return [[_hit(rows, *pair) for pair in zip(*of_query, strict=True)] for of_query in found]

    def nearest(
        self, vectors: np.ndarray, top_k: int = 5, *, where: Where | None = None, exact: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers and products of the nearest texts of each vector, int64 and float32 (Q, top_k).

        Exact, by comparing all vectors part by part, if `exact`, without a graph, for more than 100 texts, or where
        `where` keeps less than 5 % of them. By a graph, about 1 in 200 of the nearest ten is missed; the products are
        exact. A binary index compares the signs of all vectors, and the int8 codes of the best 4 * `top_k`. There are
        fewer columns where fewer texts may be found.

        Raises:
            InputError: the vectors have another dimension, `where` names no column or returns no mask, or FAISS is
                missing where a graph is searched.
        """
        rows, search = self._rows_and_search
        return search.nearest(np.asarray(vectors, np.float32), top_k, rows.mask(where), exact)

    def _added_vectors(self, model: Any, texts: list[str], batch_size: int) -> np.ndarray:
        vectors = _document_vectors(model, texts, batch_size, self.options)
        self._rows_and_search[1].check_dimension(vectors)
        return vectors

    def check_model(self, model: Any) -> None:
        """Raises `InputError` when a model is not the one that made the index."""
        if model_fingerprint(model) != self.fingerprint:
            raise InputError(
                "The index was made with another model (other weights, vocabulary or casing), so its vectors cannot be "
                "compared with this model's. Build it again, or load the model that it was made with."
            )

    @_one_at_a_time
    def save(self, path: str | os.PathLike, *, replace: bool = False) -> None:
        """Writes a folder, see `index_files.py`: a process that is killed leaves the old or the new index.

        Args:
            path: a new or empty folder.
            replace: `path` may also be the folder of an index. The new one takes its place when it is complete.

        Raises:
            InputError: the folder has an index and `replace` is not set; it has other files; another process has
                changed the index there since this one was loaded or saved; or it cannot be written.
        """
        is_old_index = os.path.isfile(os.path.join(path, FACTS_FILE))
        if is_old_index and not replace:
            raise InputError(
                f"The output folder {os.fspath(path)} is not empty: it has an index. Use save(path, replace=True), or "
                "save to a new folder."
            )
        if not (replace and os.path.isdir(path) and os.listdir(path)):
            with atomic_folder(path) as folder:
                write_index(folder, self)
                state = state_of(folder)
        else:
            check_replaceable_index(path)
            with waiting_for_folder(path):
                if self._stored_states.get(os.path.realpath(path), state_of(path)) != state_of(path):
                    raise InputError(
                        f"Another process or index has saved to {os.fspath(path)} since this index was loaded, and its "
                        "changes would be lost. Load the index again and repeat yours, or save to a new folder."
                    )
                with replacement_folder(path) as folder:
                    write_index(folder, self)
                    state = state_of(folder)
        self._stored_states[os.path.realpath(path)] = state

    @classmethod
    def load(cls, path: str | os.PathLike) -> "VectorIndex":
        """Reads a folder that `save` wrote; the vectors stay on disk until they are used.

        Raises:
            InputError: it is no index, it is damaged, or a file is a link out of the folder.
        """
        arguments, state = read_index(path)
        index = cls(**arguments)
        index._stored_states[os.path.realpath(path)] = state
        return index


def _hit(rows: IndexRows, number: int, score: float) -> Hit:
    metadata = {name: column[number].item() for name, column in rows.metadata.items()}
    one = None if rows.ids is None else rows.ids[number]
    return Hit(number, rows.texts[number], score, one, metadata or None)


def _gets_graph(num_texts: int, exact: bool, precision: str) -> bool:
    """Returns whether an index has a graph, and checks that FAISS is there before the embeddings are computed."""
    gets_graph = num_texts >= GRAPH_FROM and not exact and precision != "binary"
    if gets_graph:
        import_faiss()
    return gets_graph


def _build_graph(stored: StoredVectors, graph: np.ndarray | None = None, num_vectors: int = 0) -> np.ndarray:
    return build_graph(
        stored.codes,
        graph,
        num_vectors if graph is not None else 0,
        ranges=stored.ranges,
        seconds_without_progress=_SECONDS_WITHOUT_PROGRESS,
    )


def _document_vectors(model, texts, batch_size: int, options: dict) -> np.ndarray:
    # Shown where it takes longer than a moment.
    with progress_bar(
        total=len(texts), unit=" texts", mininterval=_SECONDS_BETWEEN_LINES, delay=_SECONDS_WITHOUT_PROGRESS
    ) as bar:
        return search_vectors(model, texts, "document", batch_size=batch_size, on_progress=bar.update, **options)


def _hash_of(texts: Sequence[str], ids: Sequence | None = None) -> str:
    return hashlib.sha256(json.dumps(texts if ids is None else [texts, list(ids)]).encode()).hexdigest()
