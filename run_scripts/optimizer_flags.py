"""Flags of all training commands: optimiser, learning rates, averaged weights, precision."""

from absl import flags

FLAGS = flags.FLAGS

# Precision -> name of the policy in Keras.
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def define_optimizer_flags() -> None:
    flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "AdamW, or LAMB for large batches.")
    flags.DEFINE_enum(
        "learning_rate_schedule",
        "linear",
        ["linear", "polynomial", "cosine", "trapezoid", "constant"],
        "How the learning rate decays after the warm-up.",
    )
    flags.DEFINE_float("decay_power", None, "The power of the polynomial (default: 1, which is linear; 0.5 for LAMB).")
    flags.DEFINE_integer(
        "num_decay_steps", None, "The updates in which the trapezoid decays (default: a tenth of all)."
    )
    flags.DEFINE_float(
        "ema_momentum", 0.0, "The momentum of a moving average of the weights, such as 0.999; 0: no average."
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        list(_POLICIES),
        "The dtype of the computation; weights are float32. float16 scales the loss.",
    )


def set_precision() -> None:
    """Makes Keras compute in `--precision`."""
    import keras

    keras.config.set_dtype_policy(_POLICIES[FLAGS.precision])


def optimizer_choice():
    """Returns the `OptimizerChoice` of the flags. Raises `InputError` if they contradict each other."""
    from keras_bert.training.optimizer_choice import OptimizerChoice

    return OptimizerChoice(
        optimizer=FLAGS.optimizer,
        learning_rate_schedule=FLAGS.learning_rate_schedule,
        decay_power=FLAGS.decay_power,
        num_decay_steps=FLAGS.num_decay_steps,
        ema_momentum=FLAGS.ema_momentum,
    )
