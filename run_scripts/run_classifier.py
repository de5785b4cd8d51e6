"""Trains, evaluates and applies a classifier of texts or pairs of texts.

Reads .tsv, .csv and .jsonl files with a column for the text, one for the label and, for pairs, one for a second text:

    run_classifier --train_file=train.tsv --dev_file=dev.tsv --test_file=test.tsv --init_checkpoint=runs/tiny/model \\
        --output_dir=runs/classifier --do_train --do_eval --do_predict

Writes into output_dir: model/ (a model folder that knows its labels), eval_results.txt, test_results.tsv (a line per
example, a probability per label, no header) and history.jsonl. Killed or stopped, the same command goes on from the
newest checkpoint.
"""

import os

from absl import flags

from keras_bert.command_line import run_command
from keras_bert.errors import InputError
from run_scripts.fine_tuning_flags import define_fine_tuning_flags, fine_tuning_options, starting_point

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string(
        "data_dir", None, "A folder with train, dev and test files: train.tsv, train.csv or train.jsonl ..."
    )
    flags.DEFINE_string("train_file", None, "Labelled texts to train on. The default is that of data_dir.")
    flags.DEFINE_string("dev_file", None, "Labelled texts to evaluate on. The default is that of data_dir.")
    flags.DEFINE_string("test_file", None, "Texts to predict the labels of. The default is that of data_dir.")
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    flags.DEFINE_string("text_column", "text", "The column that holds the text: its name, or its number from 0.")
    flags.DEFINE_string("second_text_column", None, "The column that holds the second text, for pairs.")
    flags.DEFINE_string("label_column", "label", "The column that holds the label.")
    flags.DEFINE_boolean("do_eval", False, "Evaluate on dev_file.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples per evaluation step.")
    define_fine_tuning_flags()


def main() -> None:
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise InputError("Nothing to do: give --do_train, --do_eval, --do_predict or several of them.")
    # All files are read before TensorFlow is loaded, let alone anything trained.
    train = _read("train", FLAGS.train_file) if FLAGS.do_train else None
    dev = _read("dev", FLAGS.dev_file) if FLAGS.do_eval else None
    test = _read("test", FLAGS.test_file, with_labels=False) if FLAGS.do_predict else None

    from keras_bert.tasks.classification import TextExamples, label_ids, labels_of
    from keras_bert.training import classification

    train, dev, test = (found and TextExamples(**found) for found in (train, dev, test))
    if train and dev:
        # Before the training, not after it.
        label_ids(dev, labels_of(train))
    options = fine_tuning_options()
    if train:
        classification.train_classifier(FLAGS.output_dir, train, starting_point(), options)
    model = {"init_checkpoint": FLAGS.init_checkpoint, "max_seq_length": FLAGS.max_seq_length}
    if dev:
        classification.evaluate_classifier(FLAGS.output_dir, dev, eval_batch_size=FLAGS.eval_batch_size, **model)
    if test:
        classification.predict_classifier(FLAGS.output_dir, test, predict_batch_size=FLAGS.predict_batch_size, **model)


def _read(part: str, path: str | None, with_labels: bool = True) -> dict:
    """Returns the arguments of `TextExamples`."""
    from data_prep.labelled_text import read_labelled_text

    path = path or _file_of(part)
    found = read_labelled_text(
        path,
        text_column=FLAGS.text_column,
        second_text_column=FLAGS.second_text_column,
        label_column=FLAGS.label_column if with_labels else None,
        has_header=FLAGS.has_header,
    )
    return {"texts": found.texts, "second_texts": found.second_texts, "labels": found.labels, "source": path}


def _file_of(part: str) -> str:
    if not FLAGS.data_dir:
        raise InputError(f"There is nothing to read: give --{part}_file or --data_dir.")
    names = [f"{part}{ending}" for ending in (".tsv", ".csv", ".jsonl")]
    paths = [os.path.join(FLAGS.data_dir, name) for name in names]
    found = [path for path in paths if os.path.isfile(path)]
    if len(found) != 1:
        raise InputError(
            f"{FLAGS.data_dir} should have one of {', '.join(names)}. It has: "
            f"{', '.join(map(os.path.basename, found)) or 'none of them'}. Name the file with --{part}_file."
        )
    return found[0]


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
