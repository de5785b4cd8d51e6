"""Writes the answers of a model about the texts of a table, of any number of them, as files of Arrow or Parquet.

It is `embed_sentences` for models of all other tasks: a file has the ids, the columns that --columns names, and the
fields of the answers that `predict` returns, such as `label` and `probability`, `entities`, or `text`, `start` and
`end`. A command that was stopped continues with the next file when it is run again.

Example:
  python -m run_scripts.predict_table --init_checkpoint=exports/sentiment --input_file=reviews.parquet \
    --text_columns=review --id_column=id --output_dir=labels
  python -m run_scripts.predict_table --init_checkpoint=exports/squad --input_file=asked.jsonl \
    --text_columns=question,context --id_column=id --output_dir=answers --format=parquet
"""

from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import flags_by_name
from run_scripts.table_answers import define_table_flags, write_table


def define_flags() -> None:
    define_table_flags(has_pooling=False)


def main(beam_options: list[str]) -> None:
    write_table(load_model, {}, None, flags_by_name("max_seq_length", "batch_size"), beam_options)


def load_model(path: str):
    """Returns the model of a checkpoint, of the kind that its files say."""
    from keras_bert.checkpoints.pretrained import from_pretrained

    return from_pretrained(None, path)


command = command_of(main, define_flags, passes_on=True)
if __name__ == "__main__":
    command()
