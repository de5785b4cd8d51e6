"""Writes one vector for each line of a text file, as a NumPy array `[lines, H]`.

The vectors are the mean over all tokens, with length 1, so dot products are similarities.

Example:
  python -m run_scripts.embed_sentences --init_checkpoint=minilm --input_file=texts.txt --output_file=vectors.npy
"""

from absl import flags

from keras_bert.program.command_line import run_command


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "Texts, one per line.", required=True)
    flags.DEFINE_string("output_file", None, "The .npy file to write.", required=True)
    flags.DEFINE_enum("pooling", "mean", ["mean", "first"], "The mean of all tokens, or the vector of [CLS].")
    flags.DEFINE_bool("normalize", True, "Whether to scale all vectors to length 1.")
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Longer texts are cut to this many tokens. Default: 256, or all positions of a shorter model.",
        lower_bound=3,
    )
    flags.DEFINE_integer("batch_size", 32, "Number of texts per batch.", lower_bound=1)


def main():
    from keras_bert.program.atomic_output import check_output_file

    arguments = flags.FLAGS
    check_output_file(arguments.output_file)

    from keras_bert.embeddings.vector_files import embed_sentences
    from keras_bert.models.encoder import BertEncoder
    from keras_bert.records.token_rows import row_length

    encoder = BertEncoder.from_pretrained(arguments.init_checkpoint)
    shape = embed_sentences(
        encoder,
        arguments.input_file,
        arguments.output_file,
        pooling=arguments.pooling,
        normalize=arguments.normalize,
        max_seq_length=row_length(encoder.config, arguments.max_seq_length, 256),
        batch_size=arguments.batch_size,
    )
    print(f"{arguments.output_file}: {shape[0]:,} vectors of {shape[1]} numbers")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
