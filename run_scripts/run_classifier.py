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
    flags.DEFINE_string("output_dir", None, "The folder of this run: new, empty, or that of the run to go on with.")
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with config and vocabulary.")
    flags.DEFINE_string("bert_config_file", None, "bert_config.json, to train from scratch.")
    flags.DEFINE_string("vocab_file", None, "vocab.txt, to train from scratch.")
    flags.DEFINE_boolean(
        "do_lower_case",
        None,
        "Whether the vocabulary is uncased. Default: as init_checkpoint is, else the config.",
    )
    flags.DEFINE_integer("max_seq_length", 128, "Longer texts are cut to this many tokens.")
    flags.DEFINE_boolean("do_train", False, "Train.")
    flags.DEFINE_boolean("do_eval", False, "Evaluate on dev_file.")
    flags.DEFINE_boolean("do_predict", False, "Predict the labels of test_file.")
    flags.DEFINE_integer("train_batch_size", 32, "Examples per update.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples per evaluation step.")
    flags.DEFINE_integer("predict_batch_size", 8, "Examples per prediction step.")
    flags.DEFINE_float("learning_rate", 5e-5, "The highest learning rate.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the training examples.")
    flags.DEFINE_float("warmup_proportion", 0.1, "The part of training in which the learning rate rises.")
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "The number of updates between two checkpoints.")
    flags.DEFINE_integer("iterations_per_loop", 1, "Updates between returns to Python (steps_per_execution of Keras).")
    flags.DEFINE_integer("random_seed", 12345, "Seed of the new weights, the dropout and the order of the examples.")
    flags.DEFINE_enum("dtype", "float32", ["float32", "mixed_bfloat16"], "What to compute in; weights are float32.")
    flags.DEFINE_boolean(
        "tensorboard", False, "Also write the training metrics for TensorBoard, to output_dir/tensorboard."
    )
    flags.mark_flag_as_required("output_dir")


def main() -> None:
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise InputError("Nothing to do: give --do_train, --do_eval, --do_predict or several of them.")
    # All files are read before TensorFlow is loaded, let alone anything trained.
    train = _read("train", FLAGS.train_file) if FLAGS.do_train else None
    dev = _read("dev", FLAGS.dev_file) if FLAGS.do_eval else None
    test = _read("test", FLAGS.test_file, with_labels=False) if FLAGS.do_predict else None

    import keras

    from keras_bert.config import BertConfig
    from keras_bert.tasks.classification import TextExamples, label_ids, labels_of
    from keras_bert.tokenization.vocabulary import Vocabulary
    from keras_bert.training import fine_tuning

    train, dev, test = (found and TextExamples(**found) for found in (train, dev, test))
    if train and dev:
        # Before the training, not after it.
        label_ids(dev, labels_of(train))
    keras.config.set_dtype_policy(FLAGS.dtype)
    if train:
        fine_tuning.train_classifier(
            FLAGS.output_dir,
            train,
            config=BertConfig.from_json_file(FLAGS.bert_config_file) if FLAGS.bert_config_file else None,
            vocabulary=Vocabulary.from_file(FLAGS.vocab_file) if FLAGS.vocab_file else None,
            init_checkpoint=FLAGS.init_checkpoint,
            do_lower_case=FLAGS.do_lower_case,
            max_seq_length=FLAGS.max_seq_length,
            train_batch_size=FLAGS.train_batch_size,
            learning_rate=FLAGS.learning_rate,
            num_train_epochs=FLAGS.num_train_epochs,
            warmup_proportion=FLAGS.warmup_proportion,
            save_checkpoints_steps=FLAGS.save_checkpoints_steps,
            steps_per_execution=FLAGS.iterations_per_loop,
            seed=FLAGS.random_seed,
            tensorboard=FLAGS.tensorboard,
        )
    model = {"init_checkpoint": FLAGS.init_checkpoint, "max_seq_length": FLAGS.max_seq_length}
    if dev:
        fine_tuning.evaluate_classifier(FLAGS.output_dir, dev, eval_batch_size=FLAGS.eval_batch_size, **model)
    if test:
        fine_tuning.predict_classifier(FLAGS.output_dir, test, predict_batch_size=FLAGS.predict_batch_size, **model)


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
