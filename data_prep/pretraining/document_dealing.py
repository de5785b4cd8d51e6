"""Which text goes into which output file: whole documents where they suffice, and parts of documents where not.

A document, or a part of one, is a range of the corpus's sentences: first and end, a row of an int64 array (n, 2).
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from data_prep.tokenized.tokenized_corpus import TokenizedCorpus, shard_of_documents
from keras_bert.records.masked_positions import concatenated_ranges

# A document is never cut into parts of fewer sentences than this, unless there are too few for two such parts.
PART_SENTENCES = 256
# A part of one sentence could only be paired with a random next one.
_LEAST_SENTENCES = 2
# Document numbers that are dealt out in one array operation.
_SLICE_DOCUMENTS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Dealing:
    """The law by which the text of a corpus is dealt out to the output files.

    Whole documents go by a hash of their numbers: more documents change no other's file. In parts, each file gets the
    same number of sentences, one run of them in the order of the text, cut where a document ends and into the parts of
    `cut_into_parts`: no two files share a sentence.

    Args:
        seed: of the hash.
        num_sentences: of the whole corpus, to deal it out in parts; None to deal out whole documents.
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
        """Deals out consecutive documents of a corpus.

        Args:
            document_offsets: int64 (n + 1,), from 0 on, as in `DocumentBlock`.
            first_document, first_sentence: the numbers of their first document and sentence in the corpus.

        Yields:
            a shard, the ranges of sentences that it gets, counted from `first_sentence`, and the number of the document
            that each belongs to: int64 (n, 2) and (n,).
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
        """The sentences at which the shards begin, and the end of the last: int64 (num_shards + 1,)."""
        return np.arange(self.num_shards + 1) * self.num_sentences // self.num_shards

    def _parts(self, cuts: np.ndarray) -> np.ndarray:
        cuts = cut_into_parts(cuts, part_sentences(self.num_sentences // self.num_shards))
        return np.stack([cuts[:-1], cuts[1:]], axis=1)


def part_sentences(num_sentences: int) -> int:
    """The sentences of a part at least, where a text of `num_sentences` is to have several parts."""
    return max(min(num_sentences // 2, PART_SENTENCES), _LEAST_SENTENCES)


def cut_into_parts(document_offsets: np.ndarray, least: int) -> np.ndarray:
    """Cuts every document into as many equal parts as have `least` sentences each; a shorter one stays whole.

    Args:
        document_offsets: int64 (num_documents + 1,), ascending: where each document begins, and the end of the last.

    Returns:
        the same for the parts.

    Example:
        >>> cut_into_parts(np.array([0, 3, 10]), 2)
        array([ 0,  3,  5,  7, 10])
    """
    lengths = np.diff(document_offsets)
    num_parts = np.maximum(lengths // least, 1)
    part = concatenated_ranges(np.zeros(len(lengths), np.int64), num_parts)
    before = part * np.repeat(lengths, num_parts) // np.repeat(num_parts, num_parts)
    return np.append(np.repeat(document_offsets[:-1], num_parts) + before, document_offsets[-1:])


def document_ranges(document_offsets: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """The sentences of whole documents, int64 (n,): int64 (n, 2)."""
    return np.stack([document_offsets[documents], document_offsets[documents + 1]], axis=1)


def slices_of(numbers: np.ndarray) -> list[np.ndarray]:
    """Parts the places of ascending document numbers, int64 (n,), by the slice of the corpus that they belong to."""
    first_of_slice = np.flatnonzero(np.diff(numbers // _SLICE_DOCUMENTS)) + 1
    return np.split(np.arange(len(numbers)), first_of_slice)
