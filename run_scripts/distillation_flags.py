"""Flags of a teacher and of the layers to keep, shared by pre-training and fine-tuning."""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag, options_of_flags
from keras_bert.training.distillation import Distillation

FLAGS = flags.FLAGS


def define_keep_layers_flag() -> None:
    help = "Keep only these layers of init_checkpoint, numbered from 0."
    define_flag("keep_layers", None, help, is_list=True, at_least=0)


def check_distillation_flags() -> None:
    """Raises `InputError` if a flag has no effect."""
    refuse_flags_without_effect(FLAGS.teacher, "without --teacher", "distill_terms", "distill_layers", "temperature")
    if FLAGS.teacher and not FLAGS.do_train:
        raise InputError("--teacher is for training. Add --do_train.")


def distillation_of_flags() -> Distillation | None:
    """Returns the `Distillation` of the flags, or None without a teacher."""
    return options_of_flags(Distillation) if FLAGS.teacher else None
