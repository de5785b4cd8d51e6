"""The first step of the quickstart with a user's own text: checks that there is enough of it, before any work.

Each record file needs at least two sentences. Reading stops as soon as there are enough.
"""

import itertools

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns or tfds:NAME, separated by commas.")
    define_flag("num_shards", None, "The number of files of records.", required=True, at_least=1)
    flags.mark_flag_as_required("input_file")


def main() -> None:
    from data_prep.pretraining.pretraining_plan import sentences_needed, too_short_message
    from data_prep.text.corpus import input_size, read_documents
    from data_prep.text.sentences import split_documents

    task = "next_sentence"
    sentences = (sentence for document in split_documents(read_documents(FLAGS.input_file)) for sentence in document)
    needed = sentences_needed(FLAGS.num_shards, task)
    found = sum(1 for _ in itertools.islice(sentences, needed))
    if found < needed:
        raise InputError(too_short_message(found, input_size(FLAGS.input_file), FLAGS.num_shards, task))


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
