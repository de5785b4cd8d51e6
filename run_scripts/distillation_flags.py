"""Flags of distillation and of layers, shared by pre-training and fine-tuning."""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS


def define_distillation_flags() -> None:
    """Defines the flags."""
    flags.DEFINE_string("teacher", None, "The teacher: the folder of a trained model, for distillation.")
    flags.DEFINE_list(
        "distill_terms",
        ["soft_targets:0.5", "labels:0.5"],
        "The terms of the student's loss, with weights: labels, soft_targets, predictions, cosine, attention_scores, "
        "hidden_states, embeddings.",
    )
    flags.DEFINE_list(
        "distill_layers",
        None,
        "For each of the student's layers, the teacher's layer that it learns from, numbered from 0 (default: layers "
        "at equal distances).",
    )
    flags.DEFINE_float("temperature", 2.0, "The temperature that softens the teacher's probabilities.")


def check_distillation_flags() -> None:
    """Raises `InputError` if a flag has no effect."""
    refuse_flags_without_effect(FLAGS.teacher, "without --teacher", "distill_terms", "distill_layers", "temperature")
    if FLAGS.teacher and not FLAGS.do_train:
        raise InputError("--teacher is for training. Add --do_train.")


def distillation_of_flags():
    """Returns the `Distillation` of the flags, or None without a teacher."""
    from keras_bert.training.distillation import Distillation

    if not FLAGS.teacher:
        return None
    layers = layer_numbers("distill_layers")
    return Distillation(FLAGS.teacher, FLAGS.distill_terms, layers, FLAGS.temperature)


def layer_numbers(name: str) -> list[int] | None:
    """Returns the numbers of layers of a flag, or None if it is not given."""
    given = FLAGS[name].value
    try:
        return None if given is None else [int(number) for number in given]
    except ValueError:
        raise InputError(f"--{name} must be whole numbers separated by commas. Received: {','.join(given)}") from None
