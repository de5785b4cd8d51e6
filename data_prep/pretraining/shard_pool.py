"""Maps the shards of a tokenised corpus over processes: one shard in, one record file out.

If there are more processes than shards, each shard has several: one writes its file, and the others make its records,
one pass over one block of documents at a time.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from data_prep.pretraining.document_block import DocumentBlock, count_shard_tokens, count_tokens, shard_blocks
from data_prep.pretraining.document_dealing import Dealing
from data_prep.pretraining.pretraining_records import RecordForm, pass_batches, shard_batches
from data_prep.pretraining.record_folder import FinishedShard, RecordCounts
from data_prep.pretraining.record_writer import write_encoded
from data_prep.text.ordered_map import WorkerPool, ctrl_c_held_back
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.atomic_output import PARTIAL, explain_write_errors
from keras_bert.program.errors import InputError

# For less text, counting every pass, starting a process takes longer than it saves.
_TOKENS_PER_PROCESS = 5_000_000
# Bytes of a finished pass that are read at a time.
_READ_BYTES = 1_000_000

_REPORT_SECONDS = 0.3

# Called when examples are written, with the shard, the number of records, and their share of the shard.
OnRecords = Callable[[int, int, float], None]
# Encoded records: bytes of a file, their counts, and their share of the file.
_Piece = tuple[bytes, RecordCounts, float]
# In a worker process: it reports to the main process, and ends the work when that says so.
_report: OnRecords | None = None


@dataclasses.dataclass(frozen=True)
class ShardJob:
    """The description of a job, which all processes get: the form of the records, the corpus, and all files."""

    form: RecordForm
    corpus_path: str
    paths: Sequence[str]
    dealing: Dealing


def write_shards(
    job: ShardJob, shards: Sequence[int], pool: WorkerPool, on_records: OnRecords
) -> Iterator[tuple[int, FinishedShard]]:
    """Writes shards to their files and yields each when it is finished. The bytes do not depend on the number of
    processes.

    After an error or Ctrl-C, complete files are kept and unfinished ones are removed. Raises `InputError` if a file
    cannot be written, or a process was killed.
    """
    if pool.num_processes == 1 or len(shards) == 1:
        for shard in shards:
            yield shard, write_shard(job, shard, on_records, pool)
        return
    pool.close()  # this job needs differently initialised processes
    num_each = max(pool.num_processes // len(shards), 1)
    # Spawned instead of forked: if TensorFlow is loaded, its threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    # Shared memory without a lock, since a killed process could keep a lock forever.
    num_records, shares = context.RawArray("q", len(job.paths)), context.RawArray("d", len(job.paths))
    executor = concurrent.futures.ProcessPoolExecutor(
        min(pool.num_processes, len(shards)), context, initializer=_start_worker, initargs=(stop, num_records, shares)
    )
    try:
        with ctrl_c_held_back():
            futures = {executor.submit(_write_shard_with, job, shard, num_each): shard for shard in shards}
        seen = [(0, 0.0)] * len(job.paths)
        pending = set(futures)
        while pending:
            done, pending = concurrent.futures.wait(pending, _REPORT_SECONDS, concurrent.futures.FIRST_COMPLETED)
            for shard in shards:
                now = num_records[shard], shares[shard]
                if now != seen[shard]:
                    on_records(shard, now[0] - seen[shard][0], now[1] - seen[shard][1])
                    seen[shard] = now
            for future in done:
                yield futures[future], future.result()
    except BrokenProcessPool:
        raise InputError(
            "A process that was writing records was killed, most often for lack of memory. Use a smaller "
            "--num_processes. The same command writes the missing files."
        ) from None
    finally:
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def write_shard(
    job: ShardJob, shard: int, on_records: OnRecords | None = None, pool: WorkerPool | None = None
) -> FinishedShard:
    """Writes one shard to its file. With a pool of several processes, these make the records, and this one writes."""
    corpus = TokenizedCorpus.open(job.corpus_path)
    num_tokens = count_shard_tokens(corpus, job.dealing, shard)
    pool = pool or WorkerPool(1)
    num_processes = min(pool.num_processes, num_tokens * job.form.options.dupe_factor // _TOKENS_PER_PROCESS)
    counts = RecordCounts()

    def written(pieces: Iterator[_Piece]) -> Iterator[tuple[bytes, int]]:
        nonlocal counts
        for data, piece_counts, share in pieces:
            yield data, piece_counts.num_records
            counts += piece_counts
            if on_records:
                on_records(shard, piece_counts.num_records, share)

    if num_processes > 1:
        made = _make_in_processes(corpus, job, shard, pool, num_processes)
    else:
        batches = shard_batches(corpus, job.form.options, job.dealing, shard)
        made = ((*job.form.encode(batch), share) for batch, share in batches)
    with contextlib.closing(made) as pieces:
        file = write_encoded(job.paths[shard], written(pieces), job.form.compression)
    return FinishedShard(file, counts)


def _write_shard_with(job: ShardJob, shard: int, num_processes: int) -> FinishedShard:
    """As `write_shard`, with a pool of its own, in a process of another pool."""
    with WorkerPool(num_processes) as pool:
        return write_shard(job, shard, _report, pool)


def _make_in_processes(
    corpus: TokenizedCorpus, job: ShardJob, shard: int, pool: WorkerPool, num_processes: int
) -> Iterator[_Piece]:
    """Makes the records of a shard in several processes, one pass over a block at a time.

    The passes are passed as files in the folder of the shard: pipes would take a fifth of the total time.
    """
    folder, name = os.path.split(os.path.abspath(job.paths[shard]))
    job = dataclasses.replace(job, paths=())  # there may be many, and the job is sent with each pass
    num_tokens = count_shard_tokens(corpus, job.dealing, shard)
    blocks = (
        (_BlockOfShard(corpus.path, shard, number, ranges), count_tokens(corpus, ranges).sum() / num_tokens)
        for number, ranges in enumerate(shard_blocks(corpus, job.dealing, shard))
    )
    passes = ((block, share, number) for block, share in blocks for number in range(job.form.options.dupe_factor))
    with tempfile.TemporaryDirectory(prefix=f".{name}{PARTIAL}passes-", dir=folder) as parts:
        make = functools.partial(_make_pass, job, parts)
        with contextlib.closing(pool.map(make, passes, num_processes)) as made:
            for path, counts, share in made:
                with open(path, "rb") as file:
                    while data := file.read(_READ_BYTES):
                        yield data, counts, share
                        counts, share = RecordCounts(), 0.0
                os.remove(path)


@dataclasses.dataclass(frozen=True)
class _BlockOfShard:
    """The place of a block, which identifies it; `ranges` are its sentences."""

    corpus_path: str
    shard: int
    number: int
    ranges: np.ndarray = dataclasses.field(compare=False)


def _make_pass(
    job: ShardJob, folder: str, block_and_pass: tuple[_BlockOfShard, float, int]
) -> tuple[str, RecordCounts, float]:
    """Makes the records of one pass over one block, which is the given share of its shard, as a file in a folder."""
    (block_of_shard, block_share, number), options = block_and_pass, job.form.options
    shard, block_number = block_of_shard.shard, block_of_shard.number
    corpus, block = _gather(block_of_shard)
    path = os.path.join(folder, f"{block_number}-{number}")
    counts = RecordCounts()
    with explain_write_errors(path), open(path, "wb") as file:
        for batch, _ in pass_batches(block, options, corpus.vocabulary, shard, block_number, number):
            data, batch_counts = job.form.encode(batch)
            file.write(data)
            counts += batch_counts
    return path, counts, block_share / options.dupe_factor


@functools.lru_cache(maxsize=1)
def _gather(place: _BlockOfShard) -> tuple[TokenizedCorpus, DocumentBlock]:
    """Copies a block from its corpus, once for all passes that this process makes of it.

    Only processes that work for a single shard call this: in others, the corpus at a path may change.
    """
    corpus = TokenizedCorpus.open(place.corpus_path)
    return corpus, DocumentBlock.gather_ranges(corpus, place.ranges)


def _start_worker(stop, num_records, shares) -> None:
    def report(shard: int, number: int, share: float) -> None:
        if stop.is_set():
            raise KeyboardInterrupt  # removes the unfinished file
        num_records[shard] += number
        shares[shard] += share

    global _report
    _report = report
