"""What the workers of a Beam pipeline know of a run: options, counts of the text, and the place of each document."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from data_prep.pretraining import pretraining_plan as plan
from data_prep.pretraining.beam_files import is_remote, source_sizes
from data_prep.pretraining.document_block import DocumentBlock, count_tokens
from data_prep.pretraining.document_dealing import Dealing
from data_prep.pretraining.pretraining_records import RecordForm
from data_prep.text.corpus import TextCheck, as_patterns
from data_prep.tokenized.corpus_writer import EncodedChunk, TextSource, empty_manifest
from data_prep.tokenized.document_filters import FILTERS, in_effect
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.errors import InputError
from keras_bert.tokenization.tokenizer import Tokenizer

# The number of bits of the key of a chunk that hold its number within the source. The others hold that of the source.
CHUNK_BITS = 32
_COUNTED = (
    *("num_documents", "num_sentences", "num_tokens"),
    *("num_dropped_documents", "num_dropped_sentences", "num_unknown_tokens", FILTERS["max_tokens_per_character"]),
)


@dataclasses.dataclass(frozen=True)
class BeamJob:
    """The description of a run, which all workers get.

    `input_file` are the patterns that the user gave, and `sources` what matches them, in reading order.
    `corpus_manifest` is that of an empty corpus, as the local run would write it, and `request` is for the manifest.
    """

    input_file: list[str]
    sources: list[str]
    tokenizer: Tokenizer
    settings: TextSettings
    form: RecordForm
    output_dir: str
    num_shards: int | None
    corpus_manifest: dict[str, Any]
    request: dict[str, Any]

    @property
    def token_dtype(self) -> np.dtype:
        return np.dtype(self.corpus_manifest["token_dtype"])


def describe_job(
    input_file: str | Sequence[str],
    vocab_file: str | os.PathLike,
    output_dir: str,
    num_shards: int | None,
    form: RecordForm,
    settings: TextSettings | None,
) -> BeamJob:
    """Checks everything that can be checked before the run, and returns the job."""
    tokenizer, settings = plan.check_arguments(vocab_file, settings, num_shards, form)
    if settings.drop_near_duplicates:
        raise InputError(
            "drop_near_duplicates compares each document with all before it, so one process must see them in order. "
            "Use create_pretraining_data instead of Beam, or leave it out."
        )
    if not input_file:
        raise InputError("Give input_file, the text to read.")
    if not output_dir:
        raise InputError("Give output_dir, the folder for the records.")
    output_dir = os.fspath(output_dir)
    if not is_remote(output_dir):
        # Workers may have other working directories.
        output_dir = os.path.abspath(output_dir)
        plan.check_output(None, output_dir)
    patterns = as_patterns(input_file)
    sizes = source_sizes(patterns)
    source = TextSource(patterns, sizes, dataclasses.asdict(settings))
    manifest = {name: value for name, value in empty_manifest(tokenizer, source).items() if name != "parts"}
    text = {"input_file": patterns, "input_bytes": source.num_bytes, **in_effect(dataclasses.asdict(settings))}
    text["vocabulary_sha256"] = tokenizer.sha256
    return BeamJob(
        input_file=patterns,
        sources=list(sizes),
        tokenizer=tokenizer,
        settings=settings,
        form=form,
        output_dir=output_dir,
        num_shards=num_shards,
        corpus_manifest=manifest,
        request=plan.describe_request(text, form, num_shards),
    )


@dataclasses.dataclass(frozen=True)
class CorpusLayout:
    """The place of each document, known after all text is tokenised. `dealing` assigns it to the files of `paths`.

    Args:
        keys: the keys of the chunks, sorted: int64 (num_chunks,).
        first_documents, first_sentences: the numbers of the first document and sentence of each: int64 (num_chunks,).
        corpus_manifest: that of a local run, without its parts.
    """

    keys: np.ndarray
    first_documents: np.ndarray
    first_sentences: np.ndarray
    corpus_manifest: dict[str, Any]
    paths: list[str]
    dealing: Dealing

    def deal(self, key: int, block: DocumentBlock) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Assigns the documents of a chunk to shards; see `Dealing.deal`."""
        place = np.searchsorted(self.keys, key)
        first_document, first_sentence = int(self.first_documents[place]), int(self.first_sentences[place])
        return self.dealing.deal(block.document_offsets, first_document, first_sentence)


def count_chunk(element: tuple[int, EncodedChunk], job: BeamJob) -> np.ndarray:
    """Returns the key of a chunk, its documents, the tokens that will be cut, and `_COUNTED`: int64 (10,)."""
    key, chunk = element
    num_cut = plan.count_cut_tokens(chunk.sentence_lengths, job.form.options, job.tokenizer.special_tokens)
    counts = chunk.counts()
    numbers = [key, chunk.num_documents_read, num_cut, *(counts.get(name, 0) for name in _COUNTED)]
    return np.array(numbers, np.int64)


def plan_shards(rows: list[np.ndarray], job: BeamJob) -> CorpusLayout:
    """Numbers the documents in the order of the text, and plans the files, with whole documents in each.

    `rows` are what `count_chunk` returns for each chunk, in any order. Raises `InputError` if there is no text.
    """
    counts = np.stack(rows)
    counts = counts[np.argsort(counts[:, 0])]
    keys, num_read, num_cut, num_documents = counts[:, :4].T
    check = TextCheck(job.input_file)
    num_in_source = np.bincount(keys >> CHUNK_BITS, num_read, len(job.sources))
    for source, number in zip(job.sources, num_in_source.tolist(), strict=True):
        check.add(source, int(number), is_last=True)
    check.finish()
    totals = dict(zip(_COUNTED, counts[:, 3:].sum(axis=0).tolist(), strict=True))
    if not totals["num_tokens"]:
        raise InputError("There is no text in the input: no line has a token. Give text with words.")
    counted = {name: total for name, total in totals.items() if name in job.corpus_manifest}
    manifest = {**job.corpus_manifest, **counted}
    plan.warn_about_unknown_tokens(manifest)
    plan.warn_about_cut_tokens(int(num_cut.sum()), manifest, job.form.options)
    paths = plan.shard_paths(job.output_dir, job.num_shards, manifest, job.form.options)
    num_sentences = counts[:, 3 + _COUNTED.index("num_sentences")]
    first_documents, first_sentences = (np.cumsum(column) - column for column in (num_documents, num_sentences))
    dealing = Dealing(len(paths), job.form.options.random_seed)
    return CorpusLayout(keys, first_documents, first_sentences, manifest, paths, dealing)


def count_shards(element: tuple[int, EncodedChunk], layout: CorpusLayout) -> Iterator[tuple[int, np.ndarray]]:
    """Counts the documents, sentences and tokens of a chunk for each shard: int64 (3,)."""
    key, chunk = element
    block = DocumentBlock.from_lengths(chunk.tokens, chunk.sentence_lengths, chunk.document_lengths)
    for shard, ranges, _ in layout.deal(key, block):
        yield shard, np.array([len(ranges), np.diff(ranges).sum(), count_tokens(block, ranges).sum()], np.int64)


def choose_dealing(layout: CorpusLayout, sizes: Iterable[tuple[int, np.ndarray]], job: BeamJob) -> CorpusLayout:
    """Assigns parts of documents if a file would have no record. Raises `InputError` if even these have none."""
    columns = np.zeros((3, len(layout.paths)), np.int64)
    for shard, counts in sizes:
        columns[:, shard] = counts
    dealing = plan.choose_dealing(layout.corpus_manifest, plan.ShardSizes(*columns), job.form.options)
    return dataclasses.replace(layout, dealing=dealing)
