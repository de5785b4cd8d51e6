"""Maps the shards of a tokenised corpus over processes: one shard in, one record file out."""

import concurrent.futures
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool

from data_prep.pretraining_records import PretrainingOptions, shard_batches
from data_prep.record_writer import RecordCounts, write_records
from data_prep.tokenized_corpus import TokenizedCorpus
from keras_bert.errors import InputError
from keras_bert.quiet_tensorflow import quiet_tensorflow

# Called when examples are written: shard, number of examples, and which share of the shard they are.
OnExamples = Callable[[int, int, float], None]

# In a worker process: set when the others are to stop too.
_stop = None


def write_shards(
    corpus_path: str,
    options: PretrainingOptions,
    paths: Sequence[str],
    num_processes: int,
    on_examples: OnExamples,
) -> list[RecordCounts]:
    """Writes shard i of the corpus to `paths[i]`; the bytes do not depend on the number of processes.

    When one shard fails, or on Ctrl-C, files that are whole stay, and nothing else does.

    Raises:
        InputError: a file cannot be written, or a process was killed.
    """
    if num_processes == 1 or len(paths) == 1:
        return [write_shard(corpus_path, options, paths, shard, on_examples) for shard in range(len(paths))]
    # Spawned, not forked: TensorFlow's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    executor = concurrent.futures.ProcessPoolExecutor(
        min(num_processes, len(paths)), context, initializer=_start_worker, initargs=(stop,)
    )
    try:
        futures = {
            executor.submit(write_shard, corpus_path, options, paths, shard): shard for shard in range(len(paths))
        }
        for future in concurrent.futures.as_completed(futures):
            on_examples(futures[future], future.result().num_examples, 1.0)
        return [future.result() for future in futures]
    except BrokenProcessPool:
        raise InputError(
            "A process that was writing records was killed, most often for lack of memory. Use a smaller "
            "--num_processes or a larger --num_shards."
        ) from None
    finally:
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def write_shard(
    corpus_path: str,
    options: PretrainingOptions,
    paths: Sequence[str],
    shard: int,
    on_examples: OnExamples | None = None,
) -> RecordCounts:
    """Writes one shard to its file."""

    def on_batch(num_examples: int, share: float) -> None:
        if _stop is not None and _stop.is_set():
            raise KeyboardInterrupt
        if on_examples:
            on_examples(shard, num_examples, share)

    batches = shard_batches(TokenizedCorpus.open(corpus_path), options, shard, len(paths))
    return write_records(paths[shard], batches, options.features, on_batch)


def _start_worker(stop) -> None:
    global _stop
    _stop = stop
    quiet_tensorflow()
    # Ctrl-C reaches every process of the terminal. The main one answers it and tells the others through `stop`, so
    # that each removes the file it was writing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
