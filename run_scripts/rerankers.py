"""The model that ranks again what a search found: its flags, for commands that search."""

from typing import Any

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect
from keras_bert.program.option_flags import define_flag


def define_reranker_flags(num_candidates: int) -> None:
    """Defines the flags; `num_candidates` is the default of that name."""
    flags.DEFINE_string(
        "reranker",
        None,
        "A checkpoint or an export of a CrossEncoder or MultiVectorEncoder, which ranks again what is found.",
    )
    define_flag("num_candidates", num_candidates, "How many texts it ranks for each query.", at_least=1)


def check_reranker_flags() -> None:
    """Raises `InputError` for a flag without effect."""
    refuse_flags_without_effect(flags.FLAGS.reranker, "without --reranker", "num_candidates")


def load_reranker() -> Any:
    """Returns the model of --reranker: a `MultiVectorEncoder` if its files say so, else a `CrossEncoder`; or None."""
    if not flags.FLAGS.reranker:
        return None
    from keras_bert.serving.portable.loading import is_export, load_kind

    if is_export(flags.FLAGS.reranker):
        return load_kind(["CrossEncoder", "MultiVectorEncoder"], flags.FLAGS.reranker)
    from keras_bert.checkpoints.formats import read_checkpoint
    from keras_bert.checkpoints.pretrained import model_of
    from keras_bert.tasks.multi_vector.model import MultiVectorEncoder
    from keras_bert.tasks.ranking.model import CrossEncoder

    checkpoint = read_checkpoint(flags.FLAGS.reranker)
    return model_of(MultiVectorEncoder if checkpoint.tells("MultiVectorEncoder") else CrossEncoder, checkpoint)
