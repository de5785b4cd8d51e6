"""The pipeline of `beam_pretraining_data`: text -> tokens -> shards -> record files, on any runner of Apache Beam.

The steps are the functions that the local run maps over processes. Beam moves the documents to their shards:

    sources ─► chunks of 2 MB ─► token ids ─┬─► counts ─► number of the first document of each chunk
                                                                                        ├─► sizes of the shards ─► are
                                                                                        whole documents assigned, or
                                                                                        parts?
                                            └─► (shard, documents) ─► grouped by shard, in order ─► record file

A worker holds one chunk in memory, or the tokens of one shard (two bytes each, twice) and one block of it.
"""

import json
import os
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from data_prep.pretraining import pretraining_plan as plan
from data_prep.pretraining.beam_files import BeamFiles
from data_prep.pretraining.beam_layout import (
    CHUNK_BITS,
    BeamJob,
    CorpusLayout,
    choose_dealing,
    count_chunk,
    count_shards,
    plan_shards,
)
from data_prep.pretraining.document_block import DocumentBlock, blocks_of_gathered_shard
from data_prep.pretraining.pretraining_records import batches_of_blocks
from data_prep.pretraining.record_folder import (
    FinishedShard,
    RecordCounts,
    RecordFolder,
    shard_from_json,
    shard_to_json,
)
from data_prep.pretraining.record_writer import write_encoded
from data_prep.text.corpus import read_source_chunks
from data_prep.text.text_chunks import TextChunk
from data_prep.tokenized.corpus_writer import EncodedChunk
from data_prep.tokenized.tokenize_text import TextSettings, encode_chunk_with, graph_encoder
from keras_bert.program.atomic_output import PARTIAL
from keras_bert.program.errors import InputError
from keras_bert.program.quiet_tensorflow import quiet_tensorflow
from keras_bert.tokenization.tokenizer import Tokenizer

# The name of the counters that the runner shows.
_COUNTERS = "keras_bert"
# Documents on their way to a shard, as bytes, which Beam encodes without pickling: their numbers in the corpus (int64),
# tokens, tokens per sentence (int32), sentences per document (int32).
Piece = tuple[bytes, bytes, bytes, bytes]

_NO_PIECE = (b"", b"", b"", b"")
# A finished shard: its number, its file, and the numbers of documents, sentences and tokens in it.
ShardReport = tuple[int, FinishedShard, tuple[int, int, int]]


def add_pipeline(pipeline: beam.Pipeline, job: BeamJob) -> None:
    """Adds all steps to a pipeline."""
    # Reshuffle distributes sources, and then chunks, to free workers.
    chunks = (
        pipeline
        | "Sources" >> beam.Create(list(enumerate(job.sources)))
        | "SpreadSources" >> beam.Reshuffle()
        | "ReadChunks" >> beam.FlatMap(read_chunks_of, job.settings.text_field)
        | "SpreadChunks" >> beam.Reshuffle()
    )
    encoded = chunks | "Tokenize" >> beam.ParDo(Tokenize(job.tokenizer, job.settings))
    whole_documents = (
        encoded
        | "CountChunk" >> beam.Map(count_chunk, job)
        | "GatherCounts" >> beam.combiners.ToList()
        | "PlanShards" >> beam.Map(plan_shards, job)
    )
    sizes = (
        encoded
        | "SizesOfParts" >> beam.FlatMap(count_shards, beam.pvalue.AsSingleton(whole_documents))
        | "SizesOfShards" >> beam.CombinePerKey(sum)
    )
    layout = whole_documents | "ChooseDealing" >> beam.Map(choose_dealing, beam.pvalue.AsList(sizes), job)
    the_layout = beam.pvalue.AsSingleton(layout)
    pieces = encoded | "DealDocuments" >> beam.FlatMap(deal_documents, the_layout)
    # Shards without documents need a file too.
    no_pieces = layout | "EveryShard" >> beam.FlatMap(no_piece_for_each_shard)
    (
        (pieces, no_pieces)
        | "AllPieces" >> beam.Flatten()
        | "ByShard" >> beam.GroupByKey()
        | "WriteShard" >> beam.ParDo(WriteShard(job), the_layout)
        | "AllShards" >> beam.combiners.ToList()
        | "Finish" >> beam.Map(finish, the_layout, job)
    )


def read_chunks_of(source: tuple[int, str], text_field: str) -> Iterator[tuple[int, TextChunk]]:
    """Reads one source. The key of a chunk is made of the number of the source, and that of the chunk within it."""
    number, name = source
    chunks = read_source_chunks(name, text_field, open_file=BeamFiles().open_input)
    for chunk_number, chunk in enumerate(chunks):
        yield number << CHUNK_BITS | chunk_number, chunk


class Tokenize(beam.DoFn):
    """Text -> token ids. Each worker makes the graph once."""

    def __init__(self, tokenizer: Tokenizer, settings: TextSettings):
        self._tokenizer = tokenizer
        self._settings = settings

    def setup(self):
        quiet_tensorflow()
        self._encode = graph_encoder(self._tokenizer)

    def process(self, element: tuple[int, TextChunk]) -> Iterator[tuple[int, EncodedChunk]]:
        key, chunk = element
        encoded = encode_chunk_with(self._encode, chunk, self._tokenizer, self._settings)
        for name, number in encoded.counts().items():
            Metrics.counter(_COUNTERS, name).inc(number)
        yield key, encoded


def deal_documents(element: tuple[int, EncodedChunk], layout: CorpusLayout) -> Iterator[tuple[int, Piece]]:
    """Splits the documents of a chunk by shard."""
    key, chunk = element
    block = DocumentBlock.from_lengths(chunk.tokens, chunk.sentence_lengths, chunk.document_lengths)
    for shard, ranges, numbers in layout.deal(key, block):
        part = DocumentBlock.gather_ranges(block, ranges)
        yield (
            shard,
            (
                numbers.astype(np.int64).tobytes(),
                part.tokens.tobytes(),
                np.diff(part.sentence_offsets).astype(np.int32).tobytes(),
                np.diff(part.document_offsets).astype(np.int32).tobytes(),
            ),
        )


def join_pieces(pieces: Iterable[Piece], token_dtype: np.dtype) -> tuple[DocumentBlock, np.ndarray]:
    """Sorts the documents of a shard in the order of the corpus. Returns them and their numbers, int64.

    The documents of a chunk have consecutive numbers, so the pieces of two chunks never overlap.
    """
    pieces = sorted(pieces, key=lambda piece: int(np.frombuffer(piece[0][:8], np.int64).sum()))
    numbers, tokens, sentence_lengths, document_lengths = (
        np.frombuffer(b"".join(parts), dtype)
        for parts, dtype in zip(zip(*pieces, strict=True), (np.int64, token_dtype, np.int32, np.int32), strict=True)
    )
    return DocumentBlock.from_lengths(tokens, sentence_lengths, document_lengths), numbers


class WriteShard(beam.DoFn):
    """Writes the documents of a shard to its record file, unless an earlier attempt of the same run has finished it."""

    def __init__(self, job: BeamJob):
        self._job = job

    def process(self, element: tuple[int, Iterable[Piece]], layout: CorpusLayout) -> Iterator[ShardReport]:
        shard, pieces = element
        documents, numbers = join_pieces(pieces, self._job.token_dtype)
        path = layout.paths[shard]
        finished = _read_note(path) or self._write(shard, path, documents, numbers)
        Metrics.counter(_COUNTERS, "num_records").inc(finished.counts.num_records)
        yield shard, finished, (documents.num_documents, documents.num_sentences, documents.num_tokens)

    def _write(self, shard: int, path: str, documents: DocumentBlock, numbers: np.ndarray) -> FinishedShard:
        job, counts = self._job, RecordCounts()
        cuts = blocks_of_gathered_shard(documents, numbers)
        blocks = (DocumentBlock.gather_ranges(documents, ranges) for ranges in cuts)

        def pieces() -> Iterator[tuple[bytes, int]]:
            nonlocal counts
            for batch, _ in batches_of_blocks(blocks, documents.num_tokens, job.form.options, job.tokenizer, shard):
                data, batch_counts = job.form.encode(batch)
                counts += batch_counts
                yield data, batch_counts.num_records

        file = write_encoded(path, pieces(), job.form.compression, BeamFiles().open_output)
        finished = FinishedShard(file, counts)
        with BeamFiles().open_output(_note_path(path)) as note:
            note.write(json.dumps(shard_to_json(finished)).encode())
        return finished


def finish(reports: list[ShardReport], layout: CorpusLayout, job: BeamJob) -> None:
    """Writes the manifest and the other files that the local run puts beside the records.

    Raises `InputError` if the text is too short for a single example. The empty files are removed.
    """
    files = BeamFiles()
    _, shards, sizes = zip(*sorted(reports, key=lambda report: report[0]), strict=True)
    folder = RecordFolder(plan.output_prefix(None, job.output_dir), job.request, files=files)
    try:
        plan.check_shards(layout.corpus_manifest, plan.ShardSizes(*np.array(sizes).T), job.form.options)
    except InputError:
        files.remove([*layout.paths, *map(_note_path, layout.paths)])
        raise
    folder.finish(layout.paths, layout.corpus_manifest, shards, job.form.record)
    # The notes, and temporary files of killed workers.
    notes = {os.path.basename(_note_path(path)) for path in layout.paths}
    leftovers = [name for name in files.sizes(job.output_dir) if name in notes or PARTIAL in name]
    if leftovers:
        FileSystems.delete([os.path.join(job.output_dir, name) for name in leftovers])


def no_piece_for_each_shard(layout: CorpusLayout) -> Iterator[tuple[int, Piece]]:
    return ((shard, _NO_PIECE) for shard in range(len(layout.paths)))


def _note_path(path: str) -> str:
    """Returns the name of the note, which marks a record file as finished until the manifest does."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"unfinished-{os.path.splitext(name)[0]}.json")


def _read_note(path: str) -> FinishedShard | None:
    files = BeamFiles()
    try:
        shard = shard_from_json(json.loads(files.read(_note_path(path))))
    except FileNotFoundError:
        return None
    return shard if files.size(path) == shard.file.num_bytes else None
