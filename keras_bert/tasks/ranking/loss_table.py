"""The losses of cross-encoders by name, and what each needs. Nothing here imports Keras, so that `--help` is quick."""

from keras_bert.tasks.embedding.loss_table import Loss

_LOSSES = "keras_bert.tasks.ranking.losses"

RANKING_LOSSES = {
    "binary_cross_entropy": Loss(
        f"{_LOSSES}.BinaryCrossEntropy", "queries and texts with scores from 0 to 1", "BinaryCrossEntropyLoss"
    ),
    "cross_entropy": Loss(
        f"{_LOSSES}.CrossEntropy", "queries, a relevant text and others", "MultipleNegativesRankingLoss"
    ),
    "margin_mse": Loss(
        f"{_LOSSES}.RankingMarginMSE",
        "queries, a relevant text and others, and a teacher or its scores or margins",
        "MarginMSELoss",
    ),
    "list_net": Loss(f"{_LOSSES}.ListNet", "queries and texts with a score for each text, or a teacher", "ListNetLoss"),
    "rank_net": Loss(f"{_LOSSES}.RankNet", "as list_net; without scores, the first text is relevant", "RankNetLoss"),
    "lambda_loss": Loss(
        f"{_LOSSES}.LambdaLoss", "as rank_net; errors at the top of the ranking weigh more", "LambdaLoss"
    ),
}
