"""Losses for pairs that are similar or not, with a margin for those that are not."""

import dataclasses
from typing import Any

from keras import ops

from keras_bert.program.errors import InputError
from keras_bert.program.options import option
from keras_bert.tasks.embedding.examples import SCORES, SentenceExamples
from keras_bert.tasks.embedding.losses import EmbeddingLoss, cosines, weighted_mean


@dataclasses.dataclass(frozen=True)
class Contrastive(EmbeddingLoss):
    """Similar pairs must have a cosine distance of 0, and other pairs one of at least `margin`.

    A pair has the score 1 if it is similar, and 0 if not. The loss of a pair is half the square of what is missing.

    Args:
        margin: the margin of the distance, which is 1 minus the cosine; above 0.

    Reference: Hadsell et al., 2006, "Dimensionality Reduction by Learning an Invariant Mapping"; sentence-transformers
    `ContrastiveLoss`.
    """

    margin: float = option(0.5, above=0)
    learns_from = SCORES

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        wrong = next((score for score in examples.scores or () if score not in (0, 1)), None)
        if wrong is not None:
            raise InputError(
                f"{examples.source}: {type(self).__name__} needs the scores 1, for similar pairs, and 0. Received: "
                f"{wrong}. Use cosent for other scores."
            )

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        of_similar, of_others = self._squares(vectors)
        labels = ops.cast(labels, of_similar.dtype)
        return weighted_mean((labels * of_similar + (1 - labels) * of_others) / 2, weights)

    def _squares(self, vectors):
        """Returns the square of what is missing `[B]`, for similar pairs and for others."""
        distances = 1 - cosines(vectors)
        return ops.square(distances), ops.square(ops.relu(self.margin - distances))


@dataclasses.dataclass(frozen=True)
class OnlineContrastive(Contrastive):
    """As `Contrastive`, for the hard pairs of a batch: those that the distances of the batch do not separate.

    Similar pairs count if their distance is above the smallest one of the other pairs, and other pairs if it is below
    the largest one of the similar pairs. If a batch has pairs of one kind only, their mean takes this place. The loss
    is the sum of the squares.

    Args are those of `Contrastive`.

    Reference: sentence-transformers `OnlineContrastiveLoss`.
    """

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        of_similar, of_others = self._squares(vectors)
        distances = 1 - cosines(vectors)
        counts = ops.ones_like(distances, dtype="bool") if weights is None else weights > 0
        is_similar, is_other = ops.logical_and(labels == 1, counts), ops.logical_and(labels == 0, counts)
        largest = ops.where(ops.any(is_similar), _masked_max(distances, is_similar), _masked_mean(distances, is_other))
        smallest = ops.where(ops.any(is_other), -_masked_max(-distances, is_other), _masked_mean(distances, is_similar))
        losses = ops.where(ops.logical_and(is_similar, distances > smallest), of_similar, 0.0)
        losses += ops.where(ops.logical_and(is_other, distances < largest), of_others, 0.0)
        return weighted_mean(losses, weights) * ops.sum(ops.cast(counts, losses.dtype))


def _masked_max(values, mask):
    return ops.max(ops.where(mask, values, -4.0), initial=-4.0)  # distances are from 0 to 2


def _masked_mean(values, mask):
    mask = ops.cast(mask, values.dtype)
    return ops.divide_no_nan(ops.sum(values * mask), ops.sum(mask))
