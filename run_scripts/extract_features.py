"""Writes the vectors of every token of every text, layer by layer, like Google's extract_features.py.

An input line has one text, or two: "first text ||| second text". The output is Google's JSON Lines, or with
--output_format=npy a folder of arrays, which are much smaller and can be memory-mapped:
  vectors.npy     [tokens of all texts, layers, H], float32 or float16
  offsets.npy     [texts + 1]: text i has the rows offsets[i] to offsets[i + 1]
  token_ids.npy   [tokens of all texts]

Example:
  python -m run_scripts.extract_features --init_checkpoint=bert-base --input_file=texts.txt --output_file=features.jsonl
"""

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.asked_models import define_casing_flag, define_vector_flags
from run_scripts.run_flags import define_use_tpu


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "Texts, one per line, or pairs joined by ' ||| '.", required=True)
    flags.DEFINE_string("output_file", None, "The file of JSON Lines, or the folder of arrays.", required=True)
    define_use_tpu("Features are computed on TensorFlow's default device.")
    flags.DEFINE_enum("output_format", "jsonl", ["jsonl", "npy"], "JSON Lines or arrays.")
    flags.DEFINE_enum("dtype", "float32", ["float32", "float16"], "The dtype of the vectors in the arrays.")
    define_flag("layers", [-1, -2, -3, -4], "The layers: -1 is the last, 0 the first.", is_list=True)
    define_vector_flags("128, or all positions of a shorter model", has_pooling=False)
    define_casing_flag()


def main():
    from keras_bert.program.atomic_output import check_output_file, check_output_folder

    arguments = flags.FLAGS
    refuse_flags_without_effect(arguments.output_format == "npy", "without --output_format=npy", "dtype")
    if arguments.output_format == "jsonl":
        check_output_file(arguments.output_file, [arguments.input_file])
    else:
        check_output_folder(arguments.output_file)

    from keras_bert.embeddings.vector_files import extract_features
    from keras_bert.models.encoder_base import Encoder
    from keras_bert.records.token_rows import row_length

    encoder = Encoder.from_pretrained(
        arguments.init_checkpoint, do_lower_case=arguments.do_lower_case, output_hidden_states=True
    )
    how = flags_by_name("output_format", "dtype", "layers", "batch_size")
    how["max_seq_length"] = row_length(encoder.config, arguments.max_seq_length, 128)
    count = extract_features(encoder, arguments.input_file, arguments.output_file, **how)
    print(f"{arguments.output_file}: features of {count:,} texts")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
