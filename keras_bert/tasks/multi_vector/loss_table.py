"""The losses over MaxSim by name, and what each needs. Nothing here imports Keras, so that `--help` is quick."""

from keras_bert.tasks.embedding.loss_table import Loss

_LOSSES = "keras_bert.tasks.multi_vector.losses"
_TAUGHT = "queries, documents, others; a teacher or its scores"

MAX_SIM_LOSSES = {
    "in_batch_negatives": Loss(
        f"{_LOSSES}.MaxSimInBatchNegatives",
        "queries, documents, perhaps others",
        "MultiVectorMultipleNegativesRankingLoss",
    ),
    "distillation": Loss(f"{_LOSSES}.MaxSimDistillation", _TAUGHT, "MultiVectorDistillKLDivLoss"),
    "margin_mse": Loss(f"{_LOSSES}.MaxSimMarginMSE", _TAUGHT, "MultiVectorMarginMSELoss"),
}
