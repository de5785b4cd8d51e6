"""`SpanPretrainer`: `BertPretrainer` with SpanBERT's boundary objective."""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.span_boundary import MAX_SPAN_TOKENS, SpanBoundaryHead, span_boundaries
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term
from keras_bert.records import features
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanPretrainer(BertPretrainer):
    """Predicts masked tokens twice: from their own vectors, and from the two tokens beside their span.

    The loss is that of `BertPretrainer` plus the mean cross-entropy of the tokens of spans. Adjacent masked tokens are
    a span, as in SpanBERT's code, so the records need nothing new; the first 20 tokens of a span count. SpanBERT has
    records without a sentence task, whose spans are whole words. `fit` and `evaluate` also report
    `span_boundary_loss` and `span_boundary_accuracy`.

    Args:
        config: a `BertConfig`.

    Call arguments:
        inputs: those of `BertPretrainer`; `masked_lm_positions` ascend.
        training: whether to apply dropout.

    Returns:
        those of `BertPretrainer` and `span_boundary_logits`, float32 `[B, P, vocab_size]`.

    Example:
        model = SpanPretrainer(config)
        model.compile(optimizer=AdamW(1e-4))
        model.fit(pretraining_dataset("records", batch_size=32))

    Reference: Joshi et al., 2020, arXiv 1907.10529; facebookresearch/SpanBERT.
    """

    kind = "SpanPretrainer"
    loss_names = (*BertPretrainer.loss_names, "span_boundary_loss")
    metric_names = (*BertPretrainer.metric_names, "span_boundary_accuracy")
    # Spans of whole words with one draw of [MASK], the same or random tokens for each.
    masking = {"max_ngram_size": 10, "whole_word_actions": True}

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        config = self.config
        self.span_boundary_head = SpanBoundaryHead(
            config.vocab_size,
            config.masked_lm_act,
            config.layer_norm_eps,
            config.initializer_range,
            dtype=self.dtype_policy,
            name="span_boundary_head",
        )
        vectors = (None, None, config.hidden_size)
        self.span_boundary_head.build(vectors, vectors, (None, None), (config.vocab_size, config.embedding_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        columns = ops.cast(inputs[features.MASKED_LM_POSITIONS], "int32")
        left, right, numbers = self._spans(inputs)
        last_column = ops.shape(inputs[features.INPUT_IDS])[1] - 1
        selected = ops.concatenate([columns, ops.maximum(left, 0), ops.minimum(right, last_column)], axis=1)
        encoded = self.encoder.vectors_at(inputs, selected, training=training)
        masked, left, right = ops.split(encoded["sequence_output"], 3, axis=1)
        table = ops.convert_to_tensor(self.encoder.embeddings.token_embeddings)
        numbers = ops.minimum(numbers, MAX_SPAN_TOKENS - 1)
        return {
            "masked_lm_logits": self.masked_lm_head(masked, table),
            "next_sentence_logits": self.next_sentence_head(encoded["pooled_output"]),
            "span_boundary_logits": self.span_boundary_head(left, right, numbers, table),
        }

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        logits = y_pred["span_boundary_logits"]
        ids, weights = self._span_labels(x, sample_weight)
        terms = super().loss_terms(x, y, y_pred, sample_weight)
        return [*terms, cross_entropy_term("span_boundary_loss", logits, ids, weights, epsilon=1e-5)]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        logits = y_pred["span_boundary_logits"]
        ids, weights = self._span_labels(x, sample_weight)
        terms = super().metric_terms(x, y, y_pred, sample_weight)
        return [*terms, accuracy_term("span_boundary_accuracy", logits, ids, weights)]

    def _span_labels(self, x, sample_weight) -> tuple[Any, Any]:
        """Returns the ids and the weights of the tokens of spans, both `[B, P]`."""
        (ids, weights), _ = self._labels(x, sample_weight)
        return ids, weights * ops.cast(self._spans(x)[2] < MAX_SPAN_TOKENS, weights.dtype)

    def _spans(self, x):
        columns = ops.cast(x[features.MASKED_LM_POSITIONS], "int32")
        weights = x.get(features.MASKED_LM_WEIGHTS)  # only training needs them
        is_used = ops.ones_like(columns, "bool") if weights is None else ops.cast(weights, "float32") > 0
        return span_boundaries(columns, is_used)
