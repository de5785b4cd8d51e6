"""Flags of all training commands that are not options of the run: the devices, and the precision."""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect

FLAGS = flags.FLAGS

# Precision -> name of the policy in Keras.
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def define_device_flags() -> None:
    flags.DEFINE_enum(
        "distribution_strategy",
        "off",
        ["off", "one_device", "mirrored", "multi_worker_mirrored", "tpu", "data_parallel"],
        "The devices to train on: TensorFlow's default one, one, all GPUs of the machine, those of all machines in "
        "TF_CONFIG, or a TPU. With KERAS_BACKEND=jax: off (the first device) or data_parallel (all of the machine).",
    )
    flags.DEFINE_string("tpu_name", "", "With --distribution_strategy=tpu: its name or address.")
    define_use_tpu("For a TPU, write --distribution_strategy=tpu.")
    flags.DEFINE_enum(
        "precision",
        "float32",
        list(_POLICIES),
        "The dtype of the computation; weights are float32. float16 scales the loss.",
    )


def define_use_tpu(advice: str) -> None:
    """Defines Google's --use_tpu, which may be False, so that command lines for google-research/bert need no change."""
    flags.DEFINE_boolean("use_tpu", False, f"Google's flag; it may be False. {advice}")
    flags.register_validator("use_tpu", lambda value: not value, f"only False is possible. {advice}")


def set_precision() -> None:
    """Makes Keras compute in `--precision`."""
    import keras

    keras.config.set_dtype_policy(_POLICIES[FLAGS.precision])


def strategy_of_flags():
    """Returns the strategy for a run. Call it before TensorFlow's first operation."""
    from keras_bert.training.strategies import make_strategy

    is_tpu = FLAGS.distribution_strategy == "tpu"
    refuse_flags_without_effect(is_tpu, "without --distribution_strategy=tpu", "tpu_name")
    return make_strategy(FLAGS.distribution_strategy, FLAGS.tpu_name)
