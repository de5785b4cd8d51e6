"""Texts -> sparse vectors, their tokens and similarities. Needs neither Keras nor TensorFlow: loaded exports use it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.program.options import check_choice, check_whole
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.embedding.encoding import check_encode_options
from keras_bert.tasks.embedding.loss_table import Loss
from keras_bert.tasks.prediction import Calls, forward_function, run_batches, text_progress
from keras_bert.tasks.prompts import Prompts
from keras_bert.tasks.text_rows import checked_length, each_text, in_parts, text_rows, tokenizer_of

ROLES = QUERY, DOCUMENT = "query", "document"
_WINDOW = 4096  # texts that are sorted by length together


class SparseEncoding:
    """The methods of a `SparseEncoder`, and of its loaded exports, on texts and vectors.

    Vectors are rows of a `scipy.sparse.csr_array` `[texts, V]`, float32, with a column for each token.
    """

    config: Any
    vocabulary: Any
    max_seq_length: int | None
    static_queries: bool
    max_query_length: int | None
    max_active_dims: int | None
    default_route: str
    prompt, prompt_for, check_prompts = Prompts.prompt, Prompts.prompt_for, Prompts.check_prompts

    def encode(
        self,
        texts: Any,
        *,
        task: str | None = None,
        prompt: str | None = None,
        max_active_dims: int | None = None,
        batch_size: int = 32,
        max_seq_length: int | None = None,
        on_progress: Callable[[int], None] | None = None,
        **unknown: Any,
    ) -> Any:
        """Returns the vectors of texts: a `scipy.sparse.csr_array` `[texts, V]`, float32.

        Args:
            texts: strings; a single one is a list of one.
            task: what the texts are, "query" or "document"; None for the `default_route`, with the default prompt.
            prompt: the name of the prompt that is put before each text; "" for none, None for that of the task.
            max_active_dims: only so many of the largest weights of each text are kept; None for the model's number.
            batch_size: texts computed at once.
            max_seq_length: longer texts are cut to this many tokens; None for the length of the model.
            on_progress: called after each batch with the number of texts in it; None shows a bar after ten seconds.
            **unknown: refused.

        Raises:
            InputError: the model has no vocabulary or no such prompt, the task or an option is unknown, or a number is
                out of range.
        """
        check_encode_options(self.encode, unknown)
        role = self.default_route if task is None else task
        check_choice("task", role, ROLES)
        if prompt is None and task is not None:
            prompt = self.prompt_for(task)
        prefix, tokenizer = self.prompt(prompt), tokenizer_of(self)
        length = checked_length(self.config, self.max_seq_length if max_seq_length is None else max_seq_length)
        is_static = role == QUERY and self.static_queries
        if is_static and max_seq_length is None:
            length = (self.max_query_length or length) + self.vocabulary.special_tokens.num_special(1)
        prefixed = (prefix + text for text in each_text(texts))
        count = self.max_active_dims if max_active_dims is None else max_active_dims
        found = []
        with text_progress(texts, on_progress) as progress:
            for window in in_parts(prefixed, _WINDOW):
                rows = text_rows(window, None, tokenizer, length).rows
                found.append(vectors_of_rows(self, rows, is_static, count, batch_size, on_progress=progress))
        return _stacked(found, self.config.vocab_size)

    def encode_query(self, texts: Any, *, prompt: str | None = None, **options: Any) -> Any:
        """As `encode`, for queries: the default prompt is "query", if there is one. Options are those of `encode`."""
        return self.encode(texts, task=QUERY, prompt=prompt, **options)

    def encode_document(self, texts: Any, *, prompt: str | None = None, **options: Any) -> Any:
        """As `encode`, for documents: the default prompt is the first of "document", "passage" and "corpus"."""
        return self.encode(texts, task=DOCUMENT, prompt=prompt, **options)

    def static_weights(self) -> np.ndarray:
        """Returns the weights of the tokens of static queries, float32 `[V]`."""
        raise NotImplementedError

    def decode(self, vectors: Any, top_k: int | None = None) -> list:
        """Returns pairs of a token and its weight, those with the largest weights first.

        Args:
            vectors: one vector `[V]`, such as `encode(texts)[0]`, or several `[N, V]`.
            top_k: the largest number of pairs of a vector; None for all weights above 0.

        Returns:
            a list of pairs for one vector, a list of such lists for several.

        Raises:
            InputError: the vectors have another size, or `top_k` is not from 1 to V.
        """
        size = self.config.vocab_size
        check_whole("top_k", top_k, at_least=1, at_most=size, or_none=True)
        rows = self._as_rows(vectors)
        if self.vocabulary is None:
            raise InputError("The model has no vocabulary, so it cannot name tokens. Set model.vocabulary.")
        tokens, found = self.vocabulary.tokens, []
        for first, last in itertools.pairwise(rows.indptr):
            ids, weights = rows.indices[first:last], rows.data[first:last]
            best = np.argsort(-weights, kind="stable")[:top_k]
            found.append([(tokens[ids[number]], float(weights[number])) for number in best if weights[number]])
        return found[0] if len(vectors.shape) == 1 else found

    def similarity(self, vectors: Any, others: Any) -> np.ndarray:
        """Returns the products of vectors `[N, V]` with others `[M, V]`: float32 `[N, M]`. `[V]` is one vector."""
        return (self._as_rows(vectors) @ self._as_rows(others).T).toarray()

    def _as_rows(self, vectors: Any) -> Any:
        from scipy.sparse import csr_array

        shape = getattr(vectors, "shape", ())
        if len(shape) not in (1, 2) or shape[-1] != self.config.vocab_size:
            raise InputError(
                f"The vectors must be an array [texts, {self.config.vocab_size}]. Received the shape {tuple(shape)}"
            )
        return csr_array(vectors.reshape(1, -1) if len(shape) == 1 else vectors)


def vectors_of_rows(
    model: Any,
    rows: TokenRows,
    is_static: bool,
    max_active_dims: int | None,
    batch_size: int = 32,
    calls: Calls | None = None,
    on_progress: Callable[[int], Any] = lambda num_texts: None,
) -> Any:
    """Returns the vectors of N rows of single texts, a CSR array `[N, V]`. Few rows are dense at once.

    `is_static`: whether the texts are queries of a model with static ones. `max_active_dims` weights are kept, all for
    None. The other arguments are those of `run_batches`.
    """
    from scipy.sparse import csr_array

    size = model.config.vocab_size
    if is_static:
        on_progress(len(rows))
        return strongest(_static_vectors(rows, model.static_weights()), max_active_dims)
    model.warn_if_untrained()
    found, order = [], []
    for numbers, outputs in run_batches(forward_function(model), rows, batch_size, calls, on_progress):
        dense = np.asarray(outputs, np.float32)
        check_numbers(dense, "row of a batch")
        found.append(strongest(csr_array(dense), max_active_dims))
        order.append(numbers)
    stacked = _stacked(found, size)
    return stacked[np.argsort(np.concatenate(order))] if order else stacked


def strongest(vectors: Any, count: int | None) -> Any:
    """Returns CSR vectors with the `count` largest weights of each row, None for all. Raises `InputError` below 1."""
    from scipy.sparse import csr_array

    if count is None:
        return vectors
    check_whole("max_active_dims", count, at_least=1)
    kept = [
        np.sort(first + np.argsort(-vectors.data[first:last], kind="stable")[:count])
        for first, last in itertools.pairwise(vectors.indptr)
    ]
    splits = np.concatenate([[0], np.cumsum([len(places) for places in kept])]).astype(vectors.indptr.dtype)
    places = np.concatenate([np.zeros(0, np.int64), *kept])
    return csr_array((vectors.data[places], vectors.indices[places], splits), shape=vectors.shape)


def _static_vectors(rows: TokenRows, weights: np.ndarray) -> Any:
    """Returns the weights of the tokens of each row, each once, without [CLS] and [SEP]."""
    from scipy.sparse import csr_array

    is_text = np.ones(rows.splits[-1], bool)
    is_text[rows.splits[:-1]] = is_text[rows.splits[1:] - 1] = False
    row = np.repeat(np.arange(len(rows)), np.diff(rows.splits))[is_text]
    ids = rows.tokens[features.INPUT_IDS][is_text]
    row, ids = np.unique(np.stack([row, ids]), axis=1)
    vectors = csr_array((weights[ids], (row, ids)), shape=(len(rows), len(weights)), dtype=np.float32)
    vectors.eliminate_zeros()
    return vectors


def _stacked(parts: list, size: int) -> Any:
    from scipy.sparse import csr_array, vstack

    return vstack(parts, format="csr") if parts else csr_array((0, size), dtype=np.float32)


def rows_of_columns(rows: TokenRows) -> Iterator[TokenRows]:
    """Yields the rows of the first text of each example, then those of the second, and so on."""
    count = rows.rows_per_example
    for column in range(count):
        yield rows.rows_at(np.arange(column, len(rows) * count, count))


def num_active(parts: Iterable[Any]) -> float:
    """Returns the mean number of weights above 0 of vectors in several CSR arrays."""
    parts = list(parts)
    return sum(part.nnz for part in parts) / max(1, sum(part.shape[0] for part in parts))


class LoadedSparseEncoder(SparseEncoding):
    """Methods of loaded exports of a `SparseEncoder`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.check_prompts()
        self._static_weights: np.ndarray | None = None

    def static_weights(self) -> np.ndarray:
        if self._static_weights is None:
            ids = np.arange(self.config.vocab_size, dtype=np.int32)
            self._static_weights = self.signatures["query_weights"](input_ids=ids)["weights"]
        return self._static_weights


# The losses by name, and what each needs. Commands read them for `--help`.
_LOSS = "keras_bert.tasks.sparse.losses.SpladeLoss"  # its `ranking` has the names below

SPARSE_LOSSES = {
    "in_batch_negatives": Loss(_LOSS, "queries, documents, perhaps others", "SparseMultipleNegativesRankingLoss"),
    "margin_mse": Loss(_LOSS, "queries, documents, others; a teacher or its scores or margins", "SparseMarginMSELoss"),
}
