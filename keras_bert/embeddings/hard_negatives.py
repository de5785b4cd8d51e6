"""Finds hard negatives: texts that a model finds similar to an anchor although they are not its positive."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.embeddings.text_vectors import search_vectors
from keras_bert.embeddings.vector_search import largest, parts_of
from keras_bert.embeddings.word_index import checked_texts
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number, check_whole
from keras_bert.program.user_inputs import as_texts


class MinedNegatives(NamedTuple):
    """Examples with hard negatives.

    Attributes:
        columns: anchors, positives and one column for each negative, for `SentenceEncoder.fit(columns)`.
        num_left_out: the number of anchors that had too few negatives; they are not among the columns.
    """

    columns: tuple[list[str], ...]
    num_left_out: int


def mine_hard_negatives(
    model: Any,
    anchors: Any,
    positives: Any,
    *,
    corpus: Sequence[str] | None = None,
    num_negatives: int = 1,
    relative_margin: float = 0.05,
    batch_size: int = 32,
) -> MinedNegatives:
    """Returns the most similar texts of a corpus for each anchor that are likely not relevant to it.

    The positives of equal anchors, and texts equal to the anchor, are no negatives. Neither are texts whose cosine is
    above `p - relative_margin * |p|`, where p is that of the positive: many of these are relevant, but not marked as
    such.

    Args:
        model: a `SentenceEncoder`, or a `BertEncoder`, with a vocabulary.
        anchors: N texts.
        positives: N texts.
        corpus: further texts to search in, beside the positives; or None.
        num_negatives: the number of negatives for each anchor.
        relative_margin: 0 to 1.
        batch_size: texts computed at once.

    Returns:
        `MinedNegatives`.

    Raises:
        InputError: the columns are unequally long or empty, a number is out of range, or no anchor has enough
            negatives.

    Example:
        mined = mine_hard_negatives(encoder, questions, answers, num_negatives=2)
        encoder.fit(mined.columns)

    Reference: Moreira et al., 2024, arXiv 2407.15831 (NV-Retriever), "TopK-PercPos"; sentence-transformers
    `mine_hard_negatives`.
    """
    anchors, positives = as_texts(anchors, "anchor"), as_texts(positives, "positive")
    if len(anchors) != len(positives) or not anchors:
        raise InputError(
            f"Anchors and positives must be equally many, at least one. Received: {len(anchors)} and {len(positives)}"
        )
    check_whole("num_negatives", num_negatives, at_least=1)
    check_number("relative_margin", relative_margin, at_least=0, at_most=1)
    corpus = [] if corpus is None else as_texts(corpus, "text of the corpus")
    documents = checked_texts(list(dict.fromkeys([*positives, *corpus])), "text")
    examples = _positives_and_relevant(anchors, positives, documents)
    found = _negatives(model, anchors, documents, examples, num_negatives, relative_margin, batch_size)
    rows = [
        (anchor, positive, *(documents[number] for number in nearest))
        for anchor, positive, nearest in zip(anchors, positives, found, strict=True)
        if len(nearest) == num_negatives
    ]
    if not rows:
        raise InputError(
            f"No anchor has {num_negatives} texts below the margin. Give a larger corpus, fewer num_negatives or a "
            f"smaller relative_margin. Received: {len(documents)} different texts, {num_negatives}, {relative_margin}"
        )
    return MinedNegatives(tuple(map(list, zip(*rows, strict=True))), len(anchors) - len(rows))


def _positives_and_relevant(anchors: list[str], positives: list[str], documents: list[str]) -> list:
    """Returns the number of the positive of each anchor, and those of all documents that are no negatives of it."""
    numbers = {text: number for number, text in enumerate(documents)}
    relevant: dict[str, list[int]] = {}
    for anchor, positive in zip(anchors, positives, strict=True):
        equal = [numbers[anchor]] if anchor in numbers else []
        relevant.setdefault(anchor, equal).append(numbers[positive])
    return [(numbers[positive], relevant[anchor]) for anchor, positive in zip(anchors, positives, strict=True)]


def _negatives(
    model, anchors: list[str], documents: list[str], examples: list, count: int, margin: float, batch_size: int
) -> Iterator[list[int]]:
    """Yields the numbers of at most `count` negatives of each anchor; `examples` see `_positives_and_relevant`."""
    vectors = search_vectors(model, documents, "document", batch_size=batch_size)
    queries = search_vectors(model, anchors, "query", batch_size=batch_size)
    for some in parts_of(len(queries), len(vectors)):
        for (positive, relevant), cosines in zip(examples[some], queries[some] @ vectors.T, strict=True):
            limit = cosines[positive]
            is_negative = cosines <= limit - margin * np.abs(limit)
            is_negative[relevant] = False
            allowed = np.flatnonzero(is_negative)
            yield allowed[largest(cosines[allowed], count)].tolist()
