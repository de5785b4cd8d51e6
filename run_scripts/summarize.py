"""Prints the main sentences of a text, in their order.

Example:
  python -m run_scripts.summarize --init_checkpoint=minilm --input_file=article.txt --num_sentences=3
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.asked_models import define_casing_flag, read_texts


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "The text.", required=True)
    flags.DEFINE_string("output_file", None, "A JSON file for all sentences, with scores and offsets.")
    define_flag("num_sentences", 3, "The number of sentences to select.", at_least=1)
    flags.DEFINE_enum("method", "centrality", ["centrality", "centroid"], "As LexRank, or by similarity to the mean.")
    flags.DEFINE_float("diversity", 0.3, "The penalty for similarity to sentences selected before.", 0.0, 1.0)
    flags.DEFINE_string("language", "en", "ISO 639 code of the language, for splitting into sentences.")
    define_casing_flag()


def main():
    from keras_bert.program.atomic_output import check_output_file
    from keras_bert.program.json_files import write_json

    arguments = flags.FLAGS
    if arguments.output_file:
        check_output_file(arguments.output_file, [arguments.input_file])
    text = "\n".join(read_texts(arguments.input_file))

    import dataclasses

    from keras_bert.embeddings.summarization import summarize
    from keras_bert.models.encoder_base import Encoder

    encoder = Encoder.from_pretrained(arguments.init_checkpoint, do_lower_case=arguments.do_lower_case)
    how = flags_by_name("method", "diversity", "language")
    summary = summarize(encoder, text, arguments.num_sentences, **how)
    if arguments.output_file:
        write_json(arguments.output_file, dataclasses.asdict(summary), indent=1)
    for sentence in summary.chosen:
        print(sentence.text)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
