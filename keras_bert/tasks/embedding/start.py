"""How models that turn a text into a vector start from a checkpoint that says how, or does not."""

import inspect
from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.config import POOLINGS
from keras_bert.program.errors import InputError


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `SentenceEncoder` or `SentenceClassifier`, and the checkpoint."""
    return {**_stated(model_class, checkpoint, "pooling" in arguments), **arguments}, checkpoint


def _stated(model_class: type, checkpoint: BertCheckpoint, has_pooling: bool) -> dict:
    """Returns the arguments that say how a checkpoint turns a text into a vector."""
    if checkpoint.sentence is not None:
        known = inspect.signature(model_class.__init__).parameters
        return {name: value for name, value in checkpoint.sentence.items() if name in known}
    pooling = checkpoint.config.sentence_pooling
    if pooling not in POOLINGS and not has_pooling:
        raise InputError(
            f"{checkpoint.path} turns texts into vectors by {str(pooling)[:100]!r}. "
            f"{model_class.__name__} computes a Transformer, a Pooling, Dense layers and Normalize, in this order. Use "
            "the model's own class or sentence-transformers, or give another pooling=[...] and train it."
        )
    return {"pooling": [pooling]}
