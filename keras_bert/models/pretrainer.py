"""`BertPretrainer`: the encoder with the two heads that pre-training needs."""

import keras
from keras import ops

from keras_bert import features
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.layers.heads import MaskedLanguageModelHead
from keras_bert.losses import accuracy_term, cross_entropy_term
from keras_bert.models.base import TaskModel
from keras_bert.models.encoder import BertEncoder


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPretrainer(TaskModel):
    """Guesses masked tokens, and whether the second sentence of a row follows the first.

    It is trained on batches that are one dictionary with all the features of a pre-training record, labels among them:

        model.compile(optimizer=AdamW(1e-4))
        model.fit(pretraining_dataset("records/*.tfrecord", batch_size=32))

    The loss is the mean over the masked tokens of the global batch plus the mean over its rows. Reported are `loss`,
    `masked_lm_loss`, `masked_lm_accuracy`, `next_sentence_loss` and `next_sentence_accuracy`.

    Args:
        config: a `BertConfig`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`), and
            `masked_lm_positions`, int `[B, P]`. Other keys are ignored.
        training: whether dropout acts.

    Returns:
        dictionary of `masked_lm_logits`, `[B, P, vocab_size]`, and `next_sentence_logits`, `[B, 2]`, where class 1 is
        a random next sentence. Both are float32.

    Reference: Devlin et al., 2018, section 3.1; google-research/bert `run_pretraining.py`.
    """

    feature_names = (*TaskModel.feature_names, features.MASKED_LM_POSITIONS)
    loss_names = ("masked_lm_loss", "next_sentence_loss")
    metric_names = ("masked_lm_accuracy", "next_sentence_accuracy")

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.encoder = BertEncoder(config, dtype=self.dtype_policy, name="encoder")
        self.masked_lm_head = MaskedLanguageModelHead(
            vocab_size=config.vocab_size,
            activation=config.hidden_act,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            tied=config.tie_word_embeddings,
            dtype=self.dtype_policy,
            name="masked_lm_head",
        )
        self.next_sentence_head = keras.layers.Dense(
            2,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
            dtype=self._logits_dtype,
            name="next_sentence_head",
        )
        self.build()

    def build(self, input_shape=None):
        width = self.config.hidden_size
        self.masked_lm_head.build((None, None, width), (None, None), (self.config.vocab_size, width))
        self.next_sentence_head.build((None, width))

    def call(self, inputs, training=False):
        encoded = self.encoder(inputs, training=training)
        masked_lm_logits = self.masked_lm_head(
            encoded["sequence_output"],
            inputs[features.MASKED_LM_POSITIONS],
            ops.convert_to_tensor(self.encoder.embeddings.token_embeddings),
        )
        return {
            "masked_lm_logits": masked_lm_logits,
            "next_sentence_logits": self.next_sentence_head(encoded["pooled_output"]),
        }

    def compile(self, optimizer, metrics=None, weighted_metrics=None, **kwargs):
        if metrics is not None or weighted_metrics is not None:
            raise InputError(
                f"BertPretrainer reports {', '.join((*self.loss_names, *self.metric_names))}; Keras' metrics cannot "
                "see its labels, which are among the features. Call compile(optimizer=...) without metrics."
            )
        super().compile(optimizer, **kwargs)

    def loss_terms(self, x, y, y_pred, sample_weight):
        masked_labels, masked_weights, next_labels, row_weights = self._labels(x, sample_weight)
        return [
            # The epsilon is Google's.
            cross_entropy_term(
                "masked_lm_loss", y_pred["masked_lm_logits"], masked_labels, masked_weights, epsilon=1e-5
            ),
            cross_entropy_term("next_sentence_loss", y_pred["next_sentence_logits"], next_labels, row_weights),
        ]

    def metric_terms(self, x, y, y_pred, sample_weight):
        masked_labels, masked_weights, next_labels, row_weights = self._labels(x, sample_weight)
        return [
            accuracy_term("masked_lm_accuracy", y_pred["masked_lm_logits"], masked_labels, masked_weights),
            accuracy_term("next_sentence_accuracy", y_pred["next_sentence_logits"], next_labels, row_weights),
        ]

    def _labels(self, x, sample_weight):
        """Returns masked ids `[B, P]`, their weights `[B, P]`, next-sentence labels `[B]` and the rows' weights."""
        self._check_features(x, (features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS, features.NEXT_SENTENCE_LABELS))
        masked_weights = ops.cast(x[features.MASKED_LM_WEIGHTS], "float32")
        if sample_weight is not None:
            masked_weights = masked_weights * ops.expand_dims(ops.cast(sample_weight, "float32"), 1)
        next_labels = ops.reshape(x[features.NEXT_SENTENCE_LABELS], (-1,))
        return x[features.MASKED_LM_IDS], masked_weights, next_labels, sample_weight
