"""Makes a stream of tokens from running text, for the training and evaluation of language models.

Example, in characters:
  python -m data_prep.create_language_model_data --input_file='train/*.txt' --kind=characters --output_dir=train_stream
  python -m data_prep.create_language_model_data --input_file='test/*.txt' --vocab_file=train_stream \\
      --output_dir=test_stream

The text stays as it is, line ends included. In words (--kind=words) a token is what stands between white space, and
<eos> ends each line.
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag
from keras_bert.tokenization.stream_vocabulary import KINDS

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "Text files: names, folders and patterns, separated by commas.")
    flags.DEFINE_string("output_dir", None, "The folder of the stream: new or empty.")
    flags.DEFINE_enum("kind", None, KINDS, "Make a vocabulary of this kind from the text.")
    flags.DEFINE_string("vocab_file", None, "A stream or model whose vocabulary to use, instead of --kind.")
    flags.DEFINE_integer("vocab_size", 0, "With --kind: the number of tokens, the most frequent ones; 0: all.")
    define_flag("min_count", 1, "With --kind: rarer tokens become <unk>.", at_least=1)
    flags.mark_flags_as_required(["input_file", "output_dir"])


def main() -> None:
    from data_prep.text.corpus import list_sources
    from data_prep.text.text_lines import MAX_LINE_BYTES, read_lines
    from keras_bert.program.atomic_output import check_output_folder
    from keras_bert.records.streams import write_stream
    from keras_bert.tokenization.stream_vocabulary import StreamVocabulary

    if (FLAGS.kind is None) == (FLAGS.vocab_file is None):
        raise InputError("Give --kind, to make a vocabulary, or --vocab_file, to use one.")
    if FLAGS.vocab_size and FLAGS.vocab_size < 3:
        raise InputError(f"vocab_size must be 0 (all tokens) or at least 3. Received: {FLAGS.vocab_size}")
    check_output_folder(FLAGS.output_dir)
    files = list_sources(FLAGS.input_file)

    def lines():
        return (line for file in files for line in read_lines(file, MAX_LINE_BYTES))

    if FLAGS.kind:
        vocabulary = StreamVocabulary.of_lines(lines(), FLAGS.kind, FLAGS.vocab_size, FLAGS.min_count)
    else:
        vocabulary = StreamVocabulary.find(FLAGS.vocab_file)
        if vocabulary is None:
            raise InputError(f"{FLAGS.vocab_file} has no stream_vocab.json. Give the folder of a stream or a model.")
    manifest = write_stream(FLAGS.output_dir, lines(), vocabulary, files)
    print(f"tokens          {manifest['num_tokens']:>15,}   {manifest['num_unknown']:,} of them <unk>")
    print(f"vocabulary      {len(vocabulary):>15,}   {vocabulary.kind}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
