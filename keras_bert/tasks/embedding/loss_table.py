"""The losses by name, what each needs, and what all losses share. Nothing imports Keras, so that `--help` is quick."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.program.options import Options
from keras_bert.tasks.embedding.examples import PAIRS, SentenceExamples

_FOLDER = "keras_bert.tasks.embedding"


class Loss(NamedTuple):
    """A loss: the import path of its class, what its data must have, and its name in sentence-transformers."""

    path: str
    needs: str
    published: str


LOSSES = {
    "in_batch_negatives": Loss(
        f"{_FOLDER}.losses.InBatchNegatives",
        "anchors and positives, if there are any also hard negatives",
        "MultipleNegativesRankingLoss",
    ),
    "gist_embed": Loss(
        f"{_FOLDER}.teacher_losses.GISTEmbed",
        "as in_batch_negatives, and a guide, which leaves out texts that answer the anchor too",
        "GISTEmbedLoss",
    ),
    "triplet": Loss(f"{_FOLDER}.losses.Triplet", "anchors, positives and hard negatives", "TripletLoss"),
    "margin_mse": Loss(
        f"{_FOLDER}.teacher_losses.MarginMSE",
        "anchors, positives, hard negatives, and a teacher or its scores or margins",
        "MarginMSELoss",
    ),
    "distill_kl_div": Loss(
        f"{_FOLDER}.teacher_losses.DistillKLDiv",
        "anchors, positives, hard negatives, and a teacher or its scores",
        "DistillKLDivLoss",
    ),
    "cosent": Loss(f"{_FOLDER}.losses.CoSENT", "pairs with scores of any scale", "CoSENTLoss"),
    "angle": Loss(f"{_FOLDER}.losses.AnglE", "pairs with scores of any scale", "AnglELoss"),
    "cosine": Loss(f"{_FOLDER}.losses.CosineRegression", "pairs with scores from -1 to 1", "CosineSimilarityLoss"),
    "contrastive": Loss(
        f"{_FOLDER}.contrastive_losses.Contrastive", "pairs with scores: 1 if similar, 0 if not", "ContrastiveLoss"
    ),
    "online_contrastive": Loss(
        f"{_FOLDER}.contrastive_losses.OnlineContrastive",
        "pairs with scores: 1 if similar, 0 if not; it learns from the hard ones of a batch",
        "OnlineContrastiveLoss",
    ),
    "label_triplets": Loss(f"{_FOLDER}.losses.LabelTriplets", "single texts with labels", "BatchAllTripletLoss"),
    "batch_hard_triplet": Loss(
        f"{_FOLDER}.losses.BatchHardTriplet",
        "single texts with labels; it learns from the hardest texts of a batch",
        "BatchHardTripletLoss",
    ),
}


@dataclasses.dataclass(frozen=True)
class TextLoss(Options):
    """What the losses of all models that compare texts have in common.

    Attributes:
        learns_from: the kind of examples, or several kinds, that it learns from.
        fewest_texts: the smallest number of texts in an example, the query included.
        teacher: a `CrossEncoder` or `SentenceEncoder` that computes labels before training, or the folder of one; None
            if the examples have them.
        teaches_vectors: whether the labels are the teacher's vectors, float `[B, C, G]`, instead of its scores.

    Raises:
        InputError: an argument is out of the bounds that the class names.
    """

    learns_from: ClassVar[str | Sequence[str]]
    fewest_texts: ClassVar[int] = 2
    teacher: ClassVar[Any] = None
    teaches_vectors: ClassVar[bool] = False

    def check(self, examples: SentenceExamples, model: Any) -> None:
        """Raises `InputError` unless a model can learn from the examples."""
        kinds = [self.learns_from] if isinstance(self.learns_from, str) else self.learns_from
        examples.check_for(type(self).__name__, kinds, self.fewest_texts, self.teacher is not None)

    def check_batch(self, num_texts: int | None, labels: Any) -> None:
        """Raises `InputError` if the examples of a batch have too few texts, None if unknown, or no labels."""
        name = type(self).__name__
        if num_texts is not None and num_texts < self.fewest_texts:
            raise InputError(f"{name} needs {self.fewest_texts} texts in each example or more. Received: {num_texts}")
        if labels is None and (self.learns_from != PAIRS or self.teacher is not None):
            raise InputError(f"{name} learns from {self.learns_from}. Received: none. Give them as y.")


def loss_of(base: type, table: Mapping[str, Loss], loss: Any) -> Any:
    """Returns a loss by its name in a table; a loss of the class `base` or None as it is. Raises `InputError`."""
    if loss is None or isinstance(loss, base):
        return loss
    article = "an" if base.__name__[0] in "AEIOU" else "a"
    return loss_of_name(table, f"{article} {base.__name__}", loss)()


def loss_of_name(table: Mapping[str, Loss], kind: str, name: Any) -> type:
    """Returns the class of a loss by its name, here or in sentence-transformers.

    Raises `InputError` if no loss has this name. `kind` says there what the losses are, such as "an EmbeddingLoss".
    """
    published = {loss.published: loss for loss in table.values()}
    loss = {**published, **table}.get(name) if isinstance(name, str) else None
    if loss is None:
        raise InputError(f"loss must be {kind} or one of: {', '.join(table)}. Received: {name!r:.100}")
    return registry.imported(loss.path)
