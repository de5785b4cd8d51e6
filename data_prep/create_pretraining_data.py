"""Makes pre-training records from text: masked tokens and sentence pairs, as TFRecord files.

The text has one sentence per line and a blank line between documents; with --split_sentences, lines may be paragraphs.
It may come from files, folders, patterns, .gz, .jsonl, .parquet and tensorflow_datasets names. Records and flags are
those of google-research/bert.

Example:
  python -m data_prep.create_pretraining_data --input_file='text/*.txt' --vocab_file=vocab.txt --output_dir=records

The text is tokenised once and then read `dupe_factor` times, each time cut and masked anew. A seeded hash assigns
documents to output files. A random next sentence comes from another document of the same file, so each file should have
at least a hundred documents. If there are too few documents for every file to have a record, parts of documents are
assigned. The same text, flags and seed give the same bytes, with any number of processes. To resume a run that was
stopped, give the same command again.
"""

from absl import flags

from data_prep.pretraining import record_flags
from data_prep.pretraining.local_run import create_pretraining_data, verify_pretraining_data
from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.option_flags import define_flag, flags_by_name

__all__ = ["command", "create_pretraining_data", "verify_pretraining_data"]

FLAGS = flags.FLAGS


def define_flags() -> None:
    help = "Instead of --output_dir: TFRecord files to write, separated by commas. Existing files are replaced."
    flags.DEFINE_list("output_file", None, help)
    record_flags.define_record_flags()
    help = "A folder that keeps the tokenised text, for further runs with other lengths, masks or seeds."
    flags.DEFINE_string("tokenized_corpus", None, help)
    define_flag("num_processes", None, "Processes that tokenise and write (default: one per core).", at_least=1)
    flags.DEFINE_bool("verify", False, "Write nothing: compare every byte of --output_dir with its manifest.")
    flags.register_multi_flags_validator(
        ["vocab_file", "verify"],
        lambda values: values["vocab_file"] or values["verify"],
        message="Give --vocab_file, the vocabulary.",
    )


def main() -> None:
    refuse_flags_without_effect(FLAGS.output_dir, "without --output_dir", "num_shards")
    defined = [flag for module in (__name__, record_flags) for flag in FLAGS.get_key_flags_for_module(module)]
    read = ("output_file", "output_dir", "tokenized_corpus", "verify")
    made = [flag.name for flag in defined if flag.name not in read]
    refuse_flags_without_effect(not FLAGS.verify, "with --verify", *made)
    if FLAGS.verify:
        manifest = verify_pretraining_data(
            FLAGS.output_file, FLAGS.output_dir, FLAGS.tokenized_corpus, show_progress=True
        )
        print(f"{len(manifest['files'])} files, {manifest['records']['num_records']:,} records: all as written")
        return
    from data_prep.inspection.record_text import show_record
    from data_prep.text.ordered_map import available_cores
    from keras_bert.program.record_files import iterate_records
    from keras_bert.tokenization.kinds import load_vocabulary

    summary = create_pretraining_data(
        **record_flags.record_arguments(),
        **flags_by_name("output_file", "output_dir", "num_shards", "tokenized_corpus"),
        num_processes=FLAGS.num_processes or available_cores(),
        show_progress=True,
    )
    print(summary)
    first_record = next(record for path in summary.files for record in iterate_records(path))
    print(f"\nfirst example\n{show_record(first_record, load_vocabulary(FLAGS.vocab_file))}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
