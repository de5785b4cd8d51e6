"""Converts a BERT checkpoint from any format to any other.

Input formats: model folders of keras_bert, TensorFlow 1 checkpoints of google-research/bert, TensorFlow 2 checkpoints
of TF Model Garden, folders of Hugging Face transformers (safetensors or bin), presets of KerasHub, and hf://owner/name.
Output formats: keras_bert, google and huggingface. Weights that the format cannot hold are listed.

With --static_size the output is a static model: a vector for each token, distilled from the input.

Examples:
  python -m run_scripts.convert_checkpoint --input=uncased_L-12_H-768_A-12 --output=hf-bert --format=huggingface
  python -m run_scripts.convert_checkpoint --input=all-MiniLM-L6-v2 --output=static --static_size=256 \\
      --texts_file=texts.txt
"""

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.long_work import long_work
from keras_bert.program.option_flags import define_flag, flags_by_name


def define_flags() -> None:
    flags.DEFINE_string("input", None, "A folder, a TensorFlow checkpoint, or hf://owner/name.", required=True)
    flags.DEFINE_string("output", None, "A new or empty folder.", required=True)
    # keras_hub is refused with what to do instead.
    formats = ["keras_bert", "google", "huggingface", "keras_hub"]
    flags.DEFINE_enum("format", "keras_bert", formats, "The format of the output: keras_bert, google or huggingface.")
    flags.DEFINE_bool("verify", False, "Compare input and output on texts, also by their own libraries if installed.")
    help = "The new number of positions: the table is cut, or extended by repeating it. By default it is unchanged."
    define_flag("max_position_embeddings", None, help, at_least=1)
    help = "Extends a RoBERTa to a Longformer, or a BERT to a BigBird, for rows of up to this many tokens."
    define_flag("max_positions", None, help, at_least=1)
    flags.DEFINE_string("new_tokens_file", None, "New tokens, one per line; each starts as the mean of its pieces.")
    define_flag("static_size", None, "Distil a static model with vectors of this many numbers.", at_least=1)
    flags.DEFINE_string("texts_file", None, "With --static_size: texts, whose counts of tokens set their weights.")
    flags.DEFINE_bool("do_lower_case", None, "The casing, if the input does not state it or states it wrongly.")
    flags.DEFINE_bool("trust_pickle", False, "Whether a pytorch_model.bin may run code, which tensors do not need.")
    flags.DEFINE_string("base", None, "The base model of an adapter of PEFT. By default the one that it names.")


def main():
    arguments = flags.FLAGS
    reading = {name: getattr(arguments, name) for name in ("do_lower_case", "trust_pickle", "base")}
    is_static = arguments.static_size is not None
    refuse_flags_without_effect(is_static, "without --static_size", "texts_file")
    refuse_flags_without_effect(
        not is_static, "with --static_size", "verify", "max_position_embeddings", "new_tokens_file"
    )
    if is_static:
        distil(arguments, reading)
        return

    from keras_bert.checkpoints.conversion import convert_checkpoint
    from keras_bert.checkpoints.resizing import read_new_tokens

    new_tokens = read_new_tokens(arguments.new_tokens_file) if arguments.new_tokens_file else ()
    how = flags_by_name("max_position_embeddings", "max_positions") | reading
    lines = convert_checkpoint(arguments.input, arguments.output, arguments.format, new_tokens=new_tokens, **how)
    print("\n".join(lines))
    if arguments.verify:
        from keras_bert.checkpoints.verification import verify

        with long_work("verifying"):
            for line in verify(arguments.input, arguments.output, **reading):
                print(line)


def distil(arguments, reading) -> None:
    """Writes a static model."""
    from data_prep.text.text_lines import read_lines
    from keras_bert.program.atomic_output import check_output_folder

    check_output_folder(arguments.output)
    texts = list(read_lines(arguments.texts_file)) if arguments.texts_file else None

    from keras_bert.tasks.embedding.model import SentenceEncoder
    from keras_bert.tasks.embedding.static_distillation import distil_static

    model = SentenceEncoder.from_pretrained(arguments.input, **reading)
    with long_work(f"distilling {arguments.input}"):
        static = distil_static(model, arguments.static_size, texts)
        static.save_pretrained(arguments.output, format=arguments.format)
    size = f"{len(static.vocabulary):,} vectors of {arguments.static_size} numbers"
    print(f"{arguments.output} ({arguments.format}): {size}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
