"""Trains, evaluates and applies a model that selects the right one of several choices.

Reads .tsv, .csv, .jsonl and .parquet files with a column for the prompt, one for each choice (or one with lists) and
one for the right choice; --task_name knows the columns of SWAG and CODAH:

    run_multiple_choice --task_name=SWAG --data_dir=swag --init_checkpoint=bert-base-uncased --output_dir=runs/swag \\
        --do_train --do_eval --learning_rate=2e-5 --train_batch_size=16

Writes to output_dir: model/, eval_results.txt, eval_report/ (how often each position is chosen, the worst errors),
test_results.tsv (one line per example, one probability per choice, no header), test_predictions.tsv and history.jsonl.
If the command is killed or stopped, the same command resumes from the newest checkpoint. docs/multiple_choice.md
describes all of it.
"""

from typing import Any

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import flags_by_name
from run_scripts.fine_tuning_flags import data_files, define_data_file_flags, define_fine_tuning_flags, run_task

FLAGS = flags.FLAGS


# Task -> the columns in its files, as arguments of `read_choices`.
_TASKS: dict[str, dict[str, Any]] = {
    # The sentence, and the beginning of the next one with each of four endings (the paper, section 4.4).
    "swag": {
        "text_column": "sent1",
        "choice_columns": ("ending0", "ending1", "ending2", "ending3"),
        "choice_prefix_column": "sent2",
    },
    # Category, prompt, four answers, the number of the right one.
    "codah": {"text_column": "1", "choice_columns": ("2", "3", "4", "5"), "label_column": "6", "has_header": False},
}


def define_flags() -> None:
    flags.DEFINE_string("task_name", None, "SWAG or CODAH, whose columns are known.")
    define_data_file_flags("Examples", "train.csv, train.tsv, train.jsonl ...")
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    flags.DEFINE_string("text_column", None, "The column of the prompt: a name, or a number from 0 (default: text).")
    flags.DEFINE_list("choice_columns", None, "The columns of the choices, or one column with lists (JSON).")
    flags.DEFINE_string("choice_prefix_column", None, "The column of a text with which all choices of a row begin.")
    flags.DEFINE_string("label_column", None, "The column of the right choice (default: label).")
    flags.DEFINE_list("labels", None, "The names of the choices there, in order (default: 0,1,2,... or A,B,C,...).")
    define_fine_tuning_flags()


def main() -> None:
    refuse_flags_without_effect(FLAGS.do_eval, "without --do_eval", "calibrate")
    # All files are read before TensorFlow is loaded, so that errors appear early.
    columns, files = _columns(), data_files()
    parts = {part: _read(path, columns, with_labels=part != "predict") for part, path in files.items()}
    train, dev = parts.get("train"), parts.get("eval")
    if train and dev and train.num_choices != dev.num_choices:
        raise InputError(
            f"{dev.source} has {dev.num_choices} choices in each row, but {train.source} has {train.num_choices}."
        )
    run_task("MultipleChoice", parts, "accuracy")


def _columns() -> dict[str, Any]:
    """Returns the columns of the task. Flags replace them."""
    name = (FLAGS.task_name or "").lower()
    if name and name not in _TASKS:
        raise InputError(
            f"task_name must be SWAG or CODAH. Received: {FLAGS.task_name}. Name the columns of other files."
        )
    given = flags_by_name("text_column", "choice_columns", "choice_prefix_column", "label_column")
    given = {column: value for column, value in given.items() if value}
    columns = {"has_header": FLAGS.has_header, **_TASKS.get(name, {}), **given}
    if "choice_columns" not in columns:
        raise InputError(
            "Name the columns of the choices: --choice_columns=first,second,... or one column with lists; or "
            "give --task_name."
        )
    return columns


def _read(path: str, columns: dict[str, Any], with_labels: bool = True):
    from data_prep.finetuning.labelled_text import read_choices
    from keras_bert.tasks.multiple_choice.examples import ChoiceExamples, choice_names, right_choices

    if not with_labels:
        columns = {**columns, "label_column": None}
    prompts, choices, labels = read_choices(path, **columns, skip_missing=FLAGS.skip_missing)
    answers = None
    if labels is not None:
        names = FLAGS.labels or choice_names(labels, len(choices[0]))
        if len(names) != len(choices[0]):
            raise InputError(
                f"{path}: there are {len(choices[0])} choices in each row but {len(names)} labels: {', '.join(names)}"
            )
        answers = right_choices(labels, names, path)
    return ChoiceExamples(prompts, choices, answers, path)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
