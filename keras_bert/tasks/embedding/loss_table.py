"""The losses by name, and what each needs. Nothing here imports Keras, so that `--help` is quick."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from keras_bert import registry
from keras_bert.program.errors import InputError

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


def loss_of_name(table: Mapping[str, Loss], kind: str, name: Any) -> type:
    """Returns the class of a loss by its name, here or in sentence-transformers.

    Args:
        table: name -> `Loss`.
        kind: what the losses are, such as "an EmbeddingLoss", for messages.
        name: the name.

    Raises:
        InputError: no loss has this name.
    """
    published = {loss.published: loss for loss in table.values()}
    loss = {**published, **table}.get(name) if isinstance(name, str) else None
    if loss is None:
        raise InputError(f"loss must be {kind} or one of: {', '.join(table)}. Received: {name!r:.100}")
    return registry.imported(loss.path)
