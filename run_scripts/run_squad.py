"""Trains a model that answers questions about texts, as in SQuAD 1.1 and 2.0, and applies it.

    run_squad --train_file=train-v2.0.json --predict_file=dev-v2.0.json --version_2_with_negative \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=runs/squad --do_train --do_predict

Files are SQuAD's JSON, JSON Lines with id, question, context and answers (text, answer_start), or tfds:squad@train.
Writes to output_dir: model/, predictions.json, nbest_predictions.json, null_odds.json (with version_2_with_negative),
and if predict_file has answers eval_results.txt, errors.tsv, reliability.txt and reliability.png. If the command is
killed or stopped, the same command resumes from the newest checkpoint.
"""

import dataclasses

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_option_flags, flags_by_name, options_of_flags
from keras_bert.tasks.question_answering.answer_spans import QuestionAnsweringOptions
from run_scripts.fine_tuning_flags import (
    check_training_flags,
    define_fine_tuning_flags,
    define_skip_missing_flag,
    starting_point,
    train_evaluate_predict,
    trained_model_flags,
)

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("train_file", None, "Questions, contexts and answers to train on.")
    flags.DEFINE_string("predict_file", None, "Questions to answer. If it has answers, predictions are scored.")
    define_option_flags(QuestionAnsweringOptions)
    flags.DEFINE_boolean("tune_null_threshold", False, "Keep the threshold with the best F1 on predict_file.")
    define_skip_missing_flag()
    define_fine_tuning_flags()


def main() -> None:
    from keras_bert.tasks.question_answering.rows import check_training_questions

    if not (FLAGS.do_train or FLAGS.do_predict):
        raise InputError("Nothing to do. Give --do_train, --do_predict or both.")
    refuse_flags_without_effect(FLAGS.do_predict, "without --do_predict", "calibrate")
    # All files are read before TensorFlow is loaded, so that errors appear early.
    train = _read("train_file", "do_train", has_answers=True) if FLAGS.do_train else None
    asked = _read("predict_file", "do_predict", has_answers=None) if FLAGS.do_predict else None
    if asked and not any(asked.answers or ()):
        for name in ("tune_null_threshold", "calibrate"):
            if FLAGS[name].value:
                raise InputError(f"--{name} needs answers, but {FLAGS.predict_file} has none.")
        asked = dataclasses.replace(asked, answers=None)
    if train:
        check_training_questions(train, FLAGS.version_2_with_negative)
    check_training_flags(
        has_train=bool(train),
        has_dev=bool(asked and asked.answers),
        needed="--do_predict and a --predict_file with answers",
    )

    from keras_bert.training import question_answering
    from keras_bert.training.run_folder import RunFolder

    questions = options_of_flags(QuestionAnsweringOptions)

    def train_in(folder, options):
        from keras_bert.tasks.question_answering.model import SpanClassifier
        from keras_bert.training.fine_tuning import fine_tune

        # As Google's script, except that an epoch is a pass over all windows: that one leaves out some.
        dev, arguments = asked if asked and asked.answers else None, questions.model_arguments()
        start = starting_point()
        fine_tune(folder, SpanClassifier, train, dev, start=start, options=options, model_arguments=arguments)

    def answer_in(folder):
        how = flags_by_name("tune_null_threshold", "calibrate", "predict_batch_size") | trained_model_flags()
        question_answering.predict_answers(folder, asked, questions=questions, **how)
        return RunFolder(folder).read_results()

    train_evaluate_predict(train_in if train else None, answer_in if asked else None, None, "f1")


def _read(flag: str, purpose: str, has_answers: bool | None):
    from data_prep.finetuning.squad import read_squad

    if not FLAGS[flag].value:
        raise InputError(f"--{purpose} needs --{flag}.")
    return read_squad(FLAGS[flag].value, has_answers=has_answers, skip_missing=FLAGS.skip_missing)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
