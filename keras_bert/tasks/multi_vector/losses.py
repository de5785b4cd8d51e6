"""Losses over MaxSim. Each takes the vectors of a whole batch and returns a scalar.

The vectors of B queries are `[B, S, D]`, those of their documents `[B, N, T, D]`: N documents for each query, with a
vector for each of T tokens. A vector of zeros is no token.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_bert.program.errors import InputError
from keras_bert.program.options import option
from keras_bert.tasks.embedding.examples import LISTS, PAIRS, DataSets, SentenceExamples
from keras_bert.tasks.embedding.loss_table import TextLoss, loss_of
from keras_bert.tasks.embedding.losses import FAR, cross_entropy, weighted_mean
from keras_bert.tasks.embedding.mixed_loss import may_have, number_and_labels
from keras_bert.tasks.embedding.teacher_losses import margin_errors
from keras_bert.tasks.multi_vector.max_sim import MAX_SIM_LOSSES

_EMPTY_DOCUMENT = -1e9  # the score of a document without tokens


@dataclasses.dataclass(frozen=True)
class MaxSimLoss(TextLoss):
    """The interface of the losses.

    They learn from `PAIRS` of queries and documents, or from `LISTS` of a teacher's scores of the documents.
    """

    learns_from = LISTS
    fewest_texts = 3
    teacher: Any = dataclasses.field(default=None, kw_only=True)

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        num_documents = len(examples.columns) - 1
        if examples.scores is not None and len(examples.scores[0]) < num_documents:
            raise InputError(
                f"{examples.source}: a teacher's scores must be {num_documents} numbers for each query, one for each "
                f"document. Received: {len(examples.scores[0])}"
            )

    def __call__(self, queries, documents, labels=None, text_numbers=None, weights=None, is_mean=False):
        """Returns the mean loss of a batch, a scalar tensor.

        Args:
            queries, documents: float `[B, S, D]` and `[B, N, T, D]`, see the module.
            labels: float `[B, N]`, a teacher's scores of the documents.
            text_numbers: int `[B, 1 + N]`; equal texts have equal numbers. None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
            is_mean: whether MaxSim is divided by the number of the query's tokens.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class MaxSimInBatchNegatives(MaxSimLoss):
    """Each query must find its document among the documents of the whole batch: cross-entropy of a softmax.

    A document is never a negative of a query that has an equal text, nor of one that equals its own query.

    Args:
        scale: the factor of the scores, above 0.

    Reference: Khattab and Zaharia, 2020, arXiv 2004.12832; sentence-transformers
    `MultiVectorMultipleNegativesRankingLoss`.
    """

    scale: float = option(1.0, above=0)
    teacher: None = dataclasses.field(default=None, init=False)
    learns_from = PAIRS
    fewest_texts = 2

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        examples.check_for_negatives("queries")

    def __call__(self, queries, documents, labels=None, text_numbers=None, weights=None, is_mean=False):
        num_examples, num_documents = ops.shape(documents)[:2]
        documents = ops.reshape(documents, (-1, *ops.shape(documents)[2:]))
        scores = self.scale * _max_sim(queries, documents, "ash,bth->abst", is_mean)  # [B, B * N]
        if text_numbers is not None:
            scores += FAR * ops.cast(_no_negatives(text_numbers), scores.dtype)
        own = ops.arange(num_examples) * num_documents
        return weighted_mean(cross_entropy(scores, own), weights)


@dataclasses.dataclass(frozen=True)
class MaxSimDistillation(MaxSimLoss):
    """The softmax of a query's scores must be that of a teacher: Kullback-Leibler divergence, times temperature².

    Args:
        teacher: see `MaxSimLoss`.
        temperature: divides the scores of the model and of the teacher; above 0.

    Reference: Santhanam et al., 2022, arXiv 2112.01488 (ColBERTv2); sentence-transformers
    `MultiVectorDistillKLDivLoss`.
    """

    temperature: float = option(1.0, above=0)

    def __call__(self, queries, documents, labels=None, text_numbers=None, weights=None, is_mean=False):
        own = ops.log_softmax(_max_sim(queries, documents, "ash,abth->abst", is_mean) / self.temperature, axis=-1)
        teacher = ops.log_softmax(ops.cast(labels, own.dtype) / self.temperature, axis=-1)
        return weighted_mean(ops.sum(ops.exp(teacher) * (teacher - own), axis=-1), weights) * self.temperature**2


@dataclasses.dataclass(frozen=True)
class MaxSimMarginMSE(MaxSimLoss):
    """The first document must lead each other one as in a teacher's scores: squared difference of the leads.

    Args:
        teacher: see `MaxSimLoss`.

    Reference: Hofstätter et al., 2020, arXiv 2010.02666; sentence-transformers `MultiVectorMarginMSELoss`.
    """

    def __call__(self, queries, documents, labels=None, text_numbers=None, weights=None, is_mean=False):
        scores = _max_sim(queries, documents, "ash,abth->abst", is_mean)
        return weighted_mean(margin_errors(scores, labels), weights)


@dataclasses.dataclass(frozen=True)
class MixedMaxSimLoss(MaxSimLoss):
    """Computes the loss of the data set that a batch is from; see `MixedRows` for its labels.

    Args:
        parts: for each data set, its loss, and its number N of documents for a query.
    """

    parts: Sequence[tuple] = ()
    fewest_texts = 2

    @classmethod
    def of(cls, losses: Sequence[MaxSimLoss], examples: DataSets) -> "MixedMaxSimLoss":
        pairs = zip(losses, examples.parts, strict=True)
        return cls(parts=tuple((loss, len(part.columns) - 1) for loss, part in pairs))

    def __call__(self, queries, documents, labels=None, text_numbers=None, weights=None, is_mean=False):
        number, labels = number_and_labels(labels)

        def loss_of(loss, num_documents):
            num_labels = num_documents if loss.learns_from == LISTS else 0
            if not may_have(documents, num_documents) or not may_have(labels, num_labels):
                return ops.zeros((), documents.dtype)
            own = ops.reshape(documents, (-1, num_documents, *ops.shape(documents)[2:]))
            own_labels = ops.reshape(labels, (-1, num_labels)) if num_labels else None
            numbers = None if text_numbers is None else ops.reshape(text_numbers, (-1, 1 + num_documents))
            return loss(queries, own, own_labels, numbers, weights, is_mean)

        return ops.switch(number, [functools.partial(loss_of, *part) for part in self.parts])


def _max_sim(queries, documents, products: str, is_mean: bool):
    """Returns scores `[A, B]` of queries `[A, S, D]` and documents, `[B, T, D]` for all queries or `[A, B, T, D]`.

    `products` is the einsum of both to the products of tokens, `[A, B, S, T]`.
    """
    products = ops.einsum(products, queries, documents)
    is_token = ops.any(documents != 0, axis=-1)  # [..., B, T]
    best = ops.max(ops.where(ops.expand_dims(is_token, -2), products, _EMPTY_DOCUMENT), axis=-1)
    counts = ops.expand_dims(ops.cast(ops.any(queries != 0, axis=-1), best.dtype), 1)  # [A, 1, S]
    scores = ops.sum(best * counts, axis=-1)
    if is_mean:
        scores /= ops.maximum(ops.sum(counts, axis=-1), 1)
    return ops.where(ops.any(is_token, axis=-1), scores, _EMPTY_DOCUMENT)


def _no_negatives(numbers):
    """Returns which documents are no negatives of a query, bool `[B, B * N]`; its own document is one."""
    num_examples, num_documents = ops.shape(numbers)[0], ops.shape(numbers)[1] - 1
    documents = ops.reshape(numbers[:, 1:], (1, -1))
    equals = ops.logical_or(numbers[:, :1] == documents, numbers[:, 1:2] == documents)
    is_own = ops.eye(num_examples, dtype="bool")
    of_equal_query = ops.logical_and(numbers[:, :1] == numbers[:, 0], ops.logical_not(is_own))
    equals = ops.logical_or(equals, ops.repeat(of_equal_query, num_documents, axis=1))
    first = ops.arange(num_examples * num_documents) % num_documents == 0
    own = ops.logical_and(ops.repeat(is_own, num_documents, axis=1), first)
    return ops.logical_and(equals, ops.logical_not(own))


DEFAULT_LOSSES = {PAIRS: MaxSimInBatchNegatives(), LISTS: MaxSimDistillation()}
as_loss = functools.partial(loss_of, MaxSimLoss, MAX_SIM_LOSSES)
