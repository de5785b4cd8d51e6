"""Extractive summaries: the most important sentences of a text."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice, check_number, check_whole
from keras_bert.program.user_inputs import as_texts, checked_text

METHODS = ("centrality", "centroid")

# The probability that the random walk of LexRank goes to a similar sentence instead of any, and its number of steps.
_DAMPING = 0.85
_ROUNDS = 200


@dataclasses.dataclass(frozen=True)
class ScoredSentence:
    """A sentence of a text: `text[start:end]`, its number from 0, and its score. The scores of a text add up to 1."""

    text: str
    start: int
    end: int
    number: int
    score: float


@dataclasses.dataclass(frozen=True)
class Summary:
    """The chosen sentences, in the order of the text, and all sentences with their scores."""

    chosen: tuple[ScoredSentence, ...]
    sentences: tuple[ScoredSentence, ...]

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.chosen)

    def __str__(self) -> str:
        return self.text


def summarize(
    model: Any,
    text: str,
    num_sentences: int = 3,
    *,
    method: str = "centrality",
    diversity: float = 0.3,
    sentences: Sequence[str] | None = None,
    language: str = "en",
    max_seq_length: int | None = None,
    batch_size: int = 16,
) -> Summary:
    """Selects the most important sentences of a text.

    Args:
        model: a `SentenceEncoder`, which is best, or a `BertEncoder` or a model that has one; with a vocabulary.
        text: the text.
        num_sentences: the number of sentences to select; a shorter text is returned whole.
        method: the score of a sentence. `centrality`: as in LexRank, the share of time that a random walk between
            similar sentences spends at it. `centroid`: its similarity to the mean of all sentences.
        diversity: 0 to 1, the penalty for similarity to sentences that are already selected.
        sentences: the sentences of the text, in order; each must occur in it. By default sentencex finds them.
        language: ISO 639 code for sentencex.
        max_seq_length: longer sentences are cut to this many tokens. The default is that of `sentence_embeddings`.
        batch_size: sentences computed at once.

    Raises:
        InputError: the text is empty, an argument is out of range, a sentence is not in the text, or the model has no
            vocabulary or was trained for another pooling than the mean.

    References: Erkan & Radev, 2004, LexRank (the continuous kind, section 3.3); Carbonell & Goldstein, 1998 (maximal
    marginal relevance); Radev et al., 2004 (centroids).
    """
    check_choice("method", method, METHODS)
    check_whole("num_sentences", num_sentences, at_least=1)
    check_number("diversity", diversity, at_least=0, at_most=1)
    if not isinstance(text, str):
        raise InputError(f"text must be one string. Received: {text!r:.100}. Summarise several texts one by one.")
    checked_text(text, "the text")
    spans = _spans(text, _split(text, language) if sentences is None else as_texts(sentences, "sentence"))
    if not spans:
        raise InputError("The text has no sentence, so there is nothing to summarise.")
    texts = [text[start:end] for start, end in spans]
    options: dict[str, Any] = {"max_seq_length": max_seq_length, "batch_size": batch_size}
    vectors = sentence_embeddings(model, texts, normalize=True, prompt="", **options)
    similarities = np.clip(vectors @ vectors.T, 0.0, 1.0)
    scores = _centrality(similarities) if method == "centrality" else _centroid_similarity(vectors)
    scored = tuple(
        ScoredSentence(text[start:end], start, end, number, float(score))
        for number, ((start, end), score) in enumerate(zip(spans, scores, strict=True))
    )
    chosen = _choose(scores, similarities, num_sentences, diversity)
    return Summary(tuple(scored[number] for number in sorted(chosen)), scored)


def _centrality(similarities: np.ndarray) -> np.ndarray:
    """Returns the share of time that a random walk over similar sentences spends at each sentence (LexRank)."""
    count = len(similarities)
    if count == 1:
        return np.ones(1)
    weights = similarities.astype(np.float64)
    np.fill_diagonal(weights, 0.0)
    # What all sentences have in common tells nothing of which to choose.
    weights = np.maximum(weights - weights.sum() / (count * (count - 1)), 0.0)
    totals = weights.sum(axis=1, keepdims=True)
    steps = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 1.0 / count)
    shares = np.full(count, 1.0 / count)
    for _ in range(_ROUNDS):
        shares = (1 - _DAMPING) / count + _DAMPING * shares @ steps
    return shares / shares.sum()


def _centroid_similarity(vectors: np.ndarray) -> np.ndarray:
    centroid = vectors.mean(axis=0)
    scores = np.clip(vectors @ (centroid / max(float(np.linalg.norm(centroid)), 1e-12)), 1e-6, None)
    return scores / scores.sum()


def _choose(scores: np.ndarray, similarities: np.ndarray, count: int, diversity: float) -> list[int]:
    chosen: list[int] = []
    relevance = scores / scores.max()
    while len(chosen) < min(count, len(scores)):
        likeness = similarities[:, chosen].max(axis=1) if chosen else np.zeros(len(scores))
        worth = (1 - diversity) * relevance - diversity * likeness
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return chosen


def _split(text: str, language: str) -> list[str]:
    import sentencex  # only now, since few need it

    parts = [part for line in text.splitlines() if line.strip() for part in sentencex.segment(language, line)]
    return [part for part in parts if part.strip()]


def _spans(text: str, sentences: Sequence[str]) -> list[tuple[int, int]]:
    """Returns start and end of each sentence, white space around it left out."""
    spans, position = [], 0
    for number, sentence in enumerate(sentences, start=1):
        sentence = sentence.strip()
        start = text.find(sentence, position)
        if not sentence or start < 0:
            raise InputError(f"Sentence {number} is empty, or is not in the text behind the one before: {sentence!r}")
        position = start + len(sentence)
        spans.append((start, position))
    return spans
