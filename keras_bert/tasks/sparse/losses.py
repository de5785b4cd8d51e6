"""The losses of `SparseEncoder`: a ranking loss, and regularisers that make its vectors sparse."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from keras import ops

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, option
from keras_bert.tasks.embedding.examples import LISTS, PAIRS, DataSets, SentenceExamples
from keras_bert.tasks.embedding.losses import FAR, cross_entropy, equal_texts, weighted_mean
from keras_bert.tasks.embedding.mixed_loss import may_have, number_and_labels
from keras_bert.tasks.embedding.teacher_losses import margin_errors

IN_BATCH_NEGATIVES, MARGIN_MSE = "in_batch_negatives", "margin_mse"


@dataclasses.dataclass(frozen=True)
class SpladeLoss(Options):
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
        teacher: for `margin_mse`, a `CrossEncoder` or `SentenceEncoder` that scores the documents before training, or
            the folder of one; None if the examples have scores.

    Raises:
        InputError: the ranking is unknown, a number is out of range, or in-batch negatives have a teacher.

    Reference: Formal et al., 2021, arXiv 2109.10086; Paria et al., 2020, arXiv 2004.05665 (FLOPS); Hofstätter et al.,
    2020, arXiv 2010.02666 (margin MSE); sentence-transformers `SpladeLoss`, `SparseMultipleNegativesRankingLoss`,
    `SparseMarginMSELoss` and `SpladeRegularizerWeightSchedulerCallback`.
    """

    ranking: str | None = option(None, choices=(IN_BATCH_NEGATIVES, MARGIN_MSE))
    document_regularizer_weight: float = option(3e-5, at_least=0)
    query_regularizer_weight: float = option(5e-5, at_least=0)
    document_regularizer_threshold: int | None = option(None, at_least=0)
    query_regularizer_threshold: int | None = option(None, at_least=0)
    scale: float = option(1.0, above=0)
    warmup_ratio: float = option(1 / 3, at_least=0, at_most=1)
    teacher: Any = None
    teaches_vectors: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        if self.teacher is not None and self.ranking == IN_BATCH_NEGATIVES:
            raise InputError(f"A teacher is for {MARGIN_MSE}. Received: the ranking {IN_BATCH_NEGATIVES}")

    def check(self, examples: SentenceExamples, model: Any) -> None:
        """Raises `InputError` unless a model can learn from the examples."""
        if self.ranking == MARGIN_MSE or self.teacher is not None:
            examples.check_for(MARGIN_MSE, [LISTS], 3, self.teacher is not None)
            return
        examples.check_for(IN_BATCH_NEGATIVES, [PAIRS, LISTS], 2, has_teacher=False)
        if examples.kind == PAIRS:
            examples.check_for_negatives("queries")

    def __call__(self, vectors, teacher=None, text_numbers=None, weights=None, share=1.0, static_queries=False):
        """Returns the mean loss of a batch, a scalar tensor.

        Args:
            vectors: float `[B, C, V]`: a query, its document, and others.
            teacher: float `[B, C - 1]`, the teacher's scores of the documents, or `[B, C - 2]`, by how much that of the
                first exceeds those of the others; None for in-batch negatives.
            text_numbers: int `[B, C]`; equal texts have equal numbers. None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
            share: the share of the full weights of the regularisers, from 0 to 1.
            static_queries: whether only documents are regularised.

        Raises:
            InputError: a query has too few documents, or the teacher's scores are missing.
        """
        if self.ranking == MARGIN_MSE and teacher is None:
            raise InputError(f"{MARGIN_MSE} learns from a teacher's scores. Received: none. Give them as y.")
        is_taught = teacher is not None and self.ranking != IN_BATCH_NEGATIVES
        if len(vectors.shape) != 3 or not 2 + is_taught <= (vectors.shape[1] or 3):
            raise InputError(
                "A SparseEncoder learns from a query and a document, with a teacher's margins from two documents or "
                f"more. Received features of the shape {tuple(vectors.shape[:-1])}"
            )
        queries, documents = vectors[:, 0], ops.swapaxes(vectors[:, 1:], 0, 1)  # [B, V], [C - 1, B, V]
        if is_taught:
            scores = ops.transpose(ops.sum(ops.expand_dims(queries, 0) * documents, axis=2))  # [B, C - 1]
            losses = margin_errors(scores, ops.reshape(teacher, (ops.shape(scores)[0], -1)))
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
    """Returns the sum of the squares of the mean of vectors `[N, V]`, 0 or more, weighted by float `[N]`: a scalar.

    Vectors with at most `threshold` numbers above 0 count as 0.
    """
    if threshold is not None:
        counts = ops.count_nonzero(vectors, axis=1)
        vectors = ops.where(ops.expand_dims(counts > threshold, 1), vectors, 0.0)
    if weights is None:
        return ops.sum(ops.square(ops.mean(vectors, axis=0)))
    weights = ops.cast(weights, vectors.dtype)
    mean = ops.divide_no_nan(ops.matmul(ops.expand_dims(weights, 0), vectors), ops.sum(weights))
    return ops.sum(ops.square(mean))


@dataclasses.dataclass(frozen=True)
class MixedSpladeLoss:
    """Computes the loss of the data set that a batch is from; see `MixedRows` for its labels.

    Args:
        parts: for each data set, its loss, the number C of texts in its examples, and that of a teacher's scores.

    Raises:
        InputError: the regularisers of the losses warm up during different parts of the updates.
    """

    parts: Sequence[tuple]

    def __post_init__(self):
        ratios = sorted({loss.warmup_ratio for loss, *_ in self.parts})
        if len(ratios) > 1:
            raise InputError(f"All losses of a training must have one warmup_ratio. Received: {ratios}")

    @classmethod
    def of(cls, losses: Sequence[SpladeLoss], examples: DataSets) -> "MixedSpladeLoss":
        pairs = zip(losses, examples.parts, strict=True)
        return cls(tuple((loss, len(part.columns), _num_scores(loss, part)) for loss, part in pairs))

    @property
    def warmup_ratio(self) -> float:
        return self.parts[0][0].warmup_ratio

    def __call__(self, vectors, teacher=None, text_numbers=None, weights=None, share=1.0, static_queries=False):
        number, labels = number_and_labels(teacher)

        def loss_of(loss, num_texts, num_scores):
            if not may_have(vectors, num_texts) or not may_have(labels, num_scores):
                return ops.zeros((), vectors.dtype)
            own = ops.reshape(vectors, (-1, num_texts, vectors.shape[-1]))
            scores = ops.reshape(labels, (-1, num_scores)) if num_scores else None
            numbers = None if text_numbers is None else ops.reshape(text_numbers, (-1, num_texts))
            return loss(own, scores, numbers, weights, share, static_queries)

        return ops.switch(number, [functools.partial(loss_of, *part) for part in self.parts])


def _num_scores(loss: SpladeLoss, examples: SentenceExamples) -> int:
    """Returns how many scores of a teacher an example has."""
    if examples.scores is not None:
        return len(examples.scores[0])
    return 0 if loss.teacher is None else len(examples.columns) - 1


def as_splade_loss(loss: SpladeLoss | str | None) -> SpladeLoss | None:
    """Returns a loss by the name of its ranking loss; a loss or None is returned as it is. Raises `InputError`."""
    if loss is None or isinstance(loss, SpladeLoss):
        return loss
    if not isinstance(loss, str):
        raise InputError(
            f"loss must be a SpladeLoss, {IN_BATCH_NEGATIVES!r} or {MARGIN_MSE!r}. Received: {loss!r:.100}"
        )
    return SpladeLoss(loss)
