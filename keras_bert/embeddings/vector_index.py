"""Search over vectors of texts, kept in a folder that knows its model: exact, or by a graph where there are many."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from keras_bert.embeddings.neighbour_graph import GraphSearch, build_graph, check_graph, import_faiss
from keras_bert.embeddings.text_vectors import search_vectors
from keras_bert.models.layer_settings import settings_of
from keras_bert.program.atomic_output import atomic_folder, check_replaceable_folder, replacement_folder
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links
from keras_bert.program.json_files import checked, member, parse_json, read_json_object
from keras_bert.tokenization.user_inputs import as_texts

VECTORS_FILE, TEXTS_FILE, FACTS_FILE, GRAPH_FILE = "vectors.npy", "texts.jsonl", "index.json", "graph.npy"

# From this number of texts on, an index has a graph (docs/decisions/graph_is_checked_array.md).
GRAPH_FROM = 50_000
# The graph gives at most this many texts for a query; more are searched exactly.
_MOST_BY_GRAPH = 100

# Before version 0.2 an index called the pooling of [CLS] "first".
_EARLIER_POOLINGS = {"first": "cls"}
_SECONDS_WITHOUT_PROGRESS, _SECONDS_BETWEEN_LINES = 2, 1

# Vectors that are compared at once: 100,000 of 384 numbers are 150 MB, and 1,000 queries with them 400 MB.
_CHUNK = 65_536
_QUERIES_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class Hit:
    """A text that was found: its number, counted from 0, the text, and its cosine similarity to the query."""

    number: int
    text: str
    score: float


class VectorIndex:
    """Texts, their embeddings and what they were made with.

    Args:
        vectors: float32 (N, H), each of length 1.
        texts: N strings.
        fingerprint: of the model, see `model_fingerprint`.
        options: the arguments of `sentence_embeddings` beside model and texts: `pooling`, `max_seq_length`.
        graph: of the vectors, see `neighbour_graph.build_graph`. Without it, every search is exact.
        added: SHA-256 of each group of texts that was added at once, in order, see `has_added`.

    Example:
        encoder = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
        index = VectorIndex.build(encoder, ["A cat sits on the mat.", "Stocks fell on Monday."])
        index.search(encoder, ["a kitten"], top_k=1)[0][0].text
        # 'A cat sits on the mat.'
        index.save("my_index")
    """

    def __init__(
        self,
        vectors: np.ndarray,
        texts: Sequence[str],
        fingerprint: str,
        options: dict,
        graph: np.ndarray | None = None,
        added: Sequence[str] = (),
    ):
        if len(vectors) != len(texts):
            raise InputError(f"Expected a text for each vector. Received: {len(vectors)} vectors, {len(texts)} texts")
        self.vectors, self.texts, self.fingerprint, self.options = vectors, list(texts), fingerprint, dict(options)
        self.graph, self.added = graph, tuple(added)
        self._graph_search: GraphSearch | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def build(
        cls,
        model: Any,
        texts: Any,
        *,
        pooling: str | None = None,
        max_seq_length: int | None = None,
        batch_size: int = 32,
        exact: bool = False,
    ) -> "VectorIndex":
        """Computes the embeddings of texts; the arguments are those of `sentence_embeddings`.

        If the model has a prompt for documents, it is put before each text. An index of 50,000 texts or more gets a
        graph for approximate search, unless it is `exact`.

        Raises:
            InputError: there are no texts, or one is empty; FAISS is missing where a graph is built; and as
                `sentence_embeddings`.
        """
        texts = _checked_texts(texts, "text")
        gets_graph = _gets_graph(len(texts), exact)
        options = {"pooling": pooling, "max_seq_length": max_seq_length}
        vectors = _document_vectors(model, texts, batch_size, options)
        graph = _build_graph(vectors) if gets_graph else None
        return cls(vectors, texts, model_fingerprint(model), options, graph, [_hash_of(texts)])

    def append(self, model: Any, texts: Any, *, batch_size: int = 32, exact: bool = False) -> None:
        """Adds texts behind those of the index; save it afterwards with `replace=True`, or to a new folder.

        A graph grows with the texts. One is built where the index reaches 50,000 texts. With `exact`, none is kept.
        After an error, the index is as it was.

        Raises:
            InputError: the model is another than that of the index; and as `build`.
        """
        texts = _checked_texts(texts, "text")
        self.check_model(model)
        gets_graph = _gets_graph(len(self) + len(texts), exact)
        added = _document_vectors(model, texts, batch_size, self.options)
        self._check_dimension(added)
        vectors = np.concatenate([self.vectors, added])
        graph = _build_graph(vectors, self.graph, len(self)) if gets_graph else None
        self.vectors, self.texts, self.graph, self._graph_search = vectors, [*self.texts, *texts], graph, None
        self.added = (*self.added, _hash_of(texts))

    def has_added(self, texts: Any) -> bool:
        """Returns whether exactly these texts, in this order, were added at once before, by `build` or `append`.

        A command that was killed after it saved the index asks this when it runs again. Indexes of versions that did
        not record it answer False.
        """
        return _hash_of(_checked_texts(texts, "text")) in self.added

    def search(
        self, model: Any, queries: Any, top_k: int = 5, *, batch_size: int = 32, exact: bool = False
    ) -> list[list[Hit]]:
        """Returns the most similar texts of each query, the best first; the earlier of equally similar texts first.

        Approximate where the index has a graph, unless `exact`; see `nearest`.

        Raises:
            InputError: the model is another than that of the index, or a query is empty; and as `nearest`.
        """
        queries = _checked_texts(queries, "query")
        self.check_model(model)
        numbers, scores = self.nearest(
            search_vectors(model, queries, "query", batch_size=batch_size, **self.options), top_k, exact=exact
        )
        return [
            [Hit(number, self.texts[number], score) for number, score in zip(*found, strict=True)]
            for found in zip(numbers.tolist(), scores.tolist(), strict=True)
        ]

    def nearest(self, vectors: np.ndarray, top_k: int = 5, *, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers and products of the nearest texts of each vector, int64 and float32 (Q, top_k).

        Exact, by comparing all vectors part by part, if `exact`, without a graph, or for more than 100 texts. By a
        graph, about 1 in 200 of the nearest ten is missed; the products are exact. There are fewer columns where the
        index has fewer texts.

        Raises:
            InputError: the vectors have another dimension, or FAISS is missing where a graph is searched.
        """
        if top_k < 1:
            raise InputError(f"top_k must be 1 or more. Received: {top_k}")
        vectors = np.asarray(vectors, np.float32)
        self._check_dimension(vectors)
        top_k = min(top_k, len(self))
        by_graph = self.graph is not None and not exact and top_k <= _MOST_BY_GRAPH
        nearest = self._nearest_by_graph if by_graph else self._nearest
        parts = [
            nearest(vectors[first : first + _QUERIES_AT_ONCE], top_k)
            for first in range(0, len(vectors), _QUERIES_AT_ONCE)
        ]
        if not parts:
            return np.zeros((0, top_k), np.int64), np.zeros((0, top_k), np.float32)
        numbers, scores = zip(*parts, strict=True)
        return np.concatenate(numbers), np.concatenate(scores)

    def _check_dimension(self, vectors: np.ndarray) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self.vectors.shape[1]:
            raise InputError(
                f"Expected vectors [number, {self.vectors.shape[1]}]. Received the shape {list(vectors.shape)}"
            )

    def _nearest_by_graph(self, vectors: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
        if self._graph_search is None and self.graph is not None:
            self._graph_search = GraphSearch(self.vectors, self.graph)
        assert self._graph_search is not None
        # More than are asked for, because the graph's products are of half precision.
        candidates = self._graph_search.nearest(vectors, min(2 * top_k + 10, len(self)))
        numbers = np.sort(candidates, axis=1)  # so the earlier of equal texts comes first
        scores = np.einsum("qh,qkh->qk", vectors, self.vectors[numbers])
        _check_products(scores)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
        cut_off = np.flatnonzero((numbers < 0).any(axis=1))
        numbers, scores = (np.take_along_axis(array, best, axis=1) for array in (numbers, scores))
        if len(cut_off):  # parts of the graph may be out of reach
            numbers[cut_off], scores[cut_off] = self._nearest(vectors[cut_off], top_k)
        return numbers, scores

    def _nearest(self, vectors: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.zeros((len(vectors), 0), np.int64)
        scores = np.zeros((len(vectors), 0), np.float32)
        for first in range(0, len(self), _CHUNK):
            products = vectors @ np.asarray(self.vectors[first : first + _CHUNK]).T
            _check_products(products)
            indices = np.stack([_largest(row, top_k) for row in products])
            numbers = np.concatenate([numbers, indices + first], axis=1)
            scores = np.concatenate([scores, np.take_along_axis(products, indices, axis=1)], axis=1)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
            numbers, scores = (np.take_along_axis(array, best, axis=1) for array in (numbers, scores))
        return numbers, scores

    def check_model(self, model: Any) -> None:
        """Raises `InputError` when a model is not the one that made the index."""
        if model_fingerprint(model) != self.fingerprint:
            raise InputError(
                "The index was made with another model (other weights, vocabulary or casing), so its vectors cannot be "
                "compared with this model's. Build it again, or load the model that it was made with."
            )

    def save(self, path: str | os.PathLike, *, replace: bool = False) -> None:
        """Writes a folder: `vectors.npy`, float32 [N, H]; `texts.jsonl`; `index.json`; `graph.npy` if there is one.

        Args:
            path: a new or empty folder.
            replace: `path` may also be the folder of an index. The new one takes its place when it is complete.

        Raises:
            InputError: the folder has other files, or cannot be written.
        """
        is_replaced = replace and os.path.isdir(path) and bool(os.listdir(path))
        if is_replaced:
            check_replaceable_index(path)
        with replacement_folder(path) if is_replaced else atomic_folder(path) as folder:
            np.save(os.path.join(folder, VECTORS_FILE), self.vectors)
            if self.graph is not None:
                np.save(os.path.join(folder, GRAPH_FILE), self.graph)
            with open(os.path.join(folder, TEXTS_FILE), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in self.texts)
            facts = {"texts": len(self), "model_sha256": self.fingerprint, **self.options, "added": self.added}
            with open(os.path.join(folder, FACTS_FILE), "w", encoding="utf-8") as file:
                file.write(json.dumps(facts, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "VectorIndex":
        """Reads a folder that `save` wrote; the vectors stay on disk until they are used.

        Raises:
            InputError: it is no index, it is damaged, or a file is a link out of the folder.
        """
        path = os.fspath(path)
        files = [os.path.join(path, name) for name in (FACTS_FILE, TEXTS_FILE, VECTORS_FILE)]
        missing = [os.path.basename(file) for file in files if not os.path.isfile(file)]
        if missing:
            what = f"it has no {', '.join(missing)}" if os.path.isdir(path) else "there is no such folder"
            raise InputError(f"{path} is not an index: {what}. Build one with VectorIndex.build or search_sentences.")
        check_links(path)
        try:
            facts = read_json_object(files[0])
            with open(files[1], encoding="utf-8") as file:
                texts = [checked(parse_json(line, "a line"), str, "each line", TEXTS_FILE) for line in file]
            vectors = np.lib.format.open_memmap(files[2], mode="r")
            fingerprint = checked(facts["model_sha256"], str, "model_sha256", FACTS_FILE)
            pooling = member(facts, "pooling", str, FACTS_FILE)
            options = {
                "pooling": _EARLIER_POOLINGS.get(pooling, pooling),
                "max_seq_length": member(facts, "max_seq_length", int, FACTS_FILE),
            }
            is_table = vectors.ndim == 2 and vectors.dtype == np.float32
            if not is_table or not len(vectors) == len(texts) == facts["texts"]:
                raise ValueError(f"{len(texts)} texts and vectors {vectors.shape} for {facts['texts']} texts")
            added = checked(facts.get("added", []), list, "added", FACTS_FILE)
            graph = _load_graph(os.path.join(path, GRAPH_FILE), len(vectors))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(f"The index {path} is damaged: {error}. Build it again.") from None
        return cls(vectors, texts, fingerprint, options, graph, added)


def check_replaceable_index(path: str | os.PathLike) -> None:
    """Checks that `VectorIndex.save` can replace a folder. Raises `InputError`: it has other files than an index."""
    others = sorted(set(os.listdir(path)) - {VECTORS_FILE, TEXTS_FILE, FACTS_FILE, GRAPH_FILE})
    if others:
        raise InputError(f"{os.fspath(path)} has other files than an index: {others[0]}. Save to a new folder.")
    check_replaceable_folder(path)


def _load_graph(path: str, num_vectors: int) -> np.ndarray | None:
    if not os.path.lexists(path):
        return None
    try:
        if not os.path.isfile(path):
            raise ValueError("it is not a file")
        return check_graph(np.lib.format.open_memmap(path, mode="r"), num_vectors)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{GRAPH_FILE} is no graph of its vectors ({error}); without it, search is exact") from None


def _gets_graph(num_texts: int, exact: bool) -> bool:
    """Returns whether an index has a graph, and checks that FAISS is there before the embeddings are computed."""
    gets_graph = num_texts >= GRAPH_FROM and not exact
    if gets_graph:
        import_faiss()
    return gets_graph


def _build_graph(vectors: np.ndarray, graph: np.ndarray | None = None, num_vectors: int = 0) -> np.ndarray:
    return build_graph(
        vectors, graph, num_vectors if graph is not None else 0, seconds_without_progress=_SECONDS_WITHOUT_PROGRESS
    )


def _document_vectors(model, texts, batch_size: int, options: dict) -> np.ndarray:
    # Shown where it takes longer than a moment.
    with tqdm(
        total=len(texts), unit=" texts", mininterval=_SECONDS_BETWEEN_LINES, delay=_SECONDS_WITHOUT_PROGRESS
    ) as bar:
        return search_vectors(model, texts, "document", batch_size=batch_size, on_progress=bar.update, **options)


def _check_products(products: np.ndarray) -> None:
    if not np.isfinite(products).all():
        raise InputError("The index, or a query, has vectors that are not finite. Build it again.")


def _largest(row: np.ndarray, count: int) -> np.ndarray:
    """Returns the indices of the largest numbers, in order; equal ones as they come: [3, 9, 9], 2 -> [1, 2]."""
    candidates = np.arange(len(row))
    if len(row) > count:
        candidates = np.flatnonzero(row >= np.partition(row, -count)[-count])
    return candidates[np.argsort(-row[candidates], kind="stable")[:count]]


def model_fingerprint(model) -> str:
    """Returns a SHA-256 of what sentence embeddings depend on: the encoder without its pooler, tokens and casing."""
    encoder = getattr(model, "encoder", model)
    knows_pooling = hasattr(model, "embedding_size")
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    config = model.config
    facts = [config.num_attention_heads, config.hidden_act, config.layer_norm_eps, config.do_lower_case]
    if knows_pooling:
        facts += [list(model.pooling), model.sentence_head.get_config()["dense"], model.prompts, model.default_prompt]
    lora = settings_of(model if knows_pooling else encoder).get("lora")  # layer -> rank and scale
    facts += [lora] if lora else []
    digest = hashlib.sha256(json.dumps([*facts, model.vocabulary.sha256]).encode())
    pooler = {id(weight) for weight in encoder.pooler.weights} if hasattr(encoder, "pooler") else ()
    for weight in model.weights if knows_pooling else encoder.weights:
        if id(weight) not in pooler:
            array = np.ascontiguousarray(np.asarray(weight, np.float32))
            digest.update(repr(array.shape).encode())
            digest.update(array.data)
    return digest.hexdigest()


def _hash_of(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _checked_texts(texts, what: str) -> list[str]:
    texts = as_texts(texts, what)
    if not texts:
        raise InputError(f"Expected at least one {what}. Received: none")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"{what.capitalize()} {number} is empty. Received: {text!r}")
    return texts
