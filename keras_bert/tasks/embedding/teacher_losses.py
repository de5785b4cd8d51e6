"""Losses that learn from another model: from the scores of a teacher, or from the vectors of a guide."""

import dataclasses
from typing import Any

from keras import ops

from keras_bert.layers.text_pooling import unit_length
from keras_bert.program.errors import InputError
from keras_bert.program.options import option
from keras_bert.tasks.embedding.examples import LISTS, PAIRS, SentenceExamples
from keras_bert.tasks.embedding.losses import FAR, EmbeddingLoss, cross_entropy, stacked_candidates, weighted_mean


@dataclasses.dataclass(frozen=True)
class MarginMSE(EmbeddingLoss):
    """The positive must exceed each hard negative by as much as for a teacher: the mean of the squared differences.

    The score of a text is its dot product with the anchor. Examples bring the teacher's scores or margins, or the
    teacher computes them before training.

    Args:
        teacher: a `CrossEncoder` or `SentenceEncoder`, or the folder of one; None if the examples have scores.

    Reference: Hofstätter et al., 2020, arXiv 2010.02666; sentence-transformers `MarginMSELoss`.
    """

    teacher: Any = None
    learns_from = LISTS
    fewest_texts = 3

    def label_shape(self, examples: SentenceExamples) -> tuple[int, ...]:
        return (len(examples.scores[0]) if examples.scores else len(examples.columns) - 1,)

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        return weighted_mean(margin_errors(_products(vectors), labels), weights)


@dataclasses.dataclass(frozen=True)
class DistillKLDiv(MarginMSE):
    """The texts of an example must have the probabilities that a teacher gives them: the Kullback-Leibler divergence.

    The probabilities are the softmax of the scores of an example's texts, divided by a temperature. The score of a text
    is its dot product with the anchor.

    Args:
        teacher: as for `MarginMSE`.
        temperature: the temperature of both models, above 0.
        student_temperature, teacher_temperature: the temperature of one of them; None for `temperature`.

    Reference: Lin et al., 2020, arXiv 2010.11386; sentence-transformers `DistillKLDivLoss`.
    """

    temperature: float = option(1.0, above=0)
    student_temperature: float | None = option(None, above=0)
    teacher_temperature: float | None = option(None, above=0)

    def __post_init__(self):
        super().__post_init__()
        for name in ("student_temperature", "teacher_temperature"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.temperature)

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        if examples.scores and len(examples.scores[0]) < len(examples.columns) - 1:
            raise InputError(
                f"{examples.source}: DistillKLDiv needs a score for each text after the first, "
                f"{len(examples.columns) - 1} in each example. Received: margins. Use margin_mse for these."
            )

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        temperatures = self.student_temperature, self.teacher_temperature
        return weighted_mean(divergences(_products(vectors), labels, *temperatures), weights)


@dataclasses.dataclass(frozen=True)
class GISTEmbed(EmbeddingLoss):
    """In-batch negatives without those that a guide finds about as similar to the anchor as its positive.

    Candidates of an anchor are all positives and hard negatives of the batch; with `contrast_anchors` also the other
    anchors. With `contrast_positives`, the positive must be unlike the other positives too. A candidate is left out if
    its cosine, for the guide, is above that of anchor and positive. The guide computes its vectors before training,
    and they are kept in memory.

    Args:
        guide: a `SentenceEncoder`, or the folder of one.
        temperature: divides the cosines; above 0.
        margin_strategy: `absolute` leaves candidates out above (positive - margin), `relative` above
            (positive - margin * |positive|).
        margin: the margin.
        contrast_anchors, contrast_positives: whether these are candidates.

    Reference: Solatorio, 2024, arXiv 2402.16829; sentence-transformers `GISTEmbedLoss`.
    """

    guide: Any = None
    temperature: float = option(0.01, above=0)
    margin_strategy: str = option("absolute", choices=("absolute", "relative"))
    margin: float = 0.0
    contrast_anchors: bool = True
    contrast_positives: bool = True
    learns_from = PAIRS
    teaches_vectors = True

    @property
    def teacher(self):
        return self.guide

    def label_shape(self, examples: SentenceExamples) -> tuple[int, ...]:
        return (len(examples.columns), -1)

    def check(self, examples: SentenceExamples, model: Any) -> None:
        super().check(examples, model)
        if self.guide is None:
            raise InputError("GISTEmbed needs a guide: a SentenceEncoder, or its folder. Received: none.")

    def __call__(self, vectors, labels=None, text_numbers=None, weights=None):
        """As for other losses; `labels` are the vectors of the guide, float `[B, C, G]`."""
        right = ops.arange(ops.shape(vectors)[0])
        scores = self._cosines(unit_length(vectors))
        guided = self._cosines(unit_length(ops.cast(labels, scores.dtype)))
        positives = ops.take_along_axis(guided, right[:, None], axis=-1)
        slack = self.margin * (1.0 if self.margin_strategy == "absolute" else ops.abs(positives))
        is_left_out = guided > positives - slack
        if text_numbers is not None:
            anchors, positives = text_numbers[:, 0], text_numbers[:, 1]
            candidates = self._joined(stacked_candidates(text_numbers[..., None])[:, 0], anchors, positives)
            is_equal = ops.logical_or(anchors[:, None] == candidates, positives[:, None] == candidates)
            is_left_out = ops.logical_or(is_left_out, is_equal)
        is_own = right[:, None] == ops.arange(ops.shape(scores)[1])
        is_left_out = ops.logical_and(is_left_out, ops.logical_not(is_own))
        scores = ops.where(is_left_out, FAR, scores / self.temperature)
        return weighted_mean(cross_entropy(scores, right), weights)

    def _cosines(self, units):
        """Returns the cosines of each anchor, or positive, with the candidates, `[B, candidates]`."""
        anchors, positives = units[:, 0], units[:, 1]
        pairs = (anchors, stacked_candidates(units)), (anchors, anchors), (positives, positives)
        return self._joined(*(ops.matmul(one, ops.transpose(other)) for one, other in pairs))

    def _joined(self, texts, anchors, positives):
        chosen = [texts, *[anchors] * self.contrast_anchors, *[positives] * self.contrast_positives]
        return ops.concatenate(chosen, axis=-1)


def margin_errors(scores, labels):
    """Returns the mean squared difference `[B]` between the margins of scores, float `[B, texts]`, and of a teacher.

    `labels` are the teacher's scores `[B, texts]`, the positive's first, or its margins `[B, texts - 1]`.
    """
    labels = ops.cast(labels, scores.dtype)
    if labels.shape[-1] == scores.shape[-1]:
        labels = labels[:, :1] - labels[:, 1:]
    return ops.mean(ops.square(scores[:, :1] - scores[:, 1:] - labels), axis=-1)


def divergences(scores, labels, student_temperature: float, teacher_temperature: float):
    """Returns the Kullback-Leibler divergence `[B]` of a model's probabilities from those of a teacher.

    It is multiplied by the square of the student's temperature, so that gradients do not shrink with it.

    Args:
        scores, labels: the scores of the model and of the teacher, float `[B, texts]`.
    """
    found = ops.log_softmax(scores / student_temperature, axis=-1)
    taught = ops.log_softmax(ops.cast(labels, scores.dtype) / teacher_temperature, axis=-1)
    return student_temperature**2 * ops.sum(ops.exp(taught) * (taught - found), axis=-1)


def _products(vectors):
    """Returns the dot products of each anchor with its texts, `[B, C - 1]`, of vectors `[B, C, D]`."""
    return ops.sum(vectors[:, :1] * vectors[:, 1:], axis=-1)
