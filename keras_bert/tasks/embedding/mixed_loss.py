"""The loss of a model that is trained on several data sets."""

import dataclasses
import functools
import math
from collections.abc import Sequence

from keras import ops

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.examples import LISTS, DataSets
from keras_bert.tasks.embedding.losses import EmbeddingLoss


@dataclasses.dataclass(frozen=True)
class MixedLoss(EmbeddingLoss):
    """Computes the loss of the data set that a batch is from; see `MixedRows` for its labels.

    Args:
        parts: for each data set, its loss, the number C of texts in its examples, and the shape of an example's labels
            or None.
    """

    parts: Sequence[tuple]
    learns_from = LISTS
    fewest_texts = 1

    @classmethod
    def of(cls, losses: Sequence[EmbeddingLoss], examples: DataSets) -> "MixedLoss":
        pairs = zip(losses, examples.parts, strict=True)
        return cls(tuple((loss, len(part.columns), loss.label_shape(part)) for loss, part in pairs))

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        number, labels = number_and_labels(labels)

        def loss_of(loss, num_texts, label_shape):
            num_labels = 0 if label_shape is None else math.prod(label_shape)  # below 0 if it is unknown
            if not may_have(vectors, num_texts) or not may_have(labels, num_labels):
                return ops.zeros((), vectors.dtype)
            own_vectors = ops.reshape(vectors, (-1, num_texts, vectors.shape[-1]))
            numbers = None if text_numbers is None else ops.reshape(text_numbers, (-1, num_texts))
            own_labels = None if label_shape is None else ops.reshape(labels, (ops.shape(labels)[0], *label_shape))
            return loss(own_vectors, own_labels, numbers, weights)

        return ops.switch(number, [functools.partial(loss_of, *part) for part in self.parts])


def may_have(values, size: int) -> bool:
    """Returns whether the second axis may have this size. A batch of another data set may be the one that is traced."""
    return size < 0 or values.shape[1] in (None, size)


def number_and_labels(labels):
    """Returns the number of the data set of a batch, a scalar int, and its labels, float `[B, L]`.

    Raises `InputError` if the labels are not those of `MixedRows`, float `[B, 1 + L]`.
    """
    if labels is None or len(labels.shape) != 2:
        raise InputError(
            "This model is trained on several data sets, so validation_data must be DataSets of the same kinds in the "
            "same order. Received: one data set."
        )
    # A device may have no example of a small batch.
    return ops.cast(ops.max(labels[:, 0], initial=0), "int32"), labels[:, 1:]
