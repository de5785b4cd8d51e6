"""Finds hard negatives: texts that a model finds similar to an anchor although they are not its positive."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.embeddings.text_vectors import search_vectors
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number, check_whole
from keras_bert.program.user_inputs import as_texts

# Candidates that are looked at first for each anchor; more where these are not enough.
_CANDIDATES = 50
# The most candidates of all anchors at once.
_MOST_NUMBERS = 1 << 24


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
    documents = list(dict.fromkeys([*positives, *corpus]))
    index = VectorIndex.build(model, documents, batch_size=batch_size)
    relevant: dict[str, set[str]] = {}
    for anchor, positive in zip(anchors, positives, strict=True):
        relevant.setdefault(anchor, {anchor}).add(positive)
    queries = search_vectors(model, anchors, "query", batch_size=batch_size)
    places = {text: number for number, text in enumerate(documents)}
    right = index.vectors[[places[positive] for positive in positives]]
    cosines_of_positives = (queries * right).sum(axis=1)
    limits = cosines_of_positives - relative_margin * np.abs(cosines_of_positives)
    negatives: dict[int, list[str]] = {}
    pending, top_k = np.arange(len(anchors)), num_negatives + _CANDIDATES
    while len(pending):
        for some in np.array_split(pending, min(len(pending), -(-len(pending) * top_k // _MOST_NUMBERS))):
            numbers, scores = index.nearest(queries[some], top_k)
            for anchor, found, is_below in zip(some.tolist(), numbers, scores <= limits[some, None], strict=True):
                texts = (documents[number] for number in found[is_below])
                texts = (text for text in texts if text not in relevant[anchors[anchor]])
                negatives[anchor] = list(itertools.islice(texts, num_negatives))
        pending = np.array([anchor for anchor in pending.tolist() if len(negatives[anchor]) < num_negatives], int)
        # Positives and texts above the margin may take all places.
        top_k, is_last = min(8 * top_k, len(documents)), top_k >= len(documents)
        if is_last:
            break
    enough = [number for number in range(len(anchors)) if len(negatives[number]) == num_negatives]
    rows = [(anchors[number], positives[number], *negatives[number]) for number in enough]
    if not rows:
        raise InputError(
            f"No anchor has {num_negatives} texts below the margin. Give a larger corpus, fewer num_negatives or a "
            f"smaller relative_margin. Received: {len(documents)} different texts, {num_negatives}, {relative_margin}"
        )
    return MinedNegatives(tuple(map(list, zip(*rows, strict=True))), len(anchors) - len(rows))
