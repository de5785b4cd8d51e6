"""Losses for cross-encoders. Each takes the scores of a batch's texts and returns a `LossTerm`.

The scores are the outputs of the model before its activation, `[B, T]`: B queries with T texts each.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_bert.models.losses import LossTerm, binary_accuracy_term, binary_cross_entropy_term, cross_entropy_term
from keras_bert.program.errors import InputError
from keras_bert.program.options import option
from keras_bert.tasks.embedding.examples import LISTS, PAIRS, SCORES, DataSets, SentenceExamples
from keras_bert.tasks.embedding.loss_table import TextLoss, loss_of
from keras_bert.tasks.embedding.mixed_loss import may_have, number_and_labels
from keras_bert.tasks.embedding.teacher_losses import margin_errors
from keras_bert.tasks.ranking.loss_table import RANKING_LOSSES

_NAME = "ranking_loss"


@dataclasses.dataclass(frozen=True)
class RankingLoss(TextLoss):
    """The interface of the losses.

    They learn from pairs with `SCORES`; from `PAIRS` and further texts, where the first one is relevant; or from
    `LISTS` of scores for the texts of each query.
    """

    fewest_texts = 3

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        """Returns the loss of a batch.

        Args:
            scores: float `[B, T]`.
            labels: the relevance of each text, float `[B, T]`.
            weights: float `[B]`, the weights of the queries; None for 1.
        """
        raise NotImplementedError

    def accuracy(self, scores, labels, weights=None) -> LossTerm:
        """Returns the share of queries whose most relevant text has the highest score; see `__call__`."""
        num_texts = scores.shape[-1]
        # Margins are those of the first text. A tie counts as wrong: a model that scores all texts alike knows nothing.
        best = ops.argmax(labels, axis=-1) if labels.shape[-1] == num_texts else ops.zeros_like(labels[:, 0], "int32")
        is_best = ops.one_hot(best, num_texts, dtype="bool")
        others = ops.max(ops.where(is_best, -math.inf, scores), axis=-1)
        leads = ops.sum(ops.where(is_best, scores, 0.0), axis=-1) - others
        return binary_accuracy_term("accuracy", leads[:, None], ops.ones_like(leads[:, None]), weights)


@dataclasses.dataclass(frozen=True)
class BinaryCrossEntropy(RankingLoss):
    """The probability of a text, the sigmoid of its score, must be its relevance, from 0 to 1.

    Reference: sentence-transformers `BinaryCrossEntropyLoss`.
    """

    learns_from = (SCORES,)
    fewest_texts = 2

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        wrong = next((score for score in examples.scores or () if not 0 <= score <= 1), None)
        if wrong is not None:
            raise InputError(f"{examples.source}: relevances must be between 0 and 1. Received: {wrong}")

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        return binary_cross_entropy_term(_NAME, scores, labels, weights)

    def accuracy(self, scores, labels, weights=None) -> LossTerm:
        return binary_accuracy_term("accuracy", scores, labels > 0.5, weights)


@dataclasses.dataclass(frozen=True)
class CrossEntropy(RankingLoss):
    """The first text must be found among the texts of its query: the cross-entropy of a softmax over their scores."""

    learns_from = (PAIRS,)

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        return cross_entropy_term(_NAME, scores, ops.zeros_like(labels[:, 0], dtype="int32"), weights)


@dataclasses.dataclass(frozen=True)
class RankingMarginMSE(RankingLoss):
    """The first text must exceed each other one by as much as for a teacher: the mean of the squared differences.

    Args:
        teacher: a `CrossEncoder` or `SentenceEncoder`, or the folder of one; None if the examples have its scores.

    Reference: Hofstätter et al., 2020, arXiv 2010.02666; sentence-transformers `MarginMSELoss` of cross-encoders.
    """

    teacher: Any = None
    learns_from = (LISTS,)

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        return _mean_term(margin_errors(scores, labels), ops.ones_like(labels[:, 0]), weights)


@dataclasses.dataclass(frozen=True)
class ListNet(RankingLoss):
    """The texts of a query must have the probabilities that their relevances give: the cross-entropy of the softmax.

    Args:
        teacher: as for `RankingMarginMSE`.

    Reference: Cao et al., 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach"; sentence-transformers
    `ListNetLoss`.
    """

    teacher: Any = None
    learns_from = (LISTS, PAIRS)

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        if examples.kind == LISTS and len(examples.scores[0]) < len(examples.columns) - 1:
            raise InputError(
                f"{examples.source}: {type(self).__name__} needs a score for each text after the query, "
                f"{len(examples.columns) - 1} in each example. Received: margins. Use margin_mse for these."
            )

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        wanted = ops.softmax(ops.cast(labels, scores.dtype), axis=-1)
        losses = -ops.sum(wanted * ops.log_softmax(scores, axis=-1), axis=-1)
        return _mean_term(losses, ops.ones_like(labels[:, 0]), weights)


def _lambda_rank(gains, discounts):
    return ops.abs(1 / discounts[:, None] - 1 / discounts) * ops.abs(gains[:, :, None] - gains[:, None, :])


def _ndcg_loss2(gains, discounts):
    # With the ranks i and j, the discounts of the ranks |i - j| and |i - j| + 1.
    places = ops.arange(discounts.shape[0])
    apart = ops.abs(places[:, None] - places)
    further = ops.log2(2.0 + ops.cast(apart, discounts.dtype))
    nearer = ops.log2(1.0 + ops.cast(ops.maximum(apart, 1), discounts.dtype))
    deltas = ops.where(apart == 0, 0.0, ops.abs(1 / nearer - 1 / further))
    return deltas * ops.abs(gains[:, :, None] - gains[:, None, :])


# Scheme -> the weight of each pair of texts, `[B, T, T]` or fewer axes, from gains `[B, T]` and discounts `[T]` in the
# order of the scores.
_SCHEMES: dict[str, Callable] = {
    "none": lambda gains, discounts: 1.0,
    "ndcg_loss1": lambda gains, discounts: (gains / discounts)[:, :, None],
    "ndcg_loss2": _ndcg_loss2,
    "lambda_rank": _lambda_rank,
    "ndcg_loss2pp": lambda gains, discounts: 10 * _ndcg_loss2(gains, discounts) + _lambda_rank(gains, discounts),
}


@dataclasses.dataclass(frozen=True)
class LambdaLoss(ListNet):
    """A more relevant text must have a higher score than a less relevant one; each pair weighs what it changes of nDCG.

    The loss of a pair is -log2(sigmoid(sigma * difference of the scores)). It is averaged over the pairs of the batch.

    Args:
        teacher: as for `RankingMarginMSE`.
        weighting_scheme: `ndcg_loss2pp`, `ndcg_loss2`, `lambda_rank`, `ndcg_loss1` or `none`.
        sigma: multiplies the differences; above 0.
        k: only pairs count of which one text is among the k highest scores, 1 or more, and the best DCG is that of k
            texts; None for all.

    Reference: Wang et al., 2018, "The LambdaLoss Framework for Ranking Metric Optimization"; sentence-transformers
    `LambdaLoss`.
    """

    weighting_scheme: str = option("ndcg_loss2pp", choices=tuple(_SCHEMES))
    sigma: float = option(1.0, above=0)
    k: int | None = option(None, at_least=1)

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        labels = ops.cast(labels, scores.dtype)
        discounts = ops.log2(2.0 + ops.arange(scores.shape[-1], dtype=scores.dtype))
        best_gains = 2.0 ** ops.flip(ops.sort(ops.relu(labels), axis=-1), axis=-1) - 1
        best = ops.maximum(ops.sum((best_gains / discounts)[:, : self.k], axis=-1, keepdims=True), 1e-10)
        order = ops.argsort(-scores, axis=-1)
        scores, labels = (ops.take_along_axis(values, order, axis=-1) for values in (scores, labels))
        gains = (2.0 ** ops.relu(labels) - 1) / best
        pairs = ops.log_sigmoid(self.sigma * (scores[:, :, None] - scores[:, None, :]))
        pairs *= _SCHEMES[self.weighting_scheme](gains, discounts)
        counts = self._counts(labels)
        losses = -ops.sum(ops.where(counts, pairs, 0.0), axis=(1, 2)) / math.log(2)
        return _mean_term(losses, ops.sum(ops.cast(counts, scores.dtype), axis=(1, 2)), weights)

    def _counts(self, labels):
        """Returns which pairs of texts count, bool `[B, T, T]`, from labels in the order of the scores."""
        counts = labels[:, :, None] > labels[:, None, :]
        if self.weighting_scheme == "ndcg_loss1":
            counts = ops.ones_like(counts)
        is_top = ops.arange(labels.shape[-1]) < (self.k or labels.shape[-1])
        return ops.logical_and(counts, ops.logical_or(is_top[:, None], is_top))


@dataclasses.dataclass(frozen=True)
class RankNet(LambdaLoss):
    """As `LambdaLoss`, with equal weights for all pairs.

    Reference: Burges et al., 2005, "Learning to Rank using Gradient Descent"; sentence-transformers `RankNetLoss`.
    """

    weighting_scheme: str = dataclasses.field(default="none", init=False)


@dataclasses.dataclass(frozen=True)
class MixedRankingLoss(RankingLoss):
    """Computes the loss of the data set that a batch is from; see `MixedRows` for its labels.

    Args:
        parts: for each data set, its loss, and the numbers of texts and of labels of a query.
    """

    parts: Sequence[tuple]

    @classmethod
    def of(cls, losses: Sequence[RankingLoss], examples: DataSets) -> "MixedRankingLoss":
        def num_labels(part):
            return len(part.scores[0]) if part.kind == LISTS else len(part.columns) - 1

        pairs = zip(losses, examples.parts, strict=True)
        return cls(tuple((loss, len(part.columns) - 1, num_labels(part)) for loss, part in pairs))

    def __call__(self, scores, labels, weights=None) -> LossTerm:
        return self._term(_NAME, lambda loss: loss, scores, labels, weights)

    def accuracy(self, scores, labels, weights=None) -> LossTerm:
        return self._term("accuracy", lambda loss: loss.accuracy, scores, labels, weights)

    def _term(self, name: str, function_of: Callable, scores, labels, weights) -> LossTerm:
        number, labels = number_and_labels(labels)
        num_queries = ops.shape(labels)[0]

        def sum_of(kind, found, loss, num_texts, num_labels):
            if not may_have(scores, num_texts) or not may_have(labels, num_labels):
                return ops.zeros((), scores.dtype)
            own_scores = ops.zeros((num_queries, num_texts), scores.dtype) if found is None else found
            own = ops.reshape(own_scores, (-1, num_texts)), ops.reshape(labels, (-1, num_labels))
            return getattr(function_of(loss)(*own, weights), kind)

        # The weight is computed without the scores, so that TensorFlow can leave these out.
        kinds = ("numerator", scores), ("weight", None)
        branches = ([functools.partial(sum_of, *kind, *part) for part in self.parts] for kind in kinds)
        return LossTerm(name, *(ops.switch(number, functions) for functions in branches))


def _mean_term(losses, counts, weights) -> LossTerm:
    """Returns the mean of losses `[B]` as a term; `counts` `[B]` is how much each of them counts."""
    counts = ops.cast(counts, losses.dtype)
    weights = ops.ones_like(counts) if weights is None else ops.cast(weights, losses.dtype)
    return LossTerm(_NAME, ops.sum(losses * weights), ops.sum(counts * weights))


DEFAULT_LOSSES = {PAIRS: CrossEntropy(), SCORES: BinaryCrossEntropy()}
as_ranking_loss = functools.partial(loss_of, RankingLoss, RANKING_LOSSES)
