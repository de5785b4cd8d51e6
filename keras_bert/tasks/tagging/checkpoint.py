"""How a `TokenClassifier` starts from a checkpoint."""

from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.pretrained import same_labels
from keras_bert.program.label_types import label_strings
from keras_bert.tasks.tagging.decoding import INDEPENDENT


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments and the checkpoint.

    A trained head whose files do not say how tags are decoded answers each word by itself, as in transformers: the
    letters of its labels do not tell whether it was trained on BIO or on IOB1.
    """
    labels = arguments.get("labels", checkpoint.labels)
    is_trained = "token_classifier" in checkpoint.heads and same_labels(
        tuple(label_strings(labels)[0]), checkpoint.labels
    )
    return ({"decoding": INDEPENDENT} if is_trained else {}) | dict(arguments), checkpoint
