"""Losses for rare labels, instead of the cross-entropy: `fit(texts, labels, loss="focal")`.

`focal` is for one label for each text or word, `asymmetric` for several labels for each text. Both make labels that are
predicted well count less. `class_weight` and `sample_weight` are further factors of the loss.
"""

import dataclasses
from typing import Any, ClassVar

from keras import ops

from keras_bert.layers.choosing import formulas_for
from keras_bert.models.losses import LossTerm, weighted_term
from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, option

_LEAST = 1e-7  # the gradient of 0 to the power of gamma may be infinite


@dataclasses.dataclass(frozen=True)
class LabelLoss(Options):
    """The interface of the losses."""

    problem_type: ClassVar[str]  # that of the models which it is for, as `SequenceClassifier` names it
    advice: ClassVar[str]  # to models of another problem type

    def term(self, name: str, logits: Any, labels: Any, weights: Any = None) -> LossTerm:
        """Returns the loss of a batch.

        Args:
            name: the name under which it is reported.
            logits: float `[..., L]`.
            labels: int `[...]`, or 0 and 1 `[B, L]` for several labels.
            weights: `[...]`, or `[B]` for several labels; None for 1.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class FocalLoss(LabelLoss):
    """-alpha (1 - p)^gamma log p, where p is the probability of the right label.

    Args:
        gamma: how much less a text counts whose label is predicted well. 0 and `alpha=1` are the cross-entropy.
        alpha: a factor of the loss of every label. In the paper, which tells one class from the background, the
            background has 1 - alpha; here no label is the background, and `class_weight` has the factors of labels.

    Raises:
        InputError: a number is out of range.

    Reference: Lin et al., 2017, arXiv 1708.02002; `keras.losses.CategoricalFocalCrossentropy`.
    """

    gamma: float = option(2.0, at_least=0)
    alpha: float = option(0.25, above=0)
    problem_type = "classification"
    advice = "loss='asymmetric', which is the focal loss of each label as AsymmetricLoss(2, 2, clip=0)"

    def term(self, name: str, logits: Any, labels: Any, weights: Any = None) -> LossTerm:
        losses = formulas_for(training=True).cross_entropy(logits, labels)
        others = ops.maximum(-ops.expm1(-losses), _LEAST)  # 1 - p
        return weighted_term(name, self.alpha * others**self.gamma * losses, labels, weights)


@dataclasses.dataclass(frozen=True)
class AsymmetricLoss(LabelLoss):
    """-(1 - p)^gamma_pos log p for a label of the text, -q^gamma_neg log(1 - q) for another, with q = max(p - clip, 0).

    The defaults are those of the authors' code; their paper trains with `gamma_pos=0`. Its weights of the logarithms
    have gradients too, as in the paper.

    Args:
        gamma_neg: how much less a label counts that the text does not have, and that is predicted well.
        gamma_pos: the same for the labels of the text.
        clip: labels that the text does not have count only if their probability exceeds this.

    Raises:
        InputError: a number is out of range.

    Reference: Ridnik et al., 2021, arXiv 2009.14119.
    """

    gamma_neg: float = option(4.0, at_least=0)
    gamma_pos: float = option(1.0, at_least=0)
    clip: float = option(0.05, at_least=0, below=1)
    problem_type = "multi_label"
    advice = "loss='focal'"

    def term(self, name: str, logits: Any, labels: Any, weights: Any = None) -> LossTerm:
        labels = ops.cast(labels, logits.dtype)
        of_labels = ops.exp(self.gamma_pos * ops.log_sigmoid(-logits)) * ops.log_sigmoid(logits)
        shifted = ops.maximum(ops.sigmoid(logits) - self.clip, _LEAST)
        log_not = ops.log(ops.minimum(ops.sigmoid(-logits) + self.clip, 1.0)) if self.clip else ops.log_sigmoid(-logits)
        losses = -labels * of_labels - (1 - labels) * shifted**self.gamma_neg * log_not
        return weighted_term(name, ops.mean(losses, axis=-1), labels[..., 0], weights)


LABEL_LOSSES: dict[str, type[LabelLoss]] = {"focal": FocalLoss, "asymmetric": AsymmetricLoss}


def label_loss(loss: Any, problem_type: str = "classification") -> LabelLoss | None:
    """Returns a loss by its name; a `LabelLoss` or None is returned as it is.

    Raises `InputError` if no loss has this name, or if it is not for models of this problem type.
    """
    if isinstance(loss, str) and loss in LABEL_LOSSES:
        loss = LABEL_LOSSES[loss]()
    if loss is None or isinstance(loss, LabelLoss) and loss.problem_type == problem_type:
        return loss
    if not isinstance(loss, LabelLoss):
        raise InputError(
            f"loss must be {' or '.join(LABEL_LOSSES)}, or a FocalLoss or an AsymmetricLoss. None is the "
            f"cross-entropy. Received: {loss!r:.100}"
        )
    advice = "no loss: it learns from squared errors" if problem_type == "regression" else loss.advice
    raise InputError(
        f"{type(loss).__name__} is for models of the problem type {loss.problem_type}, and this one is for "
        f"{problem_type}. Give {advice}."
    )
