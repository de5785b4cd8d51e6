"""Converts a BERT checkpoint from any format to any other.

Input formats: model folders of keras_bert, TensorFlow 1 checkpoints of google-research/bert, TensorFlow 2 checkpoints
of TF Model Garden, folders of Hugging Face transformers (safetensors or bin), presets of KerasHub, and hf://owner/name.
Output formats: keras_bert, google and huggingface. Weights that the format cannot hold are listed.

Example:
  python -m run_scripts.convert_checkpoint --input=uncased_L-12_H-768_A-12 --output=hf-bert --format=huggingface
"""

from absl import flags

from keras_bert.program.command_line import run_command


def define_flags() -> None:
    flags.DEFINE_string(
        "input", None, "A folder, the prefix of a TensorFlow checkpoint, or hf://owner/name.", required=True
    )
    flags.DEFINE_string("output", None, "A new or empty folder.", required=True)
    flags.DEFINE_enum("format", "keras_bert", ["keras_bert", "google", "huggingface"], "The format of the output.")
    flags.DEFINE_bool(
        "verify", False, "Whether to compare input and output on texts, also with their own libraries if installed."
    )
    flags.DEFINE_integer(
        "max_position_embeddings",
        None,
        "The new number of positions: the table is cut, or extended by repeating it. By default it is unchanged.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "max_positions",
        None,
        "Extends a RoBERTa to a Longformer, or a BERT to a BigBird, for rows of up to this many tokens.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "new_tokens_file", None, "Tokens to add to the vocabulary, one per line; each starts as the mean of its pieces."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "The casing, if the input does not state it or states it wrongly. By default it is detected.",
    )
    flags.DEFINE_bool("trust_pickle", False, "Whether a pytorch_model.bin may run code, which tensors do not need.")


def main():
    from keras_bert.checkpoints.conversion import convert_checkpoint
    from keras_bert.checkpoints.resizing import read_new_tokens

    arguments = flags.FLAGS
    reading = {"do_lower_case": arguments.do_lower_case, "trust_pickle": arguments.trust_pickle}
    new_tokens = read_new_tokens(arguments.new_tokens_file) if arguments.new_tokens_file else ()
    lines = convert_checkpoint(
        arguments.input,
        arguments.output,
        arguments.format,
        max_position_embeddings=arguments.max_position_embeddings,
        max_positions=arguments.max_positions,
        new_tokens=new_tokens,
        **reading,
    )
    print("\n".join(lines))
    if arguments.verify:
        from keras_bert.checkpoints.verification import verify

        for line in verify(arguments.input, arguments.output, **reading):
            print(line)


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
