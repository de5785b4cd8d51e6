"""The flags that all fine-tuning commands share, with the names and defaults of google-research/bert."""

from absl import flags

FLAGS = flags.FLAGS


def define_fine_tuning_flags(*, max_seq_length: int = 128, eval_batch_size: int = 8) -> None:
    """Defines the flags of a command that trains, evaluates and predicts; the arguments are its own defaults."""
    flags.DEFINE_string("output_dir", None, "The folder of this run: new, empty, or that of the run to go on with.")
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with config and vocabulary.")
    flags.DEFINE_string("bert_config_file", None, "bert_config.json, to train from scratch.")
    flags.DEFINE_string("vocab_file", None, "vocab.txt, to train from scratch.")
    flags.DEFINE_boolean(
        "do_lower_case", None, "Whether the vocabulary is uncased. Default: as init_checkpoint is, else the config."
    )
    flags.DEFINE_integer("max_seq_length", max_seq_length, "The most tokens in a row; batches are as long as needed.")
    flags.DEFINE_boolean("do_train", False, "Train.")
    flags.DEFINE_boolean("do_predict", False, "Predict.")
    flags.DEFINE_integer("train_batch_size", 32, "Examples per update.")
    flags.DEFINE_integer("predict_batch_size", eval_batch_size, "Examples per prediction step.")
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


def fine_tuning_options():
    """Returns the `FineTuningOptions` that the flags say, and makes Keras compute in `--dtype`."""
    import keras

    from keras_bert.training.fine_tuning import FineTuningOptions

    keras.config.set_dtype_policy(FLAGS.dtype)
    return FineTuningOptions(
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


def starting_point():
    """Returns the `StartingPoint` that the flags say: a checkpoint, or config and vocabulary of a new model."""
    from keras_bert.config import BertConfig
    from keras_bert.tokenization.vocabulary import Vocabulary
    from keras_bert.training.starting_point import StartingPoint

    return StartingPoint(
        config=BertConfig.from_json_file(FLAGS.bert_config_file) if FLAGS.bert_config_file else None,
        vocabulary=Vocabulary.from_file(FLAGS.vocab_file) if FLAGS.vocab_file else None,
        init_checkpoint=FLAGS.init_checkpoint,
        do_lower_case=FLAGS.do_lower_case,
    )
