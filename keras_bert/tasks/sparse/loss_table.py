"""The losses of sparse encoders by name, and what each needs. Nothing here imports Keras, so that `--help` is quick."""

from keras_bert.tasks.embedding.loss_table import Loss

_LOSS = "keras_bert.tasks.sparse.losses.SpladeLoss"  # its `ranking` has the names below

SPARSE_LOSSES = {
    "in_batch_negatives": Loss(_LOSS, "queries, documents, perhaps others", "SparseMultipleNegativesRankingLoss"),
    "margin_mse": Loss(_LOSS, "queries, documents, others; a teacher or its scores or margins", "SparseMarginMSELoss"),
}
