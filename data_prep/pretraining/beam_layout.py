"""Counts the chunks of a text in a Beam pipeline, and finds the place of each document: its number and its shard."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np

from data_prep.pretraining import pretraining_plan as plan
from data_prep.pretraining.beam_job import BeamJob
from data_prep.pretraining.document_block import DocumentBlock, count_tokens
from data_prep.pretraining.document_dealing import Dealing
from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.text.corpus import TextCheck
from data_prep.tokenized.corpus_writer import EncodedChunk
from data_prep.tokenized.document_filters import FILTERS
from keras_bert.program.errors import InputError
from keras_bert.tokenization.tokenizer import SpecialTokens

# (number of the source, number of the chunk within the source)
ChunkKey = tuple[int, int]

# The number of bits of a key that hold the number of the chunk.
_CHUNK_BITS = 32
_COUNTED = (
    *("num_documents", "num_sentences", "num_tokens"),
    *("num_dropped_documents", "num_dropped_sentences", "num_unknown_tokens", FILTERS["max_tokens_per_character"]),
)


@dataclasses.dataclass(frozen=True)
class CorpusCounts:
    """The counts of a corpus that `pretraining_plan` needs. `manifest` is as in a local run."""

    manifest: dict[str, Any]

    @property
    def num_documents(self) -> int:
        return self.manifest["num_documents"]

    @property
    def num_tokens(self) -> int:
        return self.manifest["num_tokens"]


@dataclasses.dataclass(frozen=True)
class CorpusLayout:
    """The place of each document, known after all text is tokenised.

    Args:
        keys: `_number_of_key` of each chunk, sorted: int64 (num_chunks,).
        first_documents, first_sentences: the numbers of the first document and sentence of each: int64 (num_chunks,).
        paths: the file of each shard.
        dealing: how the text is assigned to the shards.
    """

    keys: np.ndarray
    first_documents: np.ndarray
    first_sentences: np.ndarray
    corpus: CorpusCounts
    paths: list[str]
    dealing: Dealing

    def deal(self, key: ChunkKey, block: DocumentBlock) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Assigns the documents of a chunk to shards; see `Dealing.deal`."""
        place = np.searchsorted(self.keys, _number_of_key(*key))
        first_document, first_sentence = int(self.first_documents[place]), int(self.first_sentences[place])
        return self.dealing.deal(block.document_offsets, first_document, first_sentence)


def count_chunk(
    element: tuple[ChunkKey, EncodedChunk], options: PretrainingOptions, special_tokens: SpecialTokens
) -> np.ndarray:
    """Returns the key of a chunk, its documents, the tokens that will be cut, and `_COUNTED`: int64 (1, 10)."""
    key, chunk = element
    num_cut = plan.count_cut_tokens(chunk.sentence_lengths, options, special_tokens)
    counts = chunk.counts()
    numbers = [_number_of_key(*key), chunk.num_documents_read, num_cut, *(counts.get(name, 0) for name in _COUNTED)]
    return np.array([numbers], np.int64)


class GatherRows(beam.CombineFn):
    """Gathers rows of numbers in one array, in any order."""

    def create_accumulator(self) -> list[np.ndarray]:
        return []

    def add_input(self, accumulator: list[np.ndarray], row: np.ndarray) -> list[np.ndarray]:
        accumulator.append(row)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[np.ndarray]]) -> list[np.ndarray]:
        return [rows for accumulator in accumulators for rows in accumulator]

    def compact(self, accumulator: list[np.ndarray]) -> list[np.ndarray]:
        return [np.concatenate(accumulator)] if accumulator else []

    def extract_output(self, accumulator: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(accumulator)


def plan_shards(counts: np.ndarray, job: BeamJob) -> CorpusLayout:
    """Numbers the documents in the order of the text, and plans the files, with whole documents in each.

    Args:
        counts: a row of `count_chunk` for each chunk: int64 (num_chunks, 10).

    Raises:
        InputError: there is no text.
    """
    counts = counts[np.argsort(counts[:, 0])]
    keys, num_read, num_cut, num_documents = counts[:, :4].T
    check = TextCheck(job.input_file)
    num_in_source = np.bincount(keys >> _CHUNK_BITS, num_read, len(job.sources))
    for source, number in zip(job.sources, num_in_source.tolist(), strict=True):
        check.add(source, int(number), is_last=True)
    check.finish()
    totals = dict(zip(_COUNTED, counts[:, 3:].sum(axis=0).tolist(), strict=True))
    if not totals["num_tokens"]:
        raise InputError("There is no text in the input: no line has a token. Give text with words.")
    counted = {name: total for name, total in totals.items() if name in job.corpus_manifest}
    corpus = CorpusCounts({**job.corpus_manifest, **counted})
    plan.warn_about_unknown_tokens(corpus)
    plan.warn_about_cut_tokens(int(num_cut.sum()), corpus, job.options)
    paths = plan.shard_paths(job.output_dir, job.num_shards, corpus, job.options)
    num_sentences = counts[:, 3 + _COUNTED.index("num_sentences")]
    first_documents, first_sentences = (np.cumsum(column) - column for column in (num_documents, num_sentences))
    dealing = Dealing(len(paths), job.options.random_seed)
    return CorpusLayout(keys, first_documents, first_sentences, corpus, paths, dealing)


def count_shards(element: tuple[ChunkKey, EncodedChunk], layout: CorpusLayout) -> Iterator[tuple[int, np.ndarray]]:
    """Counts the documents, sentences and tokens of a chunk for each shard: int64 (3,)."""
    key, chunk = element
    block = DocumentBlock.from_lengths(chunk.tokens, chunk.sentence_lengths, chunk.document_lengths)
    for shard, ranges, _ in layout.deal(key, block):
        yield shard, np.array([len(ranges), np.diff(ranges).sum(), count_tokens(block, ranges).sum()], np.int64)


class SumRows(beam.CombineFn):
    """Adds up rows of numbers."""

    def create_accumulator(self) -> np.ndarray:
        return np.zeros(3, np.int64)

    def add_input(self, accumulator: np.ndarray, row: np.ndarray) -> np.ndarray:
        return accumulator + row

    def merge_accumulators(self, accumulators: Iterable[np.ndarray]) -> np.ndarray:
        return sum(accumulators, np.zeros(3, np.int64))

    def extract_output(self, accumulator: np.ndarray) -> np.ndarray:
        return accumulator


def choose_dealing(layout: CorpusLayout, sizes: Iterable[tuple[int, np.ndarray]], job: BeamJob) -> CorpusLayout:
    """Assigns parts of documents instead of whole documents if otherwise a file would have no record.

    Raises:
        InputError: the text is too short even for that.
    """
    columns = np.zeros((3, len(layout.paths)), np.int64)
    for shard, counts in sizes:
        columns[:, shard] = counts
    dealing = plan.choose_dealing(layout.corpus, plan.ShardSizes(*columns), job.options)
    return dataclasses.replace(layout, dealing=dealing)


def _number_of_key(source: int, chunk: int) -> int:
    return source << _CHUNK_BITS | chunk
