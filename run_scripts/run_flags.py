"""Flags of several training commands: the devices, the precision, a teacher, and the layers to keep."""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag, options_of_flags, refuse_unneeded_flags
from keras_bert.training.distillation import Distillation

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
    help = "The dtype of the computation; weights are float32. float16 scales the loss."
    flags.DEFINE_enum("precision", "float32", list(_POLICIES), help)


def define_use_tpu(advice: str) -> None:
    """Defines Google's --use_tpu, which may be False, so that command lines for google-research/bert need no change."""
    flags.DEFINE_boolean("use_tpu", False, f"Google's flag; it may be False. {advice}")
    flags.register_validator("use_tpu", lambda value: not value, f"only False is possible. {advice}")


def define_keep_layers_flag() -> None:
    help = "Keep only these layers of init_checkpoint, numbered from 0."
    define_flag("keep_layers", None, help, is_list=True, at_least=0)


def check_distillation_flags() -> None:
    """Raises `InputError` if a flag has no effect."""
    refuse_unneeded_flags(Distillation)
    if FLAGS.teacher and not FLAGS.do_train:
        raise InputError("--teacher is for training. Add --do_train.")


def distillation_of_flags() -> Distillation | None:
    """Returns the `Distillation` of the flags, or None without a teacher."""
    return options_of_flags(Distillation) if FLAGS.teacher else None


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
