"""A block of documents in memory, from which one call makes records, so that memory does not grow with the corpus."""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from data_prep.pretraining.document_dealing import Dealing, document_ranges, slices_of
from data_prep.tokenized.tokenized_corpus import SentenceArrays, TokenizedCorpus
from keras_bert.records.masked_positions import concatenated_ranges

# A block is full when it has this many tokens. The value affects the bytes of the records.
BLOCK_TOKENS = 4_000_000
# In a block, each document counts as at least this many tokens, since millions of tiny documents take memory too.
_LEAST_DOCUMENT = 32
# Tokens that are copied in one array operation.
_SLICE_TOKENS = 1_000_000


@dataclasses.dataclass(frozen=True)
class DocumentBlock(SentenceArrays):
    """Some documents of a corpus, copied and concatenated; see `SentenceArrays`."""

    @classmethod
    def from_lengths(
        cls, tokens: np.ndarray, sentence_lengths: np.ndarray, document_lengths: np.ndarray
    ) -> "DocumentBlock":
        """Makes a block from the number of tokens of each sentence and the number of sentences of each document."""
        return cls(tokens, _offsets(sentence_lengths), _offsets(document_lengths))

    @classmethod
    def gather(cls, corpus: SentenceArrays, documents: np.ndarray) -> "DocumentBlock":
        """Copies whole documents, int64 (num_documents,), of a corpus or block, in the given order."""
        return cls.gather_ranges(corpus, document_ranges(corpus.document_offsets, np.asarray(documents, np.int64)))

    @classmethod
    def gather_ranges(cls, corpus: SentenceArrays, ranges: np.ndarray) -> "DocumentBlock":
        """Copies ranges of sentences, int64 (num_documents, 2), of a corpus. Each becomes a document."""
        first_sentences, end_sentences = ranges[:, 0], ranges[:, 1]
        num_sentences = end_sentences - first_sentences
        sentences = concatenated_ranges(first_sentences, num_sentences)
        lengths = corpus.sentence_offsets[sentences + 1] - corpus.sentence_offsets[sentences]
        starts, ends = corpus.sentence_offsets[first_sentences], corpus.sentence_offsets[end_sentences]
        return cls.from_lengths(_copy_tokens(corpus.tokens, starts, ends), lengths, num_sentences)


def shard_blocks(corpus: TokenizedCorpus, dealing: Dealing, shard: int) -> Iterator[np.ndarray]:
    """Cuts the documents of a shard into consecutive blocks: ranges of sentences, for `DocumentBlock.gather_ranges`.

    A block is full when it has `BLOCK_TOKENS` tokens and two documents. A single document that remains at the end is
    added to the last block. A document with more than `BLOCK_TOKENS` tokens gets blocks of its own, each of which ends
    with the sentence that fills it. So memory is bounded by a few times `BLOCK_TOKENS` and the longest sentence.
    """
    return _cut_blocks(corpus, dealing.shard_ranges(corpus, shard))


def blocks_of_gathered_shard(shard: DocumentBlock, numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Cuts a shard that was gathered in memory into the same blocks as `shard_blocks`.

    `numbers`, int64 (num_documents,), are those of the documents in the corpus, in whose order the shard has them.
    """
    return _cut_blocks(shard, (document_ranges(shard.document_offsets, part) for part in slices_of(numbers)))


def _cut_blocks(corpus: SentenceArrays, slices: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Cuts documents, given in slices, into blocks. Long documents of a slice come first."""
    waiting, num_waiting, block = [], 0, None
    for documents in slices:
        num_tokens = count_tokens(corpus, documents)
        is_giant = num_tokens > BLOCK_TOKENS
        for first_sentence, end_sentence in documents[is_giant].tolist():
            yield from _parts(corpus, first_sentence, end_sentence)
        documents, num_tokens = documents[~is_giant], np.maximum(num_tokens[~is_giant], _LEAST_DOCUMENT)
        while True:
            # The number of further documents that fill the block.
            count = int(np.searchsorted(np.cumsum(num_tokens), BLOCK_TOKENS - num_waiting)) + 1
            count = max(count, 2 - sum(map(len, waiting)))
            waiting.append(documents[:count])
            num_waiting += int(num_tokens[:count].sum())
            if count > len(documents):
                break
            if block is not None:
                yield block
            block, waiting, num_waiting = np.concatenate(waiting), [], 0
            documents, num_tokens = documents[count:], num_tokens[count:]
    rest = np.concatenate([np.zeros((0, 2), np.int64), *waiting])
    if block is None:
        block, rest = rest, rest[:0]
    elif len(rest) == 1:
        block, rest = np.concatenate([block, rest]), rest[:0]
    yield from (documents for documents in (block, rest) if len(documents))


def count_shard_tokens(corpus: TokenizedCorpus, dealing: Dealing, shard: int) -> int:
    """Returns the number of tokens in the documents of a shard."""
    return sum(int(count_tokens(corpus, ranges).sum()) for ranges in dealing.shard_ranges(corpus, shard))


def count_tokens(corpus: SentenceArrays, ranges: np.ndarray) -> np.ndarray:
    """Returns the number of tokens in each range of sentences: int64 (n, 2) -> int64 (n,)."""
    return corpus.sentence_offsets[ranges[:, 1]] - corpus.sentence_offsets[ranges[:, 0]]


def _parts(corpus: SentenceArrays, sentence: int, end: int) -> Iterator[np.ndarray]:
    """Yields the blocks of a long document, from its first sentence to its end."""
    while sentence < end:
        full = corpus.sentence_offsets[sentence] + BLOCK_TOKENS
        stop = sentence + int(np.searchsorted(corpus.sentence_offsets[sentence : end + 1], full))
        stop = min(stop, end)
        if corpus.sentence_offsets[end] - corpus.sentence_offsets[stop] < BLOCK_TOKENS // 2:
            stop = end
        yield np.array([[sentence, stop]], np.int64)
        sentence = stop


def _copy_tokens(tokens: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the concatenation of `tokens[starts[i] : ends[i]]` for all i."""
    place = _offsets(ends - starts)
    copied = np.empty(place[-1], tokens.dtype)
    document = 0
    while document < len(starts):
        # As many documents as fit into a slice, but at least one.
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
