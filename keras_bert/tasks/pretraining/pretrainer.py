"""`BertPretrainer`: the encoder with the two heads that pre-training needs."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term
from keras_bert.models.task_model import FeatureModel, example_weights
from keras_bert.records import features
from keras_bert.tasks.masked_lm.model import masked_lm_head


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPretrainer(FeatureModel):
    """Predicts masked tokens, and whether the second segment of a sequence follows the first.

    Each training batch is one dictionary with all features of a pre-training record, including the labels:

        model.compile(optimizer=AdamW(1e-4))
        model.fit(pretraining_dataset("records/*.tfrecord", batch_size=32))

    The loss is the mean cross-entropy of the masked tokens in the global batch plus that of its sequences. A row has
    one sequence, or several if it is packed. `fit` and `evaluate` report `loss`, `masked_lm_loss`,
    `masked_lm_accuracy`, `next_sentence_loss` and `next_sentence_accuracy`.

    The records define the meaning of `next_sentence_labels`: random next sentences (BERT), or swapped sentences
    (ALBERT). A sequence whose `next_sentence_weights` is 0 has no label. If no sequence has a label, the loss is that
    of the masked tokens and `next_sentence_accuracy` is NaN.

    Args:
        config: a `BertConfig`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`), and
            `masked_lm_positions`, int `[B, P]`; for packed rows also `cls_positions`, int `[B, K]`. Training and
            evaluation need the labels `masked_lm_ids` and `masked_lm_weights`, `[B, P]`, and `next_sentence_labels`,
            `[B, 1]` or `[B, K]`; `next_sentence_weights`, of the same shape, are optional. Other keys are ignored.
        training: whether to apply dropout.

    Returns:
        dictionary of `masked_lm_logits`, `[B, P, vocab_size]`, and `next_sentence_logits`, `[B, 2]`, or `[B, K, 2]`
        with `cls_positions`; class 1 is a random (or swapped) next sentence. Both are float32. What else the encoder
        returns is there too, such as what it leaves to the next batch.

    Reference: Devlin et al., 2018, section 3.1; google-research/bert `run_pretraining.py`.
    """

    kind = "BertPretrainer"
    feature_names = (*FeatureModel.feature_names, features.MASKED_LM_POSITIONS)
    counts_weights = True
    loss_names: Sequence[str] = ("masked_lm_loss", "next_sentence_loss")
    metric_names: Sequence[str] = ("masked_lm_accuracy", "next_sentence_accuracy")
    # Default options of `MaskingOptions` for records without masks.
    masking: Mapping[str, object] = {}

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.masked_lm_head = masked_lm_head(config, self.dtype_policy)
        self.next_sentence_head = self.logits_dense(2, "next_sentence_head")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        width = self.config.hidden_size
        self.masked_lm_head.build((None, None, width), (self.config.vocab_size, self.config.embedding_size))
        self.next_sentence_head.build((None, width))

    def call(self, inputs: Any, training: bool = False) -> Any:
        positions = inputs[features.MASKED_LM_POSITIONS]
        encoded = dict(self.encoder.vectors_to_predict(inputs, positions, self.masked_lm_head, training=training))
        table = ops.convert_to_tensor(self.encoder.embeddings.token_embeddings)
        return {
            "masked_lm_logits": self.masked_lm_head(encoded.pop("sequence_output"), table),
            "next_sentence_logits": self.next_sentence_head(encoded.pop("pooled_output")),
            **encoded,
        }

    @property
    def metrics_refusal(self) -> str:
        """Why `compile` takes no metrics of Keras."""
        names = ", ".join((*self.loss_names, *self.metric_names))
        return f"BertPretrainer reports {names}; Keras' metrics cannot see its labels, which are among the features."

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        masked, next_sentence = self._labels(x, sample_weight)
        return [
            # The epsilon is Google's.
            cross_entropy_term("masked_lm_loss", y_pred["masked_lm_logits"], *masked, epsilon=1e-5),
            cross_entropy_term("next_sentence_loss", y_pred["next_sentence_logits"], *next_sentence),
        ]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        masked, next_sentence = self._labels(x, sample_weight)
        return [
            accuracy_term("masked_lm_accuracy", y_pred["masked_lm_logits"], *masked),
            accuracy_term("next_sentence_accuracy", y_pred["next_sentence_logits"], *next_sentence),
        ]

    def _labels(self, x, sample_weight) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Returns (ids, weights) of the masked tokens, `[B, P]`, and (labels, weights) of the next sentences, `[B]` or
        `[B, K]`; these weights may be None, for all 1."""
        self._check_features(x, (features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS, features.NEXT_SENTENCE_LABELS))
        # (B,), or (B, K) where rows are packed
        sequences = ops.shape(x.get(features.CLS_POSITIONS, x[features.INPUT_IDS][:, 0]))
        masked_weights = ops.cast(x[features.MASKED_LM_WEIGHTS], "float32")
        next_weights = x.get(features.NEXT_SENTENCE_WEIGHTS)
        if next_weights is not None:
            next_weights = ops.cast(ops.reshape(next_weights, sequences), "float32")
        row_weights = example_weights(x, sample_weight)
        if row_weights is not None:
            row_weights = ops.expand_dims(row_weights, 1)
            masked_weights = masked_weights * row_weights
            next_weights = ops.ones(sequences) if next_weights is None else next_weights
            next_weights = next_weights * ops.reshape(row_weights, (-1,) + (1,) * (len(sequences) - 1))
        next_labels = ops.reshape(x[features.NEXT_SENTENCE_LABELS], sequences)
        return (x[features.MASKED_LM_IDS], masked_weights), (next_labels, next_weights)
