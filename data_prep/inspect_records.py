"""Shows the content of record files: some records as readable text, and counts of all.

Reads pre-training and fine-tuning records of this project, google-research/bert, NVIDIA and TF Model Garden, and counts
the features of any other tf.train.Example; plain, gzip or zstd.

Example:
  python -m data_prep.inspect_records --input_file=records

In the text, [MASK](brown) is a masked token with its label, dog(dog) an unchanged one, cat(dog) a replaced one. Damaged
files are read up to the damage, the damage is reported, and the exit code is 1.
"""

import math
import os
from collections.abc import Iterator, Sequence

from absl import flags

from data_prep.inspection.record_counts import RecordCounts
from data_prep.inspection.record_text import show_record
from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag
from keras_bert.tokenization.tokenizer import TokenTable


def count_records(
    paths: Sequence[str], vocabulary: TokenTable | None = None, *, sample: int = 0, show_progress: bool = False
) -> tuple[RecordCounts, list[str]]:
    """Reads record files once, in bounded memory: of all, or the first of each file, about `sample` together.

    Returns the counts, and a line in words for each damaged file, which is counted up to the damage. Without a
    vocabulary, counts that need it are left out.
    """
    from keras_bert.program.long_work import progress_bar

    most = math.ceil(sample / len(paths)) if sample else None
    counts, damage = RecordCounts(vocabulary), []
    size = None if sample else sum(os.path.getsize(path) for path in paths if os.path.exists(path))
    with progress_bar(total=size, desc="reading", unit="B", unit_scale=True, disable=not show_progress) as bar:
        for path in paths:
            before = counts.num_records
            try:
                counts.read(path, most, bar.update)
            except InputError as error:
                damage.append(f"{error} Records read before it: {counts.num_records - before:,}.")
    return counts, damage


def shown_records(
    paths: Sequence[str], vocabulary: TokenTable | None = None, *, num_examples: int = 3, first_record: int = 1
) -> Iterator[str]:
    """Yields records as text, headed by the name of their file and their number.

    `first_record` is the number, from 1, of the first to show, in the first file that has so many. Raises `InputError`
    if the files are damaged, or no file has this many records.
    """
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


def vocabulary_of_records(paths: Sequence[str], vocab_file: str | None = None) -> tuple[TokenTable | None, str]:
    """Returns the vocabulary of record files, and where it is in words. Without one, ids stand for tokens.

    It is looked for beside the records and in the folder above, and used when the manifests beside the records have its
    hash, or have none. Raises `InputError` if the vocabulary that the user named cannot be read.
    """
    from keras_bert.records.manifests import read_manifests, real_path, vocabulary_hashes
    from keras_bert.tokenization.kinds import find_vocabulary, load_vocabulary

    # A file that is a link has its manifest where it leads to.
    folders = sorted({os.path.dirname(place(path)) for path in paths for place in (os.path.abspath, real_path)})
    manifests = [manifest for folder in folders for _, manifest in read_manifests(folder)]
    hashes = {value for manifest in manifests for value in vocabulary_hashes(manifest)}
    if vocab_file is not None:
        vocabulary = load_vocabulary(vocab_file)
        differs = hashes and vocabulary.sha256 not in hashes
        return vocabulary, f"{vocab_file}{', which is not the one that the manifest has' if differs else ''}"
    for folder in dict.fromkeys(place for beside in folders for place in (beside, os.path.dirname(beside))):
        try:
            vocabulary = find_vocabulary(folder)
        except InputError:
            continue
        if vocabulary is not None and (not hashes or vocabulary.sha256 in hashes):
            return vocabulary, folder
    return None, "there is none of these records beside them, so ids are shown (--vocab_file names one)"


FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "TFRecord files, folders or patterns, separated by commas.")
    flags.DEFINE_string("vocab_file", None, "A file or folder (default: beside the records or in the folder above).")
    define_flag("num_examples", 3, "Records to show as text.", at_least=0)
    define_flag("first_record", 1, "Number of the first record to show.", at_least=1)
    flags.DEFINE_bool("statistics", True, "Read all records and show counts.")
    define_flag("sample", 0, "Count about this many records, the first ones of each file (0: all).", at_least=0)
    flags.mark_flag_as_required("input_file")


def main() -> None:
    from keras_bert.records.files import list_records

    refuse_flags_without_effect(FLAGS.statistics, "with --nostatistics", "sample")
    refuse_flags_without_effect(FLAGS.num_examples, "with --num_examples=0", "first_record")
    paths = list_records(FLAGS.input_file)
    vocabulary, where = vocabulary_of_records(paths, FLAGS.vocab_file)
    print(f"vocabulary: {where}", end="\n\n")
    try:
        for text in shown_records(paths, vocabulary, num_examples=FLAGS.num_examples, first_record=FLAGS.first_record):
            print(text)
    except InputError:
        # The counts report the damaged files, and read the others.
        if not FLAGS.statistics or FLAGS.first_record > 1:
            raise
    if FLAGS.statistics:
        _show_counts(paths, vocabulary)


def _show_counts(paths: Sequence[str], vocabulary: TokenTable | None) -> None:
    counts, damage = count_records(paths, vocabulary, sample=FLAGS.sample, show_progress=True)
    if not counts.num_records and not damage:
        raise InputError(f"There is not one record in the {len(paths)} file(s) of {', '.join(FLAGS.input_file)}.")
    print(counts.text())
    for line in damage:
        print(f"  {line}")
    if damage:
        more = f" (and {len(damage) - 1} more damaged files, above)" if len(damage) > 1 else ""
        raise InputError(damage[0] + more)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
