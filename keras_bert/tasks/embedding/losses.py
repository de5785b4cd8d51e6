"""Losses for sentence embeddings. Each takes the vectors of a whole batch and returns a scalar.

The vectors have the axes `[B, C, D]`: B examples of C texts each. The first text of an example is the anchor, the
second its positive, and the others are hard negatives.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_bert.layers.text_pooling import unit_length
from keras_bert.program.errors import InputError
from keras_bert.program.options import option
from keras_bert.tasks.embedding.examples import LABELS, PAIRS, SCORES, SentenceExamples
from keras_bert.tasks.embedding.loss_table import LOSSES, TextLoss, loss_of

FAR = -1e12  # the score of what a softmax must not select, or what is added to it


def cosines(vectors):
    """Returns the cosines of the first two texts of each example: `[B, C, D]` -> `[B]`."""
    units = unit_length(vectors)
    return ops.sum(units[:, 0] * units[:, 1], axis=-1)


def cross_entropy(scores, right):
    """Returns the cross-entropy `[B]` of the columns `right`, int `[B]`, of scores `[B, columns]`."""
    return ops.logsumexp(scores, axis=-1) - ops.take_along_axis(scores, right[:, None], axis=-1)[:, 0]


def stacked_candidates(vectors):
    """Returns all positives, then all first hard negatives, and so on: `[B * (C - 1), D]` of `[B, C, D]`."""
    return ops.reshape(ops.swapaxes(vectors[:, 1:], 0, 1), (-1, ops.shape(vectors)[-1]))


def equal_texts(numbers):
    """Returns which candidates are no negatives of an example, bool `[B, B * (C - 1)]`; its own positive is one."""
    num_examples = ops.shape(numbers)[0]
    candidates = ops.reshape(ops.transpose(numbers[:, 1:]), (-1,))  # in the order of the scores
    equals = ops.logical_or(numbers[:, :1] == candidates, numbers[:, 1:2] == candidates)
    same_anchor = numbers[:, :1] == numbers[:, 0]  # [B, B]: positives of equal anchors
    others = ops.zeros((num_examples, ops.shape(candidates)[0] - num_examples), "bool")
    equals = ops.logical_or(equals, ops.concatenate([same_anchor, others], axis=1))
    own = ops.arange(num_examples)[:, None] == ops.arange(ops.shape(candidates)[0])
    return ops.logical_and(equals, ops.logical_not(own))


def weighted_mean(losses, weights):
    """Returns the mean of losses `[B]`, weighted by `[B]` if there are weights."""
    if weights is None:
        return ops.mean(losses)
    return ops.divide_no_nan(ops.sum(losses * weights), ops.sum(weights))


@dataclasses.dataclass(frozen=True)
class EmbeddingLoss(TextLoss):
    """The interface of the losses.

    They learn from `PAIRS` of similar texts, pairs with `SCORES`, `LISTS` of scores, or texts with `LABELS`.
    """

    def label_shape(self, examples: SentenceExamples) -> tuple[int, ...] | None:
        """Returns the shape of one example's labels; None if there are none."""
        return None if self.learns_from == PAIRS else ()

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        """Returns the mean loss of a batch, a scalar tensor.

        Args:
            vectors: float32 `[B, C, D]`, of any length.
            labels: `[B]`: scores as float, or label ids as int; `[B, C - 1]` for lists of scores.
            text_numbers: int `[B, C]`; equal texts have equal numbers. None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class InBatchNegatives(EmbeddingLoss):
    """Each anchor must find its positive among the positives and hard negatives of the whole batch.

    The loss is the cross-entropy of a softmax over the cosines, divided by `temperature`. A text is never a negative of
    an example that has an equal text as its anchor or positive, nor of one whose anchor equals its own anchor.

    Args:
        temperature: above 0; 0.05 is the `scale` of 20 of sentence-transformers.
        symmetric: whether each positive must find its anchor among all anchors too; the loss is the mean of both.

    Reference: van den Oord et al., 2018, arXiv 1807.03748; sentence-transformers `MultipleNegativesRankingLoss`, and
    with `symmetric` its `MultipleNegativesSymmetricRankingLoss`.
    """

    temperature: float = option(0.05, above=0)
    symmetric: bool = False
    learns_from = PAIRS

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        examples.check_for_negatives("anchors")

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        units = unit_length(vectors)
        num_examples = ops.shape(units)[0]
        candidates = ops.transpose(stacked_candidates(units))
        scores = ops.matmul(units[:, 0], candidates) / self.temperature  # [B, B * (C - 1)]
        if text_numbers is not None:
            scores += FAR * ops.cast(equal_texts(text_numbers), scores.dtype)
        right = ops.arange(num_examples)
        losses = cross_entropy(scores, right)
        if self.symmetric:
            losses = (losses + cross_entropy(ops.transpose(scores[:, :num_examples]), right)) / 2
        return weighted_mean(losses, weights)


@dataclasses.dataclass(frozen=True)
class CoSENT(EmbeddingLoss):
    """Pairs with a higher score must have a higher cosine than pairs with a lower one.

    Args:
        temperature: divides the cosines, above 0; 0.05 is the `scale` of 20 of sentence-transformers.

    Reference: sentence-transformers `CoSENTLoss`.
    """

    temperature: float = option(0.05, above=0)
    learns_from = SCORES

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        found = self._similarities(vectors) / self.temperature
        differences = found[:, None] - found[None, :]  # above 0 where the order is wrong
        matters = labels[:, None] < labels[None, :]
        if weights is not None:  # an example of weight 0 fills up a batch
            matters = ops.logical_and(matters, ops.logical_and(weights[:, None] > 0, weights[None, :] > 0))
        differences = ops.reshape(ops.where(matters, differences, FAR), (-1,))
        return ops.logsumexp(ops.concatenate([ops.zeros_like(differences[:1]), differences]))

    def _similarities(self, vectors):
        return cosines(vectors)


@dataclasses.dataclass(frozen=True)
class AnglE(CoSENT):
    """As `CoSENT`, with the angle of complex vectors instead of the cosine: its gradient does not vanish near 1.

    The first half of a vector is its real part, and the second half its imaginary part.

    Args are those of `CoSENT`.

    Reference: Li and Li, 2023, arXiv 2309.12871; sentence-transformers `AnglELoss`.
    """

    def _similarities(self, vectors):
        size = vectors.shape[-1]
        units = ops.pad(unit_length(vectors), ((0, 0), (0, 0), (0, size % 2)))
        real, imaginary = ops.split(units, 2, axis=-1)
        sines = ops.sum(imaginary[:, 0] * real[:, 1] - real[:, 0] * imaginary[:, 1], axis=-1)
        return ops.abs(ops.sum(units[:, 0] * units[:, 1], axis=-1) + sines)


@dataclasses.dataclass(frozen=True)
class CosineRegression(EmbeddingLoss):
    """The squared difference between the cosine of a pair and its score.

    Reference: Reimers and Gurevych, 2019, arXiv 1908.10084, section 3; sentence-transformers `CosineSimilarityLoss`.
    """

    learns_from = SCORES

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        wrong = next((score for score in examples.scores or () if not -1 <= score <= 1), None)
        if wrong is not None:
            raise InputError(
                f"{examples.source}: a cosine is between -1 and 1, so the scores must be, too. Received: {wrong}. "
                "Divide scores from 0 to 5 by 5, or use the loss CoSENT."
            )

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        return weighted_mean(ops.square(cosines(vectors) - ops.cast(labels, vectors.dtype)), weights)


@dataclasses.dataclass(frozen=True)
class Triplet(EmbeddingLoss):
    """The positive must be nearer to the anchor than each hard negative, by a margin of the Euclidean distance.

    The margin is above 0.

    Reference: Reimers and Gurevych, 2019, section 3; sentence-transformers `TripletLoss`.
    """

    margin: float = option(5.0, above=0)
    learns_from = PAIRS
    fewest_texts = 3

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        # 1e-6 as torch's pairwise_distance adds it; it also keeps the gradient finite.
        distances = ops.sqrt(ops.sum(ops.square(vectors[:, :1] - vectors[:, 1:] + 1e-6), axis=-1))  # [B, C - 1]
        losses = ops.relu(distances[:, :1] - distances[:, 1:] + self.margin)
        return weighted_mean(ops.mean(losses, axis=-1), weights)


@dataclasses.dataclass(frozen=True)
class LabelTriplets(EmbeddingLoss):
    """Texts with the same label must be nearer to each other than to texts with other labels.

    The loss of a triplet is that of `Triplet`. It is averaged over those triplets of the batch whose loss is above 0.

    Reference: Hermans et al., 2017, arXiv 1703.07737, "batch all"; sentence-transformers `BatchAllTripletLoss`.
    """

    margin: float = option(5.0, above=0)
    learns_from = LABELS
    fewest_texts = 1

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        distances = _distances(vectors[:, 0])
        is_pair, is_other = _same_and_other(labels, weights)
        # [anchor, positive, negative]
        losses = ops.relu(distances[:, :, None] - distances[:, None, :] + self.margin)
        losses = ops.where(ops.logical_and(is_pair[:, :, None], is_other[:, None, :]), losses, 0.0)
        num_positive = ops.sum(ops.cast(losses > 1e-16, losses.dtype))
        return ops.sum(losses) / ops.maximum(num_positive, 1)


@dataclasses.dataclass(frozen=True)
class BatchHardTriplet(LabelTriplets):
    """As `LabelTriplets`, for one triplet of each text: the farthest text of its label and the nearest of another.

    Args are those of `LabelTriplets`.

    Reference: Hermans et al., 2017, arXiv 1703.07737, "batch hard"; sentence-transformers `BatchHardTripletLoss`.
    """

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        distances = _distances(vectors[:, 0])
        is_pair, is_other = _same_and_other(labels, weights)
        farthest = ops.max(ops.where(is_pair, distances, 0.0), axis=1)
        # As in sentence-transformers, a text without another label has the negative at the largest distance.
        counted = distances if weights is None else ops.where(weights[None, :] > 0, distances, 0.0)
        others = ops.where(is_other, distances, distances + ops.max(counted, axis=1, keepdims=True))
        return weighted_mean(ops.relu(farthest - ops.min(others, axis=1) + self.margin), weights)


@dataclasses.dataclass(frozen=True)
class Matryoshka(EmbeddingLoss):
    """Adds up a loss over prefixes of the vectors, so that vectors can be cut to their first numbers later.

    Args:
        loss: the loss of each prefix.
        dimensions: the lengths of the prefixes, such as `(384, 256, 128, 64)`.

    Raises:
        InputError: there are no dimensions, or one is below 1.

    Reference: Kusupati et al., 2022, arXiv 2205.13147; sentence-transformers `MatryoshkaLoss`.
    """

    loss: EmbeddingLoss
    dimensions: Sequence[int]

    def __post_init__(self):
        object.__setattr__(self, "dimensions", tuple(self.dimensions))
        if not self.dimensions or not all(isinstance(number, int) and number >= 1 for number in self.dimensions):
            raise InputError(f"dimensions must be one or more whole numbers from 1. Received: {self.dimensions}")
        for name in ("learns_from", "fewest_texts", "teacher", "teaches_vectors"):
            object.__setattr__(self, name, getattr(self.loss, name))

    def label_shape(self, examples: SentenceExamples) -> tuple[int, ...] | None:
        return self.loss.label_shape(examples)

    def check(self, examples: SentenceExamples, model: Any) -> None:
        self.loss.check(examples, model)
        if max(self.dimensions) > model.embedding_size:
            raise InputError(
                f"Matryoshka dimensions must be at most {model.embedding_size}, the size of the vectors. Received: "
                f"{max(self.dimensions)}"
            )

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        prefixes = [unit_length(vectors[..., :number]) for number in self.dimensions]
        return sum(self.loss(prefix, labels, text_numbers, weights) for prefix in prefixes)


def _distances(vectors):
    """Returns the Euclidean distances of all vectors `[B, D]`, `[B, B]`."""
    squares = ops.sum(ops.square(vectors), axis=-1)
    distances = squares[:, None] - 2 * ops.matmul(vectors, ops.transpose(vectors)) + squares[None, :]
    # Only positive numbers have a finite gradient of the square root.
    is_positive = distances > 0
    return ops.where(is_positive, ops.sqrt(ops.where(is_positive, distances, 1.0)), 0.0)


def _same_and_other(labels, weights):
    """Returns which texts have the label of another text, and which have another, bool `[B, B]`; none of weight 0."""
    is_same = labels[:, None] == labels[None, :]
    is_other = ops.logical_not(is_same)
    is_pair = ops.logical_and(is_same, ops.logical_not(ops.eye(ops.shape(labels)[0], dtype="bool")))
    if weights is None:
        return is_pair, is_other
    counts = ops.logical_and(weights[:, None] > 0, weights[None, :] > 0)
    return ops.logical_and(is_pair, counts), ops.logical_and(is_other, counts)


DEFAULT_LOSSES = {PAIRS: InBatchNegatives(), SCORES: CoSENT(), LABELS: LabelTriplets()}
as_loss = functools.partial(loss_of, EmbeddingLoss, LOSSES)
