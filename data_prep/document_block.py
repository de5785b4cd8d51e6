"""A block of documents in memory: what one call of the record maker works on, so that memory does not grow with the
corpus."""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from data_prep.tokenized_corpus import TokenizedCorpus
from keras_bert.masked_positions import concatenated_ranges

# A block is closed when it has this many tokens. Part of what decides the bytes of records.
BLOCK_TOKENS = 4_000_000
# In a block, a document counts for this many tokens at least: millions of tiny documents take memory too.
_LEAST_DOCUMENT = 32
# Document numbers that are dealt out in one array operation, and tokens that are copied in one.
_SLICE_DOCUMENTS = 1_000_000
_SLICE_TOKENS = 1_000_000


@dataclasses.dataclass(frozen=True)
class DocumentBlock:
    """Some documents of a corpus, copied out of it, one behind the other.

    Args:
        tokens: uint16 or uint32, shape (num_tokens,).
        sentence_offsets: int64, shape (num_sentences + 1,), from 0 on: sentence i is
            `tokens[offsets[i] : offsets[i + 1]]`. No sentence is empty.
        document_offsets: int64, shape (num_documents + 1,), from 0 on: document d has the sentences `offsets[d]` to
            `offsets[d + 1] - 1`, one at least.
    """

    tokens: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    @classmethod
    def from_lengths(
        cls, tokens: np.ndarray, sentence_lengths: np.ndarray, document_lengths: np.ndarray
    ) -> "DocumentBlock":
        """The same from the number of tokens of each sentence, and of sentences of each document."""
        return cls(tokens, _offsets(sentence_lengths), _offsets(document_lengths))

    @classmethod
    def gather(cls, corpus: "TokenizedCorpus | DocumentBlock", documents: np.ndarray) -> "DocumentBlock":
        """Copies whole documents, int64 (num_documents,), out of a corpus or block, in the order given."""
        documents = np.asarray(documents, np.int64)
        return cls._copy(corpus, corpus.document_offsets[documents], corpus.document_offsets[documents + 1])

    @classmethod
    def gather_part(
        cls, corpus: "TokenizedCorpus | DocumentBlock", first_sentence: int, end_sentence: int
    ) -> "DocumentBlock":
        """Copies a run of sentences of one document out of a corpus, as a document of its own."""
        return cls._copy(corpus, np.array([first_sentence], np.int64), np.array([end_sentence], np.int64))

    @classmethod
    def _copy(cls, corpus: TokenizedCorpus, first_sentences: np.ndarray, end_sentences: np.ndarray) -> "DocumentBlock":
        num_sentences = end_sentences - first_sentences
        sentences = concatenated_ranges(first_sentences, num_sentences)
        lengths = corpus.sentence_offsets[sentences + 1] - corpus.sentence_offsets[sentences]
        starts, ends = corpus.sentence_offsets[first_sentences], corpus.sentence_offsets[end_sentences]
        return cls.from_lengths(_copy_tokens(corpus.tokens, starts, ends), lengths, num_sentences)


def shard_blocks(corpus: TokenizedCorpus, seed: int, shard: int, num_shards: int) -> Iterator[DocumentBlock]:
    """Cuts the documents of a shard into consecutive blocks.

    A block is closed when it has `BLOCK_TOKENS` tokens and two documents; what is left at the end goes into the last
    block, when it is a single document. A document of more than `BLOCK_TOKENS` tokens comes in blocks of its own, each
    closed by the sentence that fills it. So memory is bounded by a few times `BLOCK_TOKENS` and the longest sentence.
    """
    return _cut_blocks(corpus, _shard_documents(corpus, seed, shard, num_shards))


def blocks_of_gathered_shard(shard: DocumentBlock, numbers: np.ndarray) -> Iterator[DocumentBlock]:
    """Cuts a shard that was gathered into memory into the same blocks as `shard_blocks` cuts it.

    Args:
        shard: all documents of the shard, in the order of the corpus.
        numbers: the number of each in the corpus: int64 (num_documents,).
    """
    first_of_slice = np.flatnonzero(np.diff(numbers // _SLICE_DOCUMENTS)) + 1
    slices = np.split(np.arange(shard.num_documents), first_of_slice)
    return _cut_blocks(shard, ((documents, _num_tokens(shard, documents)) for documents in slices))


def _cut_blocks(
    corpus: TokenizedCorpus | DocumentBlock, slices: Iterable[tuple[np.ndarray, np.ndarray]]
) -> Iterator[DocumentBlock]:
    """Cuts documents, given slice by slice with their numbers of tokens. Long documents of a slice come first."""
    waiting, num_waiting, block = [], 0, None
    for documents, num_tokens in slices:
        is_giant = num_tokens > BLOCK_TOKENS
        for document in documents[is_giant]:
            yield from _parts(corpus, int(document))
        documents, num_tokens = documents[~is_giant], np.maximum(num_tokens[~is_giant], _LEAST_DOCUMENT)
        while True:
            # How many more documents close the block.
            count = int(np.searchsorted(np.cumsum(num_tokens), BLOCK_TOKENS - num_waiting)) + 1
            count = max(count, 2 - sum(map(len, waiting)))
            waiting.append(documents[:count])
            num_waiting += int(num_tokens[:count].sum())
            if count > len(documents):
                break
            if block is not None:
                yield DocumentBlock.gather(corpus, block)
            block, waiting, num_waiting = np.concatenate(waiting), [], 0
            documents, num_tokens = documents[count:], num_tokens[count:]
    rest = np.concatenate([np.zeros(0, np.int64), *waiting])
    if block is None:
        block, rest = rest, rest[:0]
    elif len(rest) == 1:
        block, rest = np.append(block, rest), rest[:0]
    for documents in (block, rest):
        if len(documents):
            yield DocumentBlock.gather(corpus, documents)


def count_shard_tokens(corpus: TokenizedCorpus, seed: int, shard: int, num_shards: int) -> int:
    """How many tokens the documents of a shard have."""
    return sum(int(num_tokens.sum()) for _, num_tokens in _shard_documents(corpus, seed, shard, num_shards))


def _shard_documents(corpus, seed, shard, num_shards) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The documents of a shard and their numbers of tokens, slice by slice of the corpus."""
    for start in range(0, corpus.num_documents, _SLICE_DOCUMENTS):
        stop = min(start + _SLICE_DOCUMENTS, corpus.num_documents)
        is_member = corpus.shard_of_documents(num_shards, seed, start, stop) == shard
        documents = start + np.flatnonzero(is_member)
        yield documents, _num_tokens(corpus, documents)


def _num_tokens(corpus: TokenizedCorpus | DocumentBlock, documents: np.ndarray) -> np.ndarray:
    first, end = corpus.document_offsets[documents], corpus.document_offsets[documents + 1]
    return corpus.sentence_offsets[end] - corpus.sentence_offsets[first]


def _parts(corpus: TokenizedCorpus | DocumentBlock, document: int) -> Iterator[DocumentBlock]:
    """A long document in blocks of its own."""
    sentence, end = (int(offset) for offset in corpus.document_offsets[document : document + 2])
    while sentence < end:
        full = corpus.sentence_offsets[sentence] + BLOCK_TOKENS
        stop = sentence + int(np.searchsorted(corpus.sentence_offsets[sentence : end + 1], full))
        stop = min(stop, end)
        if corpus.sentence_offsets[end] - corpus.sentence_offsets[stop] < BLOCK_TOKENS // 2:
            stop = end
        yield DocumentBlock.gather_part(corpus, sentence, stop)
        sentence = stop


def _copy_tokens(tokens: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """`tokens[starts[i] : ends[i]]` for all i, one behind the other."""
    place = _offsets(ends - starts)
    copied = np.empty(place[-1], tokens.dtype)
    document = 0
    while document < len(starts):
        # As many documents as fit into a slice, and one at least.
        stop = max(int(np.searchsorted(place, place[document] + _SLICE_TOKENS, side="right")) - 1, document + 1)
        target = copied[place[document] : place[stop]]
        if stop == document + 1:
            target[:] = tokens[starts[document] : ends[document]]
        else:
            chosen = slice(document, stop)
            target[:] = tokens[concatenated_ranges(starts[chosen], ends[chosen] - starts[chosen])]
        document = stop
    return copied


def _offsets(lengths: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
