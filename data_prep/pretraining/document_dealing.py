"""Assigns text to output files: whole documents if there are enough, otherwise parts of documents.

A document, or a part of one, is a range of sentences of the corpus: (first, end), a row of an int64 array (n, 2).
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from data_prep.tokenized.tokenized_corpus import TokenizedCorpus, shard_of_documents
from keras_bert.records.masked_positions import concatenated_ranges

# The smallest number of sentences in a part of a document, unless there are too few for two such parts.
PART_SENTENCES = 256
# A part with one sentence could only be paired with a random next sentence.
_LEAST_SENTENCES = 2
# The number of documents assigned in one array operation.
_SLICE_DOCUMENTS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Dealing:
    """The rule by which the text of a corpus is assigned to the output files.

    Whole documents are assigned by a hash of their numbers, so additional documents do not move the others. If parts
    are assigned, `num_sentences` of the corpus is given: each file gets the same number of consecutive sentences, cut
    at the ends of documents and at the cuts of `cut_into_parts`. No two files share a sentence.
    """

    num_shards: int
    seed: int
    num_sentences: int | None = None

    def shard_ranges(self, corpus: TokenizedCorpus, shard: int) -> Iterator[np.ndarray]:
        """Yields the documents, or parts of documents, of a shard in the order of the corpus, slice by slice."""
        if self.num_sentences is None:
            for start in range(0, corpus.num_documents, _SLICE_DOCUMENTS):
                stop = min(start + _SLICE_DOCUMENTS, corpus.num_documents)
                is_member = corpus.shard_of_documents(self.num_shards, self.seed, start, stop) == shard
                yield document_ranges(corpus.document_offsets, start + np.flatnonzero(is_member))
        else:
            first, end = self._bounds()[shard : shard + 2]
            documents = slice(*np.searchsorted(corpus.document_offsets, [first, end]))
            ranges = self._parts(np.unique(np.concatenate([[first], corpus.document_offsets[documents], [end]])))
            numbers = np.searchsorted(corpus.document_offsets, ranges[:, 0], side="right") - 1
            yield from (ranges[part] for part in slices_of(numbers))

    def deal(
        self, document_offsets: np.ndarray, first_document: int, first_sentence: int
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Assigns consecutive documents of a corpus, from the given document and sentence on, to shards.

        Args:
            document_offsets: int64 (n + 1,), starting with 0, as in `DocumentBlock`.

        Yields:
            a shard; its ranges of sentences, counted from `first_sentence`, int64 (n, 2); and the number of the
            document of each range, int64 (n,).
        """
        numbers = np.arange(len(document_offsets) - 1)
        if self.num_sentences is None:
            ranges = document_ranges(document_offsets, numbers)
            shards = shard_of_documents(first_document + numbers, self.num_shards, self.seed)
        else:
            bounds = self._bounds() - first_sentence
            inside = bounds[(bounds > document_offsets[0]) & (bounds < document_offsets[-1])]
            ranges = self._parts(np.union1d(document_offsets, inside))
            shards = np.searchsorted(bounds, ranges[:, 0], side="right") - 1
            numbers = np.searchsorted(document_offsets, ranges[:, 0], side="right") - 1
        for shard in np.unique(shards):
            is_member = shards == shard
            yield int(shard), ranges[is_member], first_document + numbers[is_member]

    def _bounds(self) -> np.ndarray:
        """Returns the first sentence of each shard, and the end of the last: int64 (num_shards + 1,)."""
        return np.arange(self.num_shards + 1) * self.num_sentences // self.num_shards

    def _parts(self, cuts: np.ndarray) -> np.ndarray:
        cuts = cut_into_parts(cuts, part_sentences(self.num_sentences // self.num_shards))
        return np.stack([cuts[:-1], cuts[1:]], axis=1)


def part_sentences(num_sentences: int) -> int:
    """Returns the smallest number of sentences in a part, for a text with `num_sentences` that is cut into parts."""
    return max(min(num_sentences // 2, PART_SENTENCES), _LEAST_SENTENCES)


def cut_into_parts(document_offsets: np.ndarray, least: int) -> np.ndarray:
    """Cuts every document into as many equal parts of at least `least` sentences as possible.

    Offsets are the ascending starts of documents, and of the returned parts, and the end of the last.

    >>> cut_into_parts(np.array([0, 3, 10]), 2)
    array([ 0,  3,  5,  7, 10])
    """
    lengths = np.diff(document_offsets)
    num_parts = np.maximum(lengths // least, 1)
    part = concatenated_ranges(np.zeros(len(lengths), np.int64), num_parts)
    before = part * np.repeat(lengths, num_parts) // np.repeat(num_parts, num_parts)
    return np.append(np.repeat(document_offsets[:-1], num_parts) + before, document_offsets[-1:])


def document_ranges(document_offsets: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Returns the sentence ranges of whole documents: int64 (n,) -> int64 (n, 2)."""
    return np.stack([document_offsets[documents], document_offsets[documents + 1]], axis=1)


def slices_of(numbers: np.ndarray) -> list[np.ndarray]:
    """Splits the indices of ascending document numbers, int64 (n,), by the slice of the corpus that they belong to."""
    first_of_slice = np.flatnonzero(np.diff(numbers // _SLICE_DOCUMENTS)) + 1
    return np.split(np.arange(len(numbers)), first_of_slice)
