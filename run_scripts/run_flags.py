"""Flags of all training commands: checkpoints, devices, gradient accumulation and checkpointing, and trackers."""

from typing import Any

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect

FLAGS = flags.FLAGS


def define_run_flags() -> None:
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "The number of updates between two checkpoints.")
    flags.DEFINE_integer("keep_checkpoint_max", 2, "The number of newest checkpoints to keep; 0: all.")
    flags.DEFINE_integer("iterations_per_loop", 1, "Updates between returns to Python (steps_per_execution of Keras).")
    flags.DEFINE_enum(
        "distribution_strategy",
        "off",
        ["off", "one_device", "mirrored", "multi_worker_mirrored", "tpu"],
        "The devices to train on: TensorFlow's default one, one, all GPUs of the machine, those of all machines in "
        "TF_CONFIG, or a TPU.",
    )
    flags.DEFINE_string("tpu_name", "", "With --distribution_strategy=tpu: its name or address.")
    define_use_tpu("For a TPU, write --distribution_strategy=tpu.")
    flags.DEFINE_integer(
        "gradient_accumulation_steps", 1, "Compute a batch in this many parts, which needs the memory of one part."
    )
    flags.DEFINE_boolean(
        "gradient_checkpointing",
        False,
        "Store only the inputs of each layer, and recompute the rest in the backward pass: less memory, more time.",
    )
    flags.DEFINE_list(
        "track", [], "Also send the training metrics to these trackers: tensorboard, wandb, mlflow, trackio."
    )


def define_use_tpu(advice: str) -> None:
    """Defines Google's --use_tpu, which may be False, so that command lines for google-research/bert need no change."""
    flags.DEFINE_boolean("use_tpu", False, f"Google's flag; it may be False. {advice}")
    flags.register_validator("use_tpu", lambda value: not value, f"only False is possible. {advice}")


def run_options() -> dict[str, Any]:
    """Returns the options that every run takes from these flags."""
    return {
        "save_checkpoints_steps": FLAGS.save_checkpoints_steps,
        "keep_checkpoint_max": FLAGS.keep_checkpoint_max,
        "steps_per_execution": FLAGS.iterations_per_loop,
        "gradient_checkpointing": FLAGS.gradient_checkpointing,
        "track": tuple(FLAGS.track),
    }


def strategy_of_flags():
    """Returns the strategy for a run. Call it before TensorFlow's first operation."""
    from keras_bert.training.strategies import make_strategy

    is_tpu = FLAGS.distribution_strategy == "tpu"
    refuse_flags_without_effect(is_tpu, "without --distribution_strategy=tpu", "tpu_name")
    return make_strategy(FLAGS.distribution_strategy, FLAGS.tpu_name)
