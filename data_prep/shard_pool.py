"""Maps the shards of a tokenised corpus over processes: one shard in, one record file out."""

import concurrent.futures
import dataclasses
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

from data_prep.ordered_map import ctrl_c_held_back
from data_prep.pretraining_records import PretrainingOptions, shard_batches
from data_prep.record_folder import FinishedShard, RecordCounts
from data_prep.record_writer import write_records
from data_prep.tokenized_corpus import TokenizedCorpus
from keras_bert import features
from keras_bert.errors import InputError

# Called when examples are written: shard, number of records, and which share of the shard they are.
OnRecords = Callable[[int, int, float], None]


@dataclasses.dataclass(frozen=True)
class ShardJob:
    """What all processes need to know: which corpus becomes which files, and in which form.

    Args:
        paths: the file of each shard.
        use_v2_feature_names: TF Model Garden's names instead of Google's.
    """

    corpus_path: str
    options: PretrainingOptions
    paths: Sequence[str]
    compression: str = "none"
    use_v2_feature_names: bool = False

    @property
    def record(self) -> list[features.Feature]:
        """The features as they are named in the files."""
        return features.with_garden_names(self.options.features) if self.use_v2_feature_names else self.options.features


# In a worker process: set when all are to stop, so that each removes the file that it was writing; and, for each shard,
# how many records and which share are written.
_stop = None
_progress = None
_SECONDS_BETWEEN_REPORTS = 0.3


def write_shards(
    job: ShardJob, shards: Sequence[int], num_processes: int, on_records: OnRecords
) -> Iterator[tuple[int, FinishedShard]]:
    """Writes shards to their files and yields each as it is done; the bytes do not depend on the number of processes.

    When one fails, or on Ctrl-C, files that are whole stay, and nothing else does.

    Raises:
        InputError: a file cannot be written, or a process was killed.
    """
    if num_processes == 1 or len(shards) == 1:
        for shard in shards:
            yield shard, write_shard(job, shard, on_records)
        return
    # Spawned, not forked: TensorFlow's threads, should it be loaded, do not survive a fork.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    # Plain shared memory: a process that is killed can hold no lock.
    progress = _Progress(context.RawArray("q", len(job.paths)), context.RawArray("d", len(job.paths)))
    executor = concurrent.futures.ProcessPoolExecutor(
        min(num_processes, len(shards)), context, initializer=_start_worker, initargs=(stop, progress)
    )
    try:
        with ctrl_c_held_back():
            futures = {executor.submit(write_shard, job, shard): shard for shard in shards}
        seen = [(0, 0.0)] * len(job.paths)
        pending = set(futures)
        while pending:
            done, pending = concurrent.futures.wait(
                pending, _SECONDS_BETWEEN_REPORTS, concurrent.futures.FIRST_COMPLETED
            )
            for shard in shards:
                now = progress.num_records[shard], progress.shares[shard]
                if now != seen[shard]:
                    on_records(shard, now[0] - seen[shard][0], now[1] - seen[shard][1])
                    seen[shard] = now
            for future in done:
                yield futures[future], future.result()
    except BrokenProcessPool:
        raise InputError(
            "A process that was writing records was killed, most often for lack of memory. Use a smaller "
            "--num_processes. The same command goes on with the files that are missing."
        ) from None
    finally:
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def write_shard(job: ShardJob, shard: int, on_records: OnRecords | None = None) -> FinishedShard:
    """Writes one shard to its file."""
    counts = RecordCounts()

    def on_batch(batch, share: float) -> None:
        nonlocal counts
        if _stop is not None and _stop.is_set():
            raise KeyboardInterrupt
        of_batch = RecordCounts.of_batch(batch)
        counts += of_batch
        if on_records:
            on_records(shard, of_batch.num_records, share)
        if _progress is not None:
            _progress.num_records[shard] += of_batch.num_records
            _progress.shares[shard] += share

    batches = shard_batches(TokenizedCorpus.open(job.corpus_path), job.options, shard, len(job.paths))
    if job.use_v2_feature_names:
        batches = ((features.to_garden_names(batch), share) for batch, share in batches)
    file = write_records(job.paths[shard], batches, job.record, on_batch, job.compression)
    return FinishedShard(file, counts)


class _Progress(NamedTuple):
    num_records: Sequence[int]
    shares: Sequence[float]


def _start_worker(stop, progress: _Progress) -> None:
    global _stop, _progress
    _stop, _progress = stop, progress
