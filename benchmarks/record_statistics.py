"""How fast inspect_records takes its statistics, and in how much memory, on records that are there.

  python -m benchmarks.record_statistics --input_file=records --vocab_file=vocab.txt

A few records are read before, so that starting TensorFlow does not count. --repeat reads all of them so many times in
one go, as if they were different files: memory must not follow.
"""

import os
import resource
import time

from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "TFRecord files, folders or patterns.")
    flags.DEFINE_string("vocab_file", None, "Their vocabulary.")
    flags.DEFINE_integer("repeat", 1, "How often to read the files.")
    flags.mark_flags_as_required(["input_file", "vocab_file"])


def main() -> None:
    from data_prep.inspect_records import collect_statistics
    from data_prep.inspection.record_report import summarize
    from keras_bert.records.files import list_records
    from keras_bert.tokenization.vocabulary import Vocabulary

    vocabulary = Vocabulary.from_file(FLAGS.vocab_file)
    paths = list_records(FLAGS.input_file)
    collect_statistics(paths[:1], vocabulary, sample=1000)
    start = time.process_time()
    # A name can be there once only; "./" in front makes another of it.
    names = [repeat * "./" + os.path.relpath(path) for repeat in range(FLAGS.repeat) for path in paths]
    collected = collect_statistics(names, vocabulary)
    seconds = time.process_time() - start
    for statistics in collected.statistics:
        summary = summarize(statistics)
        print(
            f"{summary['num_records']:,} records, {summary['num_bytes'] / 1e6:,.0f} MB: "
            f"{summary['num_records'] / seconds:,.0f} records and {summary['num_bytes'] / seconds / 1e6:.0f} MB a CPU "
            f"second, at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB resident"
        )


if __name__ == "__main__":
    run_command(main, define_flags)
