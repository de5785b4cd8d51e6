"""The losses of `SparseEncoder`: a ranking loss, and regularisers that make its vectors sparse."""

import dataclasses
import math
from typing import Any

from keras import ops

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.loss_parts import FAR, cross_entropy, equal_texts, weighted_mean

IN_BATCH_NEGATIVES, MARGIN_MSE = "in_batch_negatives", "margin_mse"


@dataclasses.dataclass(frozen=True)
class SpladeLoss:
    """A ranking loss, plus the FLOPS of queries and of documents times their weights.

    `in_batch_negatives`: each query must find its document among all documents of the batch, by a softmax over their
    products. A text is never a negative of an example that has an equal text, nor of one with an equal query.

    `margin_mse`: the squared difference between two margins, that of the products and that of a teacher's scores. A
    margin is the score of the first document less that of another.

    The FLOPS of vectors are the sum of the squares of their mean. The weights rise quadratically from 0 at the first
    update of a `fit` to their full values after `warmup_ratio` of its updates.

    Args:
        ranking: `in_batch_negatives` or `margin_mse`. None: `margin_mse` if the examples have a teacher's scores.
        document_regularizer_weight, query_regularizer_weight: the weights, 0 or more. Queries of a model with
            `static_queries` cannot become sparser and are not regularised.
        document_regularizer_threshold, query_regularizer_threshold: only vectors with more numbers above 0 count; None
            for all.
        scale: the factor of the products in the softmax.
        warmup_ratio: from 0, for full weights at once, to 1.

    Raises:
        InputError: the ranking is unknown, or a number is out of range.

    Reference: Formal et al., 2021, arXiv 2109.10086; Paria et al., 2020, arXiv 2004.05665 (FLOPS); Hofstätter et al.,
    2020, arXiv 2010.02666 (margin MSE); sentence-transformers `SpladeLoss`, `SparseMultipleNegativesRankingLoss`,
    `SparseMarginMSELoss` and `SpladeRegularizerWeightSchedulerCallback`.
    """

    ranking: str | None = None
    document_regularizer_weight: float = 3e-5
    query_regularizer_weight: float = 5e-5
    document_regularizer_threshold: int | None = None
    query_regularizer_threshold: int | None = None
    scale: float = 1.0
    warmup_ratio: float = 1 / 3

    def __post_init__(self):
        if self.ranking not in (None, IN_BATCH_NEGATIVES, MARGIN_MSE):
            raise InputError(
                f"ranking must be {IN_BATCH_NEGATIVES}, {MARGIN_MSE} or None. Received: {self.ranking!r:.100}"
            )
        for side in ("document", "query"):
            weight, threshold = (getattr(self, f"{side}_regularizer_{name}") for name in ("weight", "threshold"))
            if not (_is_number(weight) and weight >= 0):
                raise InputError(f"{side}_regularizer_weight must be a number from 0. Received: {weight!r:.100}")
            if threshold is not None and not (isinstance(threshold, int) and threshold >= 0):
                raise InputError(
                    f"{side}_regularizer_threshold must be a whole number from 0, or None. Received: {threshold!r:.100}"
                )
        if not (_is_number(self.scale) and self.scale > 0):
            raise InputError(f"scale must be above 0. Received: {self.scale!r:.100}")
        if not (_is_number(self.warmup_ratio) and self.warmup_ratio <= 1):
            raise InputError(f"warmup_ratio must be from 0 to 1. Received: {self.warmup_ratio!r:.100}")

    @property
    def needs_teacher(self) -> bool:
        """Whether the loss needs a teacher's scores."""
        return self.ranking == MARGIN_MSE

    def __call__(
        self,
        vectors: Any,
        teacher: Any = None,
        text_numbers: Any = None,
        weights: Any = None,
        share: Any = 1.0,
        static_queries: bool = False,
    ) -> Any:
        """Returns the mean loss of a batch, a scalar tensor.

        Args:
            vectors: float `[B, C, V]`: a query, its document, and others.
            teacher: float `[B, C - 2]`, the margins of the teacher; None for in-batch negatives.
            text_numbers: int `[B, C]`; equal texts have equal numbers. None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
            share: the share of the full weights of the regularisers, from 0 to 1.
            static_queries: whether only documents are regularised.
        """
        queries, documents = vectors[:, 0], ops.swapaxes(vectors[:, 1:], 0, 1)  # [B, V], [C - 1, B, V]
        is_taught = teacher is not None if self.ranking is None else self.needs_teacher
        if is_taught:
            losses = _margin_losses(queries, documents, ops.cast(teacher, vectors.dtype))
        else:
            losses = self._in_batch_losses(queries, documents, text_numbers)
        loss = weighted_mean(losses, weights)
        of_documents = None
        if weights is not None:
            of_documents = ops.reshape(ops.broadcast_to(weights, ops.shape(documents)[:2]), (-1,))
        documents = ops.reshape(documents, (-1, vectors.shape[2]))
        document_flops = flops(documents, self.document_regularizer_threshold, of_documents)
        loss += share * self.document_regularizer_weight * document_flops
        if static_queries:
            return loss
        query_flops = flops(queries, self.query_regularizer_threshold, weights)
        return loss + share * self.query_regularizer_weight * query_flops

    def _in_batch_losses(self, queries, documents, text_numbers):
        # All first documents, then all second ones, and so on.
        candidates = ops.reshape(documents, (-1, documents.shape[2]))
        scores = ops.matmul(queries, ops.transpose(candidates)) * self.scale  # [B, B * (C - 1)]
        if text_numbers is not None:
            scores += FAR * ops.cast(equal_texts(text_numbers), scores.dtype)
        return cross_entropy(scores, ops.arange(ops.shape(queries)[0]))


def flops(vectors: Any, threshold: int | None = None, weights: Any = None) -> Any:
    """Returns the sum of the squares of the mean of vectors `[N, V]`, a scalar tensor.

    Args:
        vectors: 0 or more.
        threshold: vectors with at most so many numbers above 0 count as 0; None for none.
        weights: float `[N]`, weights of the vectors in the mean; None for 1.
    """
    if threshold is not None:
        counts = ops.count_nonzero(vectors, axis=1)
        vectors = ops.where(ops.expand_dims(counts > threshold, 1), vectors, 0.0)
    if weights is None:
        return ops.sum(ops.square(ops.mean(vectors, axis=0)))
    weights = ops.cast(weights, vectors.dtype)
    mean = ops.divide_no_nan(ops.matmul(ops.expand_dims(weights, 0), vectors), ops.sum(weights))
    return ops.sum(ops.square(mean))


def _margin_losses(queries, documents, teacher):
    """Returns the squared errors of the margins, averaged over the documents of each example: `[B]`."""
    scores = ops.sum(ops.expand_dims(queries, 0) * documents, axis=2)  # [C - 1, B]
    margins = ops.transpose(scores[:1] - scores[1:])  # [B, C - 2]
    return ops.mean(ops.square(margins - teacher), axis=1)


def as_splade_loss(loss: SpladeLoss | str | None) -> SpladeLoss | None:
    """Returns a loss by the name of its ranking loss; a loss or None is returned as it is. Raises `InputError`."""
    if loss is None or isinstance(loss, SpladeLoss):
        return loss
    if not isinstance(loss, str):
        raise InputError(
            f"loss must be a SpladeLoss, {IN_BATCH_NEGATIVES!r} or {MARGIN_MSE!r}. Received: {loss!r:.100}"
        )
    return SpladeLoss(loss)


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
