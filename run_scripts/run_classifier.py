"""Trains, evaluates and applies a classifier of texts or text pairs: one label, several labels, or a score.

Reads .tsv, .csv, .jsonl and .parquet files and tfds:NAME@SPLIT, with columns for the text, the label and, for pairs, a
second text. Columns are found by their usual names or given by flags; --task_name knows the tasks of GLUE:

    run_classifier --train_file=train.tsv --dev_file=dev.tsv --test_file=test.tsv --init_checkpoint=runs/tiny/model \\
        --output_dir=runs/classifier --do_train --do_eval --do_predict
    run_classifier --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=runs/mrpc --do_train --do_eval --do_predict
    run_classifier --task_name=CoLA --data_dir=glue/CoLA --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=runs/cola --do_train --do_eval --grid --seeds=1,2,3

Writes to output_dir: model/ (a model folder with the labels), eval_results.txt, eval_report/ (confusion matrix, table
of labels, errors by loss), test_results.tsv (one line per example, one probability per label, no header),
test_predictions.tsv, for GLUE the file for the leaderboard, and history.jsonl. If the command is killed or stopped, the
same command resumes from the newest checkpoint. docs/classification.md describes all of it.
"""

import dataclasses
import logging
import os
from typing import Any

from absl import flags

from data_prep.finetuning.finetuning_task import FinetuningOptions
from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag, define_option_flags, flag_values
from keras_bert.training.distillation import Distillation
from run_scripts.fine_tuning_flags import (
    check_training_flags,
    data_files,
    define_data_file_flags,
    define_fine_tuning_flags,
    requested_parts,
    starting_point,
    train_evaluate_predict,
    trained_model_flags,
)
from run_scripts.run_flags import check_distillation_flags, distillation_of_flags

FLAGS = flags.FLAGS
_logger = logging.getLogger(__name__)
_MOST_EXPLAINED = 100  # a page of more is slow to make and nobody reads it
_FREEZING = ("freeze_layers", "freeze_encoder", "freeze_embeddings")
_NOT_WITH = {
    "zero_shot": ("do_train", "do_eval", "task_name", "labels", "few_shot", "explain", "threshold"),
    "few_shot": ("teacher", "label_loss", "lora_rank", *_FREEZING, "keep_best"),
}
_OF_OTHER_TASKS = ("choice_columns", "doc_stride", "max_query_length", "version_2_with_negative")


def define_flags() -> None:
    help = "A task of GLUE: CoLA, SST-2, MRPC, QQP, STS-B, MNLI, QNLI, RTE, WNLI, AX."
    flags.DEFINE_string("task_name", None, help)
    define_data_file_flags("Labelled texts", "train.tsv, train.csv, train.jsonl ...")
    help = "The kind of labels: one of several classes, any number of classes, or a score."
    flags.DEFINE_enum("problem_type", "classification", ["classification", "multi_label", "regression"], help)
    define_option_flags(FinetuningOptions, but=(*_OF_OTHER_TASKS, "skip_missing"))
    help = "Train on few texts, from a sentence encoder; by default 1 epoch, batches of 16, a learning rate of 2e-5."
    flags.DEFINE_boolean("few_shot", False, help)
    help = "Predict these labels by a model for entailment; with --problem_type=multi_label any number of them."
    flags.DEFINE_list("zero_shot", None, help)
    flags.DEFINE_string("hypothesis_template", "This example is {}.", "The judged sentence about a label, {}.")
    help = "For multi_label: labels above it are predicted; one, or one for each. Default: the model's, at first 0.5."
    define_flag("threshold", None, help, float, is_list=True, at_least=0, at_most=1)
    help = "For multi_label: choose and keep the threshold of each label with the best F1 on the dev examples."
    flags.DEFINE_boolean("tune_thresholds", False, help)
    define_fine_tuning_flags()
    define_option_flags(Distillation)
    flags.DEFINE_string("explain", None, "Also explain the predictions by integrated gradients, in this new HTML file.")


def main() -> None:
    # All files are read before TensorFlow is loaded, so that errors appear early.
    from data_prep.finetuning.glue import find_task

    task_name, task = (None, None) if FLAGS.task_name is None else find_task(FLAGS.task_name)
    problem_type = task.kind if task else FLAGS.problem_type
    if FLAGS["problem_type"].present and FLAGS.problem_type != problem_type:
        raise InputError(f"{task_name} is a {problem_type}, not {FLAGS.problem_type}. Leave --problem_type out.")
    check_distillation_flags()
    of_several_labels = ("label_separator", "threshold", "tune_thresholds")
    refuse_flags_without_effect(problem_type == "multi_label", "without --problem_type=multi_label", *of_several_labels)
    if _thresholds() is not None and FLAGS.tune_thresholds:
        raise InputError("--tune_thresholds chooses what --threshold gives. Leave one of them out.")
    refuse_flags_without_effect(problem_type != "regression", "with --problem_type=regression", "labels")
    refuse_flags_without_effect(FLAGS.do_eval, "without --do_eval", "calibrate", "tune_thresholds")
    refuse_flags_without_effect(FLAGS.do_predict, "without --do_predict", "explain")
    refuse_flags_without_effect(FLAGS.zero_shot is not None, "without --zero_shot", "hypothesis_template")
    _check_few_and_zero_shot_flags(problem_type)
    data = _Data(task_name, problem_type, task)
    check_training_flags(has_train=bool(data.train), has_dev="eval" in data.dev)
    if FLAGS.explain:
        from keras_bert.accelerate.backend import require_tensorflow

        require_tensorflow("--explain")

    options = {"distillation": distillation_of_flags()}
    if FLAGS.few_shot:
        defaults = {"num_train_epochs": 1.0, "train_batch_size": 16, "learning_rate": 2e-5}
        options |= {name: value for name, value in defaults.items() if not FLAGS[name].present}
    if FLAGS.main_score is None and task_name:
        from keras_bert.tasks.classification.scores import GLUE_MAIN_SCORES

        options["main_score"] = GLUE_MAIN_SCORES[task_name]
    train_evaluate_predict(
        data.train_in if data.train else None,
        data.evaluate_in if data.dev else None,
        data.predict_in if data.test else None,
        _MAIN_SCORES[problem_type],
        options,
    )


_MAIN_SCORES = {"classification": "accuracy", "multi_label": "micro_f1", "regression": "pearson"}


class _Data:
    """The examples of all requested files, read and checked."""

    def __init__(self, task_name: str | None, problem_type: str, task):
        from data_prep.create_finetuning_data import make_task

        self.task_name, self.problem_type = task_name, problem_type
        options = FinetuningOptions(**flag_values(FinetuningOptions, but=_OF_OTHER_TASKS))
        files = _files(task_name, task)
        reader = make_task(problem_type, options, task)
        for part, path in files.items():
            reader.read(part, path)
            for note in reader.notes[part]:
                _logger.warning("%s: %s", path, note)
        if "train" in files:
            reader.settle()  # determines the labels, and checks those of the other files
        self.labels = list(reader.labels) or None
        _check_same_columns(list(reader.examples.values()))
        self.train = reader.examples.get("train")
        self.dev = {part: found for part, found in reader.examples.items() if part.startswith("eval")}
        self.test = {part: found for part, found in reader.examples.items() if part.startswith("predict")}
        self.kind = "SentenceClassifier" if FLAGS.few_shot else "SequenceClassifier"

    def train_in(self, output_dir: str, options) -> None:
        from keras_bert import registry
        from keras_bert.training.fine_tuning import fine_tune, train_few_shot

        arguments = {"labels": self.labels or ["score"], "problem_type": self.problem_type}
        if FLAGS.threshold is not None:
            arguments["thresholds"] = _thresholds()
        how: dict[str, Any] = {"start": starting_point(), "options": options, "model_arguments": arguments}
        if FLAGS.few_shot:
            train_few_shot(output_dir, self.train, **how)
            return
        model_class = registry.imported(registry.task(self.kind).model)
        fine_tune(output_dir, model_class, self.train, self.dev.get("eval"), **how)

    def evaluate_in(self, output_dir: str) -> dict[str, float]:
        from keras_bert.training.finished_runs import evaluate_run

        settings = {"batch_size": FLAGS.eval_batch_size, "thresholds": _thresholds(), **trained_model_flags()}
        settings |= {"calibrate": FLAGS.calibrate, "tune": _tune if FLAGS.tune_thresholds else None}
        return evaluate_run(output_dir, self.kind, self.dev, **settings)

    def predict_in(self, output_dir: str) -> None:
        from keras_bert.tasks.base import text_task
        from keras_bert.tasks.classification.glue_submission import submission_name, write_submission
        from keras_bert.training.finished_runs import predict_run

        for part, test in self.test.items():
            answered = predict_run(
                output_dir,
                self.kind,
                test,
                batch_size=FLAGS.predict_batch_size,
                name=part.replace("predict", "test"),
                make_task=text_task if FLAGS.zero_shot is None else self._zero_shot_task,
                thresholds=_thresholds(),
                **trained_model_flags(),
            )
            if FLAGS.explain and part == "predict":
                _explain(answered)
            submission = submission_name(self.task_name, part) if self.task_name else None
            if submission:
                field = "score" if self.problem_type == "regression" else "label"
                predictions = [getattr(answer, field) for answer in answered.answers]
                path = write_submission(os.path.abspath(output_dir), submission, predictions)
                print(f"{path}: for gluebenchmark.com")

    def _zero_shot_task(self, model):
        from keras_bert.tasks.classification.zero_shot import ZeroShotTask

        return ZeroShotTask(model, FLAGS.zero_shot, FLAGS.hypothesis_template, self.problem_type == "multi_label")


def _explain(answered) -> None:
    """Writes the page of --explain: the answers to the first texts."""
    from keras_bert.tasks.explanation.explaining import explain_examples
    from keras_bert.tasks.explanation.page import write_explanation_page

    examples = dataclasses.replace(answered.examples, labels=None).part(0, _MOST_EXPLAINED)
    length = int(answered.example_rows.rows.lengths.max())
    explanations = explain_examples(answered.model, examples, max_seq_length=length)
    write_explanation_page(FLAGS.explain, explanations)
    print(f"{FLAGS.explain}: explanations of {len(explanations)} predictions")


def _tune(answered) -> str:
    """Chooses the thresholds of --tune_thresholds, and returns what was done."""
    from keras_bert.tasks.classification.task import tune_on_answers

    found = tune_on_answers(answered)
    chosen = ", ".join(f"{label} {threshold:.4g}" for label, threshold in found.thresholds.items())
    return f"Thresholds chosen on {len(answered.examples)} examples: {chosen}. {found}."


def _thresholds() -> list[float] | float | None:
    """Returns the thresholds of --threshold: one for all labels, or a list."""
    found = FLAGS.threshold
    return found[0] if found and len(found) == 1 else found


def _check_few_and_zero_shot_flags(problem_type: str) -> None:
    """Raises `InputError` if flags ask for what few-shot training, or labels without training, do not do."""
    if FLAGS.zero_shot is not None and (problem_type == "regression" or not FLAGS.do_predict):
        raise InputError("--zero_shot predicts labels. Give --do_predict, without --problem_type=regression.")
    if FLAGS.few_shot and FLAGS.zero_shot is None and problem_type != "classification":
        raise InputError(f"--few_shot learns one label per text. Received: --problem_type={problem_type}.")
    for flag, refused in _NOT_WITH.items():
        given = next((name for name in refused if FLAGS[name].value), None)
        if FLAGS[flag].value not in (None, False) and given:
            raise InputError(f"--{flag} has no --{given}. Leave it out.")


def _check_same_columns(examples: list) -> None:
    """Raises `InputError` if some files have pairs and others single texts."""
    first, *others = examples
    for other in others:
        if (first.second_texts is None) != (other.second_texts is None):
            single, pairs = (first, other) if first.second_texts is None else (other, first)
            raise InputError(
                f"{single.source} has one text per row, but {pairs.source} has two. Name the columns: --text_column, "
                "--second_text_column."
            )


def _files(task_name: str | None, task) -> dict[str, str]:
    """Returns part -> file: "train", "eval" and "predict", and for MNLI "eval_mismatched" and "predict_mismatched"."""
    from data_prep.text.column_files import COLUMN_SUFFIXES

    stems = ("train", "test", "validation", "dev")
    tables = [f"{stem}{ending}" for stem in stems for ending in (".jsonl", *COLUMN_SUFFIXES)]
    folder = FLAGS.data_dir
    if not task or not folder or not os.path.isdir(folder):
        return data_files()
    if any(os.path.isfile(os.path.join(folder, name)) for name in tables):
        return data_files()
    parts, in_folder = requested_parts(), task.find_files(folder)
    found = {part: path for part, path in in_folder.items() if part.partition("_")[0] in parts}
    named = {"train": FLAGS.train_file, "eval": FLAGS.dev_file, "predict": FLAGS.test_file}
    found |= {part: named[part] for part in parts if named[part]}
    for part in parts:
        if part not in found:
            names = " or ".join(task.files.get(part, ()))
            raise InputError(f"--do_{part}: {folder} has no {names or f'such file, nor has {task_name}'}.")
    return found


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
