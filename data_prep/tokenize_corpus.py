"""Tokenises text once, into a folder that later runs of create_pretraining_data read.

Example:
  python -m data_prep.tokenize_corpus --input_file='text/*.txt' --vocab_file=vocab.txt --tokenized_corpus=corpus

`create_pretraining_data --tokenized_corpus` includes this step. This command tokenises only, adds more text with
--append, and checks a corpus with --verify. To resume a run that was stopped, give the same command again.
"""

from absl import flags

from data_prep.pretraining.record_flags import VOCAB_FILE_HELP, check_casing_flag
from data_prep.tokenized.document_filters import left_out_lines
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.option_flags import (
    define_flag,
    define_option_flags,
    flag_names,
    options_of_flags,
    refuse_unneeded_flags,
)

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns or tfds:NAME, separated by commas.")
    flags.DEFINE_string("vocab_file", None, f"{VOCAB_FILE_HELP} Default with --append: that of the corpus.")
    flags.DEFINE_string("tokenized_corpus", None, "The folder of the tokenised text.")
    define_option_flags(TextSettings)
    flags.DEFINE_bool("append", False, "Add the text to an existing corpus.")
    flags.DEFINE_bool("verify", False, "Compare every byte of the corpus with the hashes in its manifest.")
    define_flag("num_processes", None, "Processes that tokenise (default: one per core).", at_least=1)
    flags.mark_flag_as_required("tokenized_corpus")


def main() -> None:
    from data_prep.text.ordered_map import WorkerPool, available_cores
    from data_prep.tokenized.tokenize_text import tokenize_text
    from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
    from keras_bert.tokenization.kinds import load_vocabulary

    refuse_flags_without_effect(
        FLAGS.input_file,
        "without --input_file",
        *("vocab_file", "append", "num_processes"),
        *sorted(flag_names(TextSettings)),
    )
    refuse_unneeded_flags(TextSettings)
    if FLAGS.input_file:
        vocabulary = load_vocabulary(FLAGS.vocab_file or FLAGS.tokenized_corpus)
        check_casing_flag(vocabulary)
        with WorkerPool(FLAGS.num_processes or available_cores()) as pool:
            corpus = tokenize_text(
                FLAGS.input_file,
                FLAGS.tokenized_corpus,
                vocabulary,
                options_of_flags(TextSettings),
                append=FLAGS.append,
                pool=pool,
                show_progress=True,
            )
    else:
        corpus = TokenizedCorpus.open(FLAGS.tokenized_corpus)
    if FLAGS.verify:
        corpus.verify()
    print(f"documents       {corpus.num_documents:>15,}")
    print(f"sentences       {corpus.num_sentences:>15,}")
    for line in left_out_lines(corpus.manifest):
        print(line)
    print(f"tokens          {corpus.num_tokens:>15,}{'   every byte as written' if FLAGS.verify else ''}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
