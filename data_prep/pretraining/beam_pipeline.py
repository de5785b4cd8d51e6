"""The pipeline of `beam_pretraining_data`: text -> tokens -> shards -> record files, on any runner of Apache Beam.

The steps are the functions that the local run maps over processes. Beam moves the documents to their shards:

    sources ─► chunks of 2 MB ─► token ids ─┬─► counts ─► number of the first document of each chunk
                                                                                        ├─► sizes of the shards ─► are
                                                                                        whole documents assigned, or
                                                                                        parts?
                                            └─► (shard, documents) ─► grouped by shard, in order ─► record file

A worker holds one chunk in memory, or the tokens of one shard (two bytes each, twice) and one block of it.
"""

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.metrics import Metrics

from data_prep.pretraining.beam_files import BeamFiles
from data_prep.pretraining.beam_job import COUNTERS, BeamJob
from data_prep.pretraining.beam_layout import (
    ChunkKey,
    GatherRows,
    SumRows,
    choose_dealing,
    count_chunk,
    count_shards,
    plan_shards,
)
from data_prep.pretraining.beam_shards import WriteShard, deal_documents, finish, no_piece_for_each_shard
from data_prep.text.corpus import read_source_chunks
from data_prep.text.text_chunks import TextChunk
from data_prep.tokenized.corpus_writer import EncodedChunk
from data_prep.tokenized.tokenize_text import TextSettings, encode_chunk_with, graph_encoder
from keras_bert.program.quiet_tensorflow import quiet_tensorflow
from keras_bert.tokenization.tokenizer import Tokenizer


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
        | "CountChunk" >> beam.Map(count_chunk, job.options, job.tokenizer.special_tokens)
        | "GatherCounts" >> beam.CombineGlobally(GatherRows())
        | "PlanShards" >> beam.Map(plan_shards, job)
    )
    sizes = (
        encoded
        | "SizesOfParts" >> beam.FlatMap(count_shards, beam.pvalue.AsSingleton(whole_documents))
        | "SizesOfShards" >> beam.CombinePerKey(SumRows())
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


def read_chunks_of(source: tuple[int, str], text_field: str) -> Iterator[tuple[ChunkKey, TextChunk]]:
    """Reads one source."""
    number, name = source
    chunks = read_source_chunks(name, text_field, open_file=BeamFiles().open_input)
    for chunk_number, chunk in enumerate(chunks):
        yield (number, chunk_number), chunk


class Tokenize(beam.DoFn):
    """Text -> token ids. Each worker makes the graph once."""

    def __init__(self, tokenizer: Tokenizer, settings: TextSettings):
        self._tokenizer = tokenizer
        self._settings = settings

    def setup(self):
        quiet_tensorflow()
        self._encode = graph_encoder(self._tokenizer)

    def process(self, element: tuple[ChunkKey, TextChunk]) -> Iterator[tuple[ChunkKey, EncodedChunk]]:
        key, chunk = element
        encoded = encode_chunk_with(self._encode, chunk, self._tokenizer, self._settings)
        for name, number in encoded.counts().items():
            Metrics.counter(COUNTERS, name).inc(number)
        yield key, encoded
