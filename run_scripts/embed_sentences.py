"""Writes one vector for each line of a text file, as a NumPy array `[lines, H]`.

The model is a checkpoint, or a folder of export_model --format=onnx or litert, which starts in a fraction of the time.
Pooling, prompts and maximum length are those of the folder; other checkpoints get the mean of all tokens. The product
of two vectors is their similarity.

Example:
  python -m run_scripts.embed_sentences --init_checkpoint=minilm --input_file=texts.txt --output_file=vectors.npy
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import flags_by_name
from run_scripts.asked_models import define_runtime_flags, define_vector_flags, open_model


def define_flags() -> None:
    flags.DEFINE_string(
        "init_checkpoint", None, "A checkpoint of any format with its vocabulary, or an exported folder.", required=True
    )
    flags.DEFINE_string("input_file", None, "Texts, one per line.", required=True)
    flags.DEFINE_string("output_file", None, "The .npy file to write.", required=True)
    flags.DEFINE_bool("normalize", True, "Whether to make all vectors of length 1.")
    flags.DEFINE_string("prompt", None, "The name of the model's prompt to put before each text. Default: its default.")
    define_vector_flags()
    define_runtime_flags()


def main():
    from keras_bert.program.atomic_output import check_output_file

    arguments = flags.FLAGS
    check_output_file(arguments.output_file, [arguments.input_file])

    from keras_bert.embeddings.vector_files import embed_sentences

    pooling = {"pooling": [arguments.pooling]} if arguments.pooling else {}
    encoder = open_model("SentenceEncoder", arguments.init_checkpoint, **pooling)
    how = flags_by_name("normalize", "prompt", "max_seq_length", "batch_size")
    shape = embed_sentences(encoder, arguments.input_file, arguments.output_file, **how)
    print(f"{arguments.output_file}: {shape[0]:,} vectors of {shape[1]} numbers")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
