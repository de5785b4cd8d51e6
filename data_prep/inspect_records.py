"""Shows the content of record files: some records as readable text, statistics of all records, and warnings.

Reads pre-training and fine-tuning records of this project, google-research/bert, NVIDIA and TF Model Garden, and
summarises the features of any other tf.train.Example; plain, gzip or zstd.

Example:
  python -m data_prep.inspect_records --input_file=records --output_dir=report

In the text, [MASK](brown) is a masked token with its label, dog(dog) an unchanged one, cat(dog) a replaced one. Damaged
files are read up to the damage, the damage is reported, and the exit code is 1.
"""

import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import flags

from keras_bert.program.atomic_output import check_output_file
from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import write_json
from keras_bert.program.printing import recordable

if TYPE_CHECKING:
    from data_prep.inspection.record_statistics import RecordStatistics
    from keras_bert.tokenization.tokenizer import TokenTable

STATISTICS_NAME = "statistics.json"
PLOT_NAME = "statistics.png"


class CollectedStatistics(NamedTuple):
    """The result of reading: statistics for each set of features that the files have (usually one), the number of
    records per file, and a line in words for each damaged file.
    """

    statistics: "list[RecordStatistics]"
    num_read: dict[str, int]
    damage: list[str]


def collect_statistics(
    paths: Sequence[str],
    vocabulary: "TokenTable | None" = None,
    *,
    sample: int = 0,
    show_progress: bool = False,
) -> CollectedStatistics:
    """Reads record files once, in bounded memory.

    Args:
        vocabulary: the vocabulary of the records. Without it, statistics that need it are left out.
        sample: read only about this many records, the first ones of every file; 0 reads all.
    """
    from data_prep.inspection.parsed_records import read_batches
    from data_prep.inspection.record_statistics import RecordStatistics
    from keras_bert.program.long_work import progress_bar

    most = math.ceil(sample / len(paths)) if sample else None
    by_features: dict[tuple, RecordStatistics] = {}
    num_read, damage = dict.fromkeys(paths, 0), []
    size = None if sample else sum(os.path.getsize(path) for path in paths if os.path.exists(path))
    with progress_bar(total=size, desc="reading", unit="B", unit_scale=True, disable=not show_progress) as bar:
        for path in paths:
            try:
                for columns in read_batches(path, most, bar.update):
                    key = tuple((name, column.values.dtype) for name, column in columns.items())
                    statistics = by_features.setdefault(key, RecordStatistics(vocabulary))
                    statistics.add(columns, path)
                    num_read[path] = statistics.records_by_file[path]
            except InputError as error:
                damage.append(f"{error} Records read before it: {num_read[path]:,}.")
    return CollectedStatistics(list(by_features.values()), num_read, damage)


def shown_records(
    paths: Sequence[str],
    vocabulary: "TokenTable | None" = None,
    *,
    num_examples: int = 3,
    first_record: int = 1,
) -> Iterator[str]:
    """Yields records as text, headed by the name of their file and their number.

    Args:
        first_record: number of the first record to show, in the first file that has so many; the first is 1.

    Raises:
        InputError: the files are damaged, or no file has this many records.
    """
    from data_prep.inspection.record_text import show_record
    from keras_bert.program.record_files import iterate_records

    num_shown = 0
    for path in paths:
        for number, record in enumerate(iterate_records(path), start=1):
            if number < first_record and not num_shown:
                continue
            if num_shown == num_examples:
                return
            num_shown += 1
            try:
                text = show_record(record, vocabulary)
            except InputError as error:
                text = str(error)
            yield f"{path}: record {number}\n{text}\n"
    if num_examples and not num_shown:
        raise InputError(f"There is no record {first_record:,} in these files. Give a smaller --first_record.")


FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "TFRecord files, folders or patterns, separated by commas.")
    flags.DEFINE_string(
        "vocab_file",
        None,
        "The vocabulary, a file or a folder (default: beside the records or in the folder above).",
    )
    flags.DEFINE_integer("num_examples", 3, "Records to show as text.")
    flags.DEFINE_integer("first_record", 1, "Number of the first record to show.")
    flags.DEFINE_bool("statistics", True, "Read all records and show statistics.")
    flags.DEFINE_integer("sample", 0, "Read about this many records for statistics, the first of each file (0: all).")
    flags.DEFINE_string("output_dir", None, f"A folder for {STATISTICS_NAME} and {PLOT_NAME}, which are replaced.")
    flags.DEFINE_bool("plot", True, f"With --output_dir: draw {PLOT_NAME}.")
    flags.mark_flag_as_required("input_file")


def main() -> None:
    from data_prep.inspection.record_plot import check_plotting
    from data_prep.inspection.record_surroundings import look_around
    from keras_bert.records.files import list_records

    refuse_flags_without_effect(FLAGS.output_dir, "without --output_dir", "plot")
    refuse_flags_without_effect(FLAGS.statistics, "with --nostatistics", "output_dir", "plot", "sample")
    refuse_flags_without_effect(FLAGS.num_examples, "with --num_examples=0", "first_record")
    if FLAGS.num_examples < 0 or FLAGS.first_record < 1 or FLAGS.sample < 0:
        raise InputError("num_examples and sample must be 0 or more, and first_record 1 or more.")
    if FLAGS.output_dir:
        if FLAGS.plot:
            check_plotting()
        for name in (STATISTICS_NAME, *([PLOT_NAME] if FLAGS.plot else [])):
            check_output_file(os.path.join(FLAGS.output_dir, name))
    paths = list_records(FLAGS.input_file)
    surroundings = look_around(paths, FLAGS.vocab_file)
    print(surroundings.note, end="\n\n")
    try:
        for text in shown_records(
            paths, surroundings.vocabulary, num_examples=FLAGS.num_examples, first_record=FLAGS.first_record
        ):
            print(text)
    except InputError:
        # The statistics report the damaged files, and read the others.
        if not FLAGS.statistics or FLAGS.first_record > 1:
            raise
    if FLAGS.statistics:
        _show_statistics(paths, surroundings)


def _show_statistics(paths: Sequence[str], surroundings) -> None:
    from data_prep.inspection.record_report import report_text, summarize
    from data_prep.inspection.record_surroundings import check_against_manifest

    collected = collect_statistics(paths, surroundings.vocabulary, sample=FLAGS.sample, show_progress=True)
    # A sample has fewer records than the manifest says.
    warnings = check_against_manifest({} if FLAGS.sample else collected.num_read, surroundings.num_records)
    summaries = [summarize(statistics, surroundings.mask_rate) for statistics in collected.statistics]
    for summary in summaries:
        print(report_text(summary))
    for warning in warnings + collected.damage:
        print(f"  {warning}")
    if FLAGS.output_dir:
        report = {
            "input": recordable(FLAGS.input_file),
            "num_records_by_file": collected.num_read,
            "warnings": warnings,
            "damage": collected.damage,
            "statistics": summaries,
        }
        _write_report(FLAGS.output_dir, report)
    if collected.damage:
        more = f" (and {len(collected.damage) - 1} more damaged files, above)" if len(collected.damage) > 1 else ""
        raise InputError(collected.damage[0] + more)
    if not collected.statistics:
        raise InputError(f"There is not one record in the {len(paths)} file(s) of {', '.join(FLAGS.input_file)}.")


def _write_report(folder: str, report: dict[str, Any]) -> None:
    from data_prep.inspection.record_plot import plot_summary

    write_json(os.path.join(folder, STATISTICS_NAME), report, indent=1)
    print(f"\nnumbers   {os.path.join(folder, STATISTICS_NAME)}")
    for number, summary in enumerate(report["statistics"] if FLAGS.plot else [], start=1):
        root, suffix = os.path.splitext(PLOT_NAME)
        path = os.path.join(folder, PLOT_NAME if number == 1 else f"{root}-{number}{suffix}")
        plot_summary(summary, path)
        print(f"picture   {path}")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
