"""One ranking of the texts of an index, made of those by vectors and by words."""

from collections.abc import Sequence

import numpy as np

from keras_bert.embeddings.rank_fusion import reciprocal_rank_fusion
from keras_bert.embeddings.word_index import WordIndex


class RowWords:
    """The words of the rows of an index that have a text.

    Args:
        texts: N strings.
        deleted: bool (N): rows without a text; None for none.
    """

    def __init__(self, texts: Sequence[str], deleted: np.ndarray | None):
        self._rows = np.arange(len(texts)) if deleted is None else np.flatnonzero(~deleted)
        self._words = WordIndex.of_texts([texts[row] for row in self._rows.tolist()])

    def fused(
        self, queries: Sequence[str], by_vectors: np.ndarray, top_k: int, mask: np.ndarray | None
    ) -> list[list[tuple[int, float]]]:
        """Fuses the rankings of queries by vectors with as long ones by words, see `reciprocal_rank_fusion`.

        Args:
            queries: Q strings.
            by_vectors: the rows that were found by vectors, int64 (Q, K).
            top_k: how many rows to return for each query.
            mask: bool (N): the rows that may be found; None for all.
        """
        is_allowed = None if mask is None else mask[self._rows]
        by_words, _ = self._words.nearest(queries, max(by_vectors.shape[1], 1), is_allowed)
        return [
            reciprocal_rank_fusion([near.tolist(), self._rows[words[words >= 0]].tolist()], top_k)
            for near, words in zip(by_vectors, by_words, strict=True)
        ]
