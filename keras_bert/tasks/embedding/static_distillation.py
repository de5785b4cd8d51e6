"""Distils an encoder into a static one: a vector for each token, so that the vector of a text costs a lookup."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records.token_rows import join_segments
from keras_bert.tasks.prediction import forward_function, outputs_of_rows, run_batches
from keras_bert.tasks.text_rows import each_text, in_parts, token_lists, tokenizer_of
from keras_bert.tokenization.token_lists import TokenLists

_TOKENS_AT_ONCE, _TEXTS_AT_ONCE = 256, 4096
# Tokens above this share of all tokens get little weight. Arora et al. find 1e-3 to 1e-4 equally good.
_RARE_SHARE = 3e-4


def distil_static(
    model: Any,
    size: int = 256,
    texts: Iterable[str] | None = None,
    on_progress: Callable[[int], None] = lambda num_tokens: None,
) -> Any:
    """Returns a static `SentenceEncoder` with the vocabulary of another one.

    1. Each token of the vocabulary is computed by the encoder as a text of its own.
    2. A principal component analysis keeps `size` numbers of each vector.
    3. A vector is multiplied by a / (a + p), where p is the share of its token among all tokens and a = 0.0003. So the
       mean over the tokens of a text depends little on frequent ones, such as "the".

    Args:
        model: a `SentenceEncoder` with a vocabulary.
        size: the size of the new vectors.
        texts: texts like those that will be computed, from which the shares are counted. Without texts, the n-th token
            of the vocabulary is taken to be n times rarer than the first (Zipf's law). Texts give better vectors.
        on_progress: called after each batch with the number of tokens in it.

    Raises:
        InputError: the model is static or has no vocabulary, `size` is above the size of its vectors, or there are no
            texts.

    Example:
        static = distil_static(SentenceEncoder.from_pretrained("all-MiniLM-L6-v2"), texts=corpus)
        static.save_pretrained("static")

    Reference: Tulkens and van Dongen, 2024, model2vec, for steps 1 and 2; Arora et al., 2017, "A simple but
    tough-to-beat baseline for sentence embeddings", for step 3.
    """
    # Only now, because it takes seconds.
    from keras_bert.tasks.embedding.model import SentenceEncoder

    if not isinstance(model, SentenceEncoder) or model.is_static or model.vocabulary is None:
        raise InputError("Static vectors are distilled from a SentenceEncoder that has layers and a vocabulary.")
    check_whole("size", size, at_least=1, at_most=model.embedding_size)
    counts = 1 / np.arange(1, len(model.tokenizer) + 1)
    if texts is not None:
        counts = _token_counts(model, texts) + 1  # each token may occur
    vectors = principal_components(_token_vectors(model, on_progress), size)
    static = SentenceEncoder(BertConfig.static(len(model.tokenizer), size))
    static.encoder.embeddings.token_embeddings.assign(vectors * sif_weights(counts)[:, None])
    static.tokenizer = model.tokenizer
    return static


def principal_components(vectors: np.ndarray, size: int) -> np.ndarray:
    """Returns the first principal components of vectors: float `[N, D]` -> float64 `[N, size]`."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)  # in the order of growing variance
    return centred @ directions[:, ::-1][:, :size]


def sif_weights(counts: np.ndarray) -> np.ndarray:
    """Returns the weights of tokens that occur `counts` times, float `[V]`, above 0.

    >>> sif_weights(np.array([9997.0, 3.0])).round(4).tolist()
    [0.0003, 0.5]
    """
    return _RARE_SHARE / (_RARE_SHARE + counts / counts.sum())


def _token_counts(model, texts: Iterable[str]) -> np.ndarray:
    """Returns how often each token occurs in texts, int64 `[V]`."""
    tokenizer = tokenizer_of(model)
    counts = np.zeros(len(model.vocabulary), np.int64)
    for batch in in_parts(each_text(texts), _TEXTS_AT_ONCE):
        counts += np.bincount(token_lists(batch, tokenizer.tokenize).values, minlength=len(counts))
    if not counts.any():
        raise InputError("texts must have at least one token. Leave texts out to take the order of the vocabulary.")
    return counts


def _token_vectors(model, on_progress: Callable) -> np.ndarray:
    """Returns the vectors of texts that consist of one token each, float32 `[V, D]`."""
    tokens = TokenLists(np.arange(len(model.vocabulary)), np.ones(len(model.vocabulary), np.int64))
    rows, _ = join_segments([tokens], 3, model.vocabulary)
    return outputs_of_rows(run_batches(forward_function(model), rows, _TOKENS_AT_ONCE, on_progress=on_progress), rows)
