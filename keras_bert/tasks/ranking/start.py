"""How a `CrossEncoder` starts from a checkpoint."""

import inspect
from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `CrossEncoder`, and the checkpoint."""
    known = inspect.signature(model_class.__init__).parameters
    stated = {name: value for name, value in (checkpoint.ranking or {}).items() if name in known}
    return {**stated, "problem_type": "regression", **arguments}, checkpoint
