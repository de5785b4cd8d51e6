"""Texts -> a vector for each token -> MaxSim -> ranked texts. Imports no Keras, since loaded exports do the same."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice, check_whole
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.embedding.encoding import check_encode_options
from keras_bert.tasks.multi_vector.max_sim import max_sim
from keras_bert.tasks.prediction import forward_function, outputs_of_rows, run_batches, text_progress
from keras_bert.tasks.prompts import Prompts
from keras_bert.tasks.ranking.answers import RankedText, ranked_texts
from keras_bert.tasks.settings import is_row_length
from keras_bert.tasks.text_rows import checked_length, each_text, in_parts, text_rows, tokenizer_of

QUERY, DOCUMENT = "query", "document"
SIMILARITIES = ("maxsim", "meanmaxsim")
FIXED, AT_LEAST = "fixed", "min"
_WINDOW = 4096  # texts that are sorted by length together
_EXPANSION = {"strategy": FIXED, "attend": False, "token": None, "length": None}


class LateInteraction:
    """Queries and documents as vectors of tokens, and their scores: of a `MultiVectorEncoder`, and of its exports.

    The attributes are arguments of `MultiVectorEncoder`, and the length of an export.
    """

    config: Any
    vocabulary: Any
    max_seq_length: int | None = None
    query_length: int | None
    document_length: int | None
    query_expansion: Mapping[str, Any] | None
    skiplist_words: Sequence[str]
    skiplist_tasks: Sequence[str]
    similarity_fn_name: str
    prompt, prompt_for, check_prompts = Prompts.prompt, Prompts.prompt_for, Prompts.check_prompts

    def encode_query(
        self, texts: Any, *, batch_size: int = 32, on_progress: Callable[[int], None] | None = None, **unknown: Any
    ) -> list[np.ndarray]:
        """Returns the vectors of queries: for each a float32 array `[tokens, D]`, with those of its expansion.

        Args:
            texts: strings; a single one is a list of one. The prompt "query" is put before each.
            batch_size: texts computed at once.
            on_progress: called after each batch with the number of texts in it; None shows a bar after ten seconds.
            **unknown: refused.

        Raises:
            InputError: a text is not a string, the model has no vocabulary, or an option is unknown.
        """
        check_encode_options(self.encode_query, unknown)
        return self._encode(texts, QUERY, batch_size, on_progress)

    def encode_document(
        self, texts: Any, *, batch_size: int = 32, on_progress: Callable[[int], None] | None = None, **unknown: Any
    ) -> list[np.ndarray]:
        """Returns the vectors of documents: for each a float32 array `[tokens, D]`, without words of the skip list.

        The arguments and errors are those of `encode_query`; the prompt is that of "document".
        """
        check_encode_options(self.encode_document, unknown)
        return self._encode(texts, DOCUMENT, batch_size, on_progress)

    def similarity(self, queries: Sequence[np.ndarray], documents: Sequence[np.ndarray]) -> np.ndarray:
        """Returns the MaxSim of all queries and documents, float32 `[queries, documents]`; see `max_sim`.

        Args:
            queries: what `encode_query` returns.
            documents: what `encode_document` returns.

        Raises:
            InputError: these are not lists of arrays `[tokens, D]`.
        """
        return max_sim(queries, documents, is_mean=self.similarity_fn_name == "meanmaxsim")

    def rank(self, query: str, texts: Any, top_k: int | None = None, batch_size: int = 32) -> list[RankedText]:
        """Returns a `RankedText` for each of the texts with the highest scores for a query, the best first.

        Args:
            query: a string.
            texts: strings.
            top_k: the number of texts to return; None for all.
            batch_size: texts computed at once.

        Raises:
            InputError: the query or a text is not a string, or `top_k` is below 1.
        """
        check_whole("top_k", top_k, at_least=1, or_none=True)
        if not isinstance(query, str):
            raise InputError(f"The query must be a string. Received: {query!r:.100}")
        texts = list(each_text(texts))
        documents = self.encode_document(texts, batch_size=batch_size)
        return ranked_texts(self.similarity(self.encode_query(query), documents)[0], texts, top_k)

    def _encode(self, texts, role, batch_size, on_progress):
        self.warn_if_untrained()
        forward, found, texts = forward_function(self), [], list(each_text(texts))
        with text_progress(texts, on_progress) as progress:
            for window in in_parts(texts, _WINDOW):
                rows, _ = rows_of(self, window, role)
                batches = run_batches(forward, rows, batch_size, on_progress=progress)
                found += scored_vectors(rows, outputs_of_rows(batches, rows, has_token_outputs=True))
        return found

    def longest(self, role: str, max_seq_length: int | None = None) -> int:
        """Returns the largest number of tokens of texts in a role, `QUERY` or `DOCUMENT`.

        `max_seq_length` is used instead of the model's own length, if the query expansion does not set it. Raises
        `InputError` if the model has fewer positions.
        """
        own = self.query_length if role == QUERY else self.document_length
        length = checked_length(self.config, max_seq_length or own)
        length = min(length, self.max_seq_length or length)
        if role == QUERY and self.query_expansion:
            floor = checked_length(self.config, self.query_expansion["length"])
            return floor if self.query_expansion["strategy"] == FIXED else max(length, floor)
        return length

    def expansion_id(self) -> int:
        """Returns the id of the token that fills up queries. Raises `InputError` if it is not in the vocabulary."""
        token = self.query_expansion["token"]
        if token is not None and token not in self.vocabulary.ids:
            raise InputError(f"query_expansion: the token {token!r:.100} is not in the vocabulary. Leave it out.")
        return self.vocabulary.mask_id if token is None else self.vocabulary.ids[token]

    def skipped_ids(self, role: str) -> list[int]:
        """Returns the ids of the tokens that texts in a role leave out. Words that are not one token do not count."""
        if role not in self.skiplist_tasks:
            return []
        return sorted(self.vocabulary.ids[word] for word in set(self.skiplist_words) if word in self.vocabulary.ids)

    def check_settings(self) -> None:
        """Raises `InputError` if a length is out of range, or a setting is unknown or contradicts another."""
        self.check_prompts()
        for name in ("query_length", "document_length"):
            setattr(self, name, check_whole(name, getattr(self, name), at_least=3, at_most=2**31 - 1, or_none=True))
        if not all(isinstance(word, str) for word in self.skiplist_words) or isinstance(self.skiplist_words, str):
            wrong = next((word for word in self.skiplist_words if not isinstance(word, str)), self.skiplist_words)
            raise InputError(f"skiplist_words must be a list of strings. Received: {wrong!r:.100}")
        for role in self.skiplist_tasks:
            check_choice("skiplist_tasks", role, (QUERY, DOCUMENT))
        check_choice("similarity_fn_name", self.similarity_fn_name, SIMILARITIES)
        expansion = self.query_expansion
        if expansion is not None and self.query_length is not None and self.query_length < expansion["length"]:
            raise InputError(
                f"query_length must be at least {expansion['length']}, the length of query_expansion. Received: "
                f"{self.query_length}. Leave it out."
            )


def checked_expansion(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns a query expansion with all its settings; None for none. Raises `InputError` if one is not valid."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or set(value) - set(_EXPANSION):
        raise InputError(f"query_expansion has the settings {', '.join(_EXPANSION)}. Received: {value!r:.200}")
    found = {**_EXPANSION, **value}
    is_valid = {
        "strategy": found["strategy"] in (FIXED, AT_LEAST),
        "attend": isinstance(found["attend"], bool),
        "token": found["token"] is None or isinstance(found["token"], str),
        "length": is_row_length(found["length"]),
    }
    for name, is_right in is_valid.items():
        if not is_right:
            raise InputError(
                f"query_expansion needs strategy ({FIXED} or {AT_LEAST}), attend (true or false), token (a string or "
                f"None) and length (a whole number from 3). Received: {name}={found[name]!r:.100}"
            )
    return found


def rows_of(model, texts: Sequence[str], role: str, max_seq_length: int | None = None) -> tuple[TokenRows, np.ndarray]:
    """Returns the rows of N texts in a role, `QUERY` or `DOCUMENT`, and which were cut, bool `(N,)`.

    The rows have the columns `input_mask`, 0 for tokens to which none attends, and `score_mask`, 1 for tokens with a
    vector. `model` is a `LateInteraction`; see `LateInteraction.longest` for the length.
    """
    prefix = model.prompt(model.prompt_for(role))
    length = model.longest(role, max_seq_length)
    rows, is_cut, _ = text_rows((prefix + text for text in texts), None, tokenizer_of(model), length)
    ids = rows.tokens[features.INPUT_IDS]
    is_scored = 1 - np.isin(ids, model.skipped_ids(role)).astype(np.int32)
    masks = {features.INPUT_MASK: np.ones_like(ids), features.SCORE_MASK: is_scored}
    rows = dataclasses.replace(rows, tokens={**rows.tokens, **masks})
    return (_expanded(rows, model) if role == QUERY and model.query_expansion else rows), is_cut


def _expanded(rows: TokenRows, model) -> TokenRows:
    """Fills rows up to the length of the query expansion: [CLS] a [SEP] -> [CLS] a [SEP] [MASK] [MASK]."""
    expansion = model.query_expansion
    missing = np.maximum(expansion["length"] - np.diff(rows.splits), 0)
    places = np.repeat(rows.splits[1:], missing)
    values = {features.INPUT_IDS: model.expansion_id(), features.INPUT_MASK: expansion["attend"]}
    values |= {features.SEGMENT_IDS: 0, features.SCORE_MASK: 1}
    tokens = {name: np.insert(column, places, int(values[name])) for name, column in rows.tokens.items()}
    return dataclasses.replace(rows, tokens=tokens, splits=rows.splits + np.cumsum([0, *missing]))


def scored_vectors(rows: TokenRows, outputs: np.ndarray) -> list[np.ndarray]:
    """Returns for each row the vectors of its scored tokens; `outputs` are those of all tokens, float32 `(T, D)`."""
    is_scored = rows.tokens[features.SCORE_MASK] > 0
    ends = np.append(0, np.cumsum(is_scored))[rows.splits]
    return np.split(outputs[is_scored], ends[1:-1])


class LoadedMultiVectorEncoder(LateInteraction):
    """Methods of loaded exports of a `MultiVectorEncoder`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.query_expansion = checked_expansion(self.query_expansion)
        self.check_settings()


def vectors_of_texts(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> list[np.ndarray] | None:
    """Returns the vectors of each text, float32 `[tokens, D]`; None for the outputs of another task."""
    if arrays.keys() != {"vectors", "mask"}:
        return None
    rows = zip(np.asarray(arrays["vectors"], np.float32), np.asarray(arrays["mask"]), strict=True)
    return [vectors[mask > 0] for vectors, mask in rows]
