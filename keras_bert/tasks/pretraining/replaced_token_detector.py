"""`ReplacedTokenDetector`: the discriminator of ELECTRA and of DeBERTa-v3."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.gathering import vectors_at
from keras_bert.layers.heads import ReplacedTokenHead
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import LossTerm, binary_accuracy_term, binary_cross_entropy_term
from keras_bert.models.task_model import FeatureModel, example_weights
from keras_bert.program.errors import InputError
from keras_bert.records import features


@keras.saving.register_keras_serializable(package="keras_bert")
class ReplacedTokenDetector(FeatureModel):
    """Predicts for every token whether it replaces the original one.

    It is trained on pairs `(features, labels)`. Labels, int `[B, S]`, are 1 for replaced tokens and 0 for the others:

        model = ReplacedTokenDetector.from_pretrained("hf://google/electra-small-discriminator")
        model.compile(optimizer=AdamW(5e-4))
        model.fit(features, labels)

    The loss is the mean of the binary cross-entropy over all tokens that are not padding. `fit` and `evaluate` report
    `loss` and `accuracy`.

    Args:
        config: a `BertConfig`.
        tables_of: see `BertEncoder`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`). Other keys
            are ignored.
        training: whether to apply dropout.

    Returns:
        float32 logits `[B, S]`, above 0 for replaced tokens. Ignore those of padding.

    Reference: Clark et al., 2019, section 2; google-research/electra `run_pretraining.py`; He et al., 2021, arXiv
    2111.09543, for DeBERTa-v3.
    """

    kind = "ReplacedTokenDetector"
    has_token_outputs = True
    uses_pooler = False
    loss_names = ("replaced_token_loss",)
    metric_names = ("accuracy",)
    metrics_refusal = "ReplacedTokenDetector reports loss and accuracy; Keras' metrics would count padding."

    def __init__(self, config: BertConfig, *, tables_of: Any = None, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.encoder = make_encoder(config, tables_of, dtype=self.dtype_policy, name="encoder")
        self.encoder.pooler.trainable = False  # no gradient reaches it
        self.replaced_token_head = ReplacedTokenHead(
            activation=config.hidden_act,
            initializer_range=config.initializer_range,
            layer_norm_epsilon=config.layer_norm_eps if config.family.replaced_tokens_need_first else None,
            dtype=self.dtype_policy,
            name="replaced_token_head",
        )
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.replaced_token_head.build((None, None, self.config.hidden_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        tokens = self.encoder(inputs, training=training)["sequence_output"]
        first_tokens = _first_tokens(tokens, inputs) if self.config.family.replaced_tokens_need_first else None
        return ops.cast(self.replaced_token_head(tokens, first_tokens), self._logits_dtype)

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return [binary_cross_entropy_term("replaced_token_loss", *self._labels(x, y, y_pred, sample_weight))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return [binary_accuracy_term("accuracy", *self._labels(x, y, y_pred, sample_weight))]

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        del results["replaced_token_loss"]  # the same as "loss"
        return results

    def _labels(self, x, y, y_pred, sample_weight):
        """Returns logits and labels, `[B, S, 1]`, and the weights of the tokens, `[B, S]`."""
        if y is None:
            raise InputError(
                "ReplacedTokenDetector is trained on pairs (features, labels), 1 for replaced tokens. Received no "
                "labels."
            )
        weights = ops.cast(ops.cast(x[features.INPUT_MASK], "int32") > 0, "float32")
        row_weights = example_weights(x, sample_weight)
        if row_weights is not None:
            weights = weights * ops.expand_dims(ops.cast(row_weights, "float32"), 1)
        return ops.expand_dims(y_pred, -1), ops.expand_dims(y, -1), weights


def _first_tokens(tokens, inputs):
    """Returns the vector of the first token of each token's sequence: `[B, S, H]`, or `[B, 1, H]` if none is packed."""
    if features.CLS_POSITIONS not in inputs:
        return tokens[:, :1]
    numbers = ops.maximum(ops.cast(inputs[features.INPUT_MASK], "int32") - 1, 0)
    columns = ops.take_along_axis(ops.cast(inputs[features.CLS_POSITIONS], "int32"), numbers, axis=1)
    return vectors_at(tokens, columns)
