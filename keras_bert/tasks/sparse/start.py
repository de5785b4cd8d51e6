"""How a `SparseEncoder` starts from a checkpoint of another kind."""

from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import MASKED_LM, BertCheckpoint
from keras_bert.program.errors import InputError


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `SparseEncoder`, and the checkpoint."""
    if MASKED_LM not in checkpoint.heads:
        pooling = checkpoint.config.sentence_pooling
        stated = "" if pooling == "mean" else f" Its modules.json turns texts into vectors by {pooling[:100]!r}."
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has no masked-LM head, from which a {model_class.__name__} takes "
            f"the weights of tokens.{stated} Give a checkpoint with one, or train one: "
            "MaskedLM.from_pretrained(path).fit(texts)."
        )
    return {**(checkpoint.sparse or {}), **arguments}, checkpoint
