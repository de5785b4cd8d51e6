"""`MaskedLM`: the encoder with the masked-LM head."""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.heads import MaskedLanguageModelHead, QueryHead
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term
from keras_bert.models.task_model import example_weights
from keras_bert.records import features
from keras_bert.tasks.masked_lm.task import MaskedLMTask, fit_texts
from keras_bert.tasks.text_model import EvaluateOptions, FitOptions, PredictOptions, TextModel


def masked_lm_head(config: BertConfig, dtype) -> MaskedLanguageModelHead | QueryHead:
    """Returns the head of `MaskedLM` and `BertPretrainer`, not yet built."""
    if config.family.predicts_from_queries:
        return QueryHead(config.vocab_size, config.initializer_range, dtype=dtype, name="masked_lm_head")
    return MaskedLanguageModelHead(
        vocab_size=config.vocab_size,
        activation=config.masked_lm_act,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        tied=config.tie_word_embeddings,
        dense_bias=config.classifier_bias,
        norm_bias=config.norm_bias,
        extra_size=config.extra_output_size,
        has_transform=config.masked_lm_transform,
        has_bias=config.masked_lm_bias,
        dtype=dtype,
        name="masked_lm_head",
    )


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLM(TextModel):
    """Predicts masked tokens: `BertPretrainer` without next sentence prediction.

    Each training batch is one dictionary with the features of a pre-training record. Labels of next sentences are
    ignored:

        model = MaskedLM.from_pretrained("uncased_L-12_H-768_A-12")
        model.compile(optimizer=AdamW(5e-5))
        model.fit(pretraining_dataset("records/*.tfrecord", batch_size=32))

    It can also be trained on texts, which are masked at random: `model.fit(texts)`. For texts with [MASK],
    `model.predict(["Paris is the [MASK] of France."])` returns the most probable tokens.

    The loss is the mean cross-entropy of the masked tokens in the whole batch. `fit` and `evaluate` report `loss`,
    `masked_lm_accuracy` and `perplexity`, which is exp(loss) over all tokens so far. The last two are NaN if no token
    was masked.

    Args:
        config: a `BertConfig`.
        tables_of: see `BertEncoder`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`), and
            `masked_lm_positions`, int `[B, P]`. The labels `masked_lm_ids` and `masked_lm_weights`, `[B, P]`, are for
            training and evaluation. Other keys are ignored.
        training: whether to apply dropout.

    Returns:
        dictionary of `masked_lm_logits`, float32 `[B, P, vocab_size]`.

    Reference: Devlin et al., 2018, section 3.1; google-research/bert `run_pretraining.py`, `get_masked_lm_output`.
    """

    feature_names = (*TextModel.feature_names, features.MASKED_LM_POSITIONS)
    counts_weights = True
    loss_names = ("masked_lm_loss",)
    metric_names = ("masked_lm_accuracy",)
    uses_pooler = False
    kind = "MaskedLM"
    task_class = MaskedLMTask
    metrics_refusal = (
        "MaskedLM reports loss, masked_lm_accuracy and perplexity; Keras' metrics cannot see its labels, which are "
        "among the features."
    )

    def __init__(self, config: BertConfig, *, tables_of: Any = None, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.encoder = make_encoder(config, tables_of, dtype=self.dtype_policy, name="encoder")
        self.encoder.pooler.trainable = False  # no gradient reaches it
        self.masked_lm_head = masked_lm_head(config, self.dtype_policy)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        width = self.config.hidden_size
        self.masked_lm_head.build((None, None, width), (self.config.vocab_size, self.config.embedding_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        masked = self.encoder.vectors_to_predict(
            inputs, inputs[features.MASKED_LM_POSITIONS], self.masked_lm_head, training=training
        )
        table = ops.convert_to_tensor(self.encoder.embeddings.token_embeddings)
        return {"masked_lm_logits": self.masked_lm_head(masked["sequence_output"], table)}

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        masking: Mapping[str, object] | None = None,
        **options: Unpack[FitOptions],
    ) -> Any:
        """Trains on features, or on texts, which get new random masks in every batch.

        Arguments that are not listed are those of `TextModel.fit`.

        Args:
            x: strings in any container, a finite data set of strings, or features. Longer texts than a row are split
                into several rows.
            y, class_weight, sample_weight: None on texts.
            epochs: passes over the texts, each with other masks, or numbers of `steps_per_epoch` updates.
            validation_data: texts, evaluated after each epoch with the same masks; or data as for `keras.Model.fit`.
            seed: texts only. The seed of the order and of the masks.
            masking: texts only. Name -> value: `masked_lm_prob` (0.15), `do_whole_word_mask`, `max_ngram_size`, ...

        Raises:
            InputError: labels are given, a text is not a string, no text has a token, or an option is unknown.
        """
        return super().fit(x, y, batch_size, masking=masking, **options)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        masking: Mapping[str, object] | None = None,
        seed: int = 12345,
        **options: Unpack[EvaluateOptions],
    ) -> Any:
        """Returns loss, masked_lm_accuracy and perplexity on features, or on texts that are masked at random.

        The perplexity is exp(loss), over the masked tokens given all others. It depends on the share of masked tokens;
        `pseudo_perplexity` masks one token at a time instead. Arguments that are not listed are those of
        `TextModel.evaluate`.

        Args:
            y, sample_weight: None on texts.
            masking, seed: as for `fit`.
        """
        return super().evaluate(x, y, batch_size, masking=masking, seed=seed, **options)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        top_k: int = 5,
        targets: Any = None,
        joint: bool = False,
        **options: Unpack[PredictOptions],
    ) -> Any:
        """Returns logits for features, or a `FilledText` with the most probable tokens for each [MASK] of a text.

        Arguments that are not listed are those of `TextModel.predict`. `callbacks` are for features only.

        Args:
            top_k, targets, joint: texts only; as for `fill_masks`.
        """
        return super().predict(x, batch_size, top_k=top_k, targets=targets, joint=joint, **options)

    def fit_on_texts(self, x: Any, y: Any, **options: Any) -> Any:
        return fit_texts(self, x, y, **options)

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        # The epsilon is Google's.
        labels = self._labels(x, sample_weight)
        return [cross_entropy_term("masked_lm_loss", y_pred["masked_lm_logits"], *labels, epsilon=1e-5)]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return [accuracy_term("masked_lm_accuracy", y_pred["masked_lm_logits"], *self._labels(x, sample_weight))]

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        nothing_masked = ops.equal(self._reports["masked_lm_loss"].weight, 0)
        results["perplexity"] = ops.where(nothing_masked, float("nan"), ops.exp(results["loss"]))
        return results

    def _labels(self, x, sample_weight) -> tuple[Any, Any]:
        """Returns the ids and the weights of the masked tokens, both `[B, P]`."""
        self._check_features(x, (features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS))
        weights = ops.cast(x[features.MASKED_LM_WEIGHTS], "float32")
        row_weights = example_weights(x, sample_weight)
        if row_weights is not None:
            weights = weights * ops.expand_dims(ops.cast(row_weights, "float32"), 1)
        return x[features.MASKED_LM_IDS], weights
