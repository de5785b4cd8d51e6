"""Writes the vectors of texts, of any number of them, as files of Arrow or Parquet.

The texts are the lines of files, or a column of .csv, .tsv, .jsonl, .parquet and .arrow files and of data sets of
tensorflow_datasets. A file has the ids, the columns that --columns names, and the vectors: `vector`; of a SparseEncoder
`indices` and `values`; of a MultiVectorEncoder `vectors`. The texts are read twice, first to check and count them.
A command that was stopped, killed or had no space continues with the next file when it is run again.

The model is a checkpoint, or a folder of export_model --format=onnx or litert, which starts in a fraction of the time.
Pooling, prompts and maximum length are those of the folder; other checkpoints get the mean of all tokens.

The arguments after -- are options of Apache Beam, which then writes the same parts: docs/beyond_one_machine.md.

Example:
  python -m run_scripts.embed_sentences --init_checkpoint=minilm --input_file=texts.txt --output_dir=vectors
  python -m run_scripts.embed_sentences --init_checkpoint=exports/minilm --input_file='products/*.parquet' \
    --text_columns=title --id_column=sku --columns=title,year --format=parquet --output_dir=vectors --workers=8
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.predict_table import define_table_flags, write_table


def define_flags() -> None:
    define_table_flags(has_pooling=True)
    flags.DEFINE_bool("normalize", None, "Whether to make all vectors of length 1. Default: as the model does.")
    flags.DEFINE_string("prompt", None, "The name of the model's prompt to put before each text. Default: its default.")
    flags.DEFINE_enum("role", None, ["query", "document"], "What the texts are in a search; it selects the prompt.")
    define_flag("dimensions", None, "How many first numbers of a vector to keep. Default: all.", at_least=1)


def main(beam_options: list[str]) -> None:
    arguments = {"pooling": [flags.FLAGS.pooling]} if flags.FLAGS.pooling else {}
    options = flags_by_name("normalize", "prompt", "dimensions", "max_seq_length", "batch_size")
    write_table(load_encoder, options, arguments, flags.FLAGS.role, is_encoder=True, beam_options=beam_options)


def load_encoder(path: str, **arguments):
    """Returns the model of a checkpoint that makes vectors: of its own kind, or a `SentenceEncoder`."""
    from keras_bert.checkpoints.formats import read_checkpoint
    from keras_bert.checkpoints.model_classes import class_for
    from keras_bert.checkpoints.pretrained import model_of
    from keras_bert.serving.answer_batches import makes_vectors
    from keras_bert.tasks.embedding.model import SentenceEncoder

    checkpoint = read_checkpoint(path)
    own_class = class_for(checkpoint)[0]
    is_own = makes_vectors(own_class) and not arguments and not checkpoint.tells("SentenceEncoder")
    return model_of(own_class if is_own else SentenceEncoder, checkpoint, **arguments)


command = command_of(main, define_flags, passes_on=True)
if __name__ == "__main__":
    command()
