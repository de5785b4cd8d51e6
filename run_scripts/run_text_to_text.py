"""Trains, evaluates and applies a model that writes a target text for a source text: translation, summaries.

Reads .tsv, .csv, .jsonl and .parquet files with a column for the source and one for the target:

    run_text_to_text --train_file=train.tsv --dev_file=dev.tsv --test_file=test.tsv --source_column=en \\
        --target_column=de --init_checkpoint=bert-base-uncased --output_dir=runs/en_de --do_train --do_eval --do_predict

Writes to output_dir: model/, eval_results.txt (loss, perplexity and accuracy of the targets' tokens), eval_report/,
test_predictions.tsv, and test_results.txt with BLEU and ROUGE if the test file has targets and sacrebleu and
rouge-score are installed. If the command is killed or stopped, the same command resumes from the newest checkpoint.
docs/text_to_text.md describes all of it.
"""

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import define_option_flags, flag_values, flags_by_name
from keras_bert.tasks.text_to_text.search_options import SearchOptions
from run_scripts.fine_tuning_flags import data_files, define_data_file_flags, define_fine_tuning_flags, run_task

FLAGS = flags.FLAGS


def define_flags() -> None:
    define_data_file_flags("Sources and targets", "train.csv, train.tsv, train.jsonl ...")
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    flags.DEFINE_string("source_column", "source", "The column of the sources: a name, or a number from 0.")
    flags.DEFINE_string("target_column", "target", "The column of the targets.")
    flags.DEFINE_boolean("shared", False, "Whether the decoder shares the weights of the encoder.")
    flags.DEFINE_float("label_smoothing", 0.1, "The share of the loss that is spread over the whole vocabulary.")
    define_option_flags(SearchOptions)
    define_fine_tuning_flags(has_probabilities=False)


def main() -> None:
    # All files are read before TensorFlow is loaded, so that errors appear early.
    parts = {part: _read(path, needs_targets=part != "predict") for part, path in data_files().items()}
    search = flag_values(SearchOptions)
    SearchOptions(**search)  # reports bad values before the training
    arguments = flags_by_name("shared", "label_smoothing")
    run_task("TextToText", parts, "token_accuracy", model_arguments=arguments, answer_options=search)


def _read(path: str, needs_targets: bool = True):
    from data_prep.finetuning.labelled_text import read_sources_and_targets
    from keras_bert.tasks.text_to_text.examples import TextToTextExamples

    how = flags_by_name("source_column", "target_column", "has_header", "skip_missing")
    sources, targets = read_sources_and_targets(path, needs_targets=needs_targets, **how)
    return TextToTextExamples(sources, targets, path)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
