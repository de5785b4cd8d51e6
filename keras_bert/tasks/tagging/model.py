"""`TokenClassifier`: one label for each token of a text."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.config import BertConfig
from keras_bert.layers.dropout import Dropout
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term
from keras_bert.models.task_model import example_weights, labels_of
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.tasks.classification.losses import label_loss
from keras_bert.tasks.label_names import check_labels
from keras_bert.tasks.tagging.decoding import DECODING, INDEPENDENT
from keras_bert.tasks.tagging.task import TaggingTask
from keras_bert.tasks.text_model import TextModel


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenClassifier(TextModel):
    """The encoder with a dense layer on the vector of every token: named entities, parts of speech.

    It is trained on texts, see `tasks/tagging/task.py`:

        model = TokenClassifier.from_pretrained("bert-base-cased", labels=["O", "B-PER", "I-PER"])
        model.fit(sentences_in_words, tags, epochs=3)  # or (texts, spans): [start, end, type] of each entity
        model.predict(["Ada Lovelace wrote it."])[0].entities

    or on pairs `(features, label_ids)`, or on one dictionary that holds features and `label_ids`, int `[B, S]`, as the
    records of `features.tagging_features` do.

    Tokens with a negative label id (`features.NO_LABEL` is -1) have no label and are ignored. The loss is the weighted
    mean of the cross-entropy over the other tokens; the weight of a token is that of its example. `loss="focal"` of
    `fit` is for rare tags, see `tasks/classification/losses.py`. `fit` and `evaluate` report `loss` and `accuracy`.

    Args:
        config: a `BertConfig`.
        labels: names of the classes; label id 0 is the first.
        doc_stride: sentences that are too long are cut into rows that overlap and begin at most this many tokens apart,
            and each word is tagged in the row with the most context. None: the rows do not overlap.
        temperature: see `TextModel`.
        decoding: `independent` answers the best tag of each word, `viterbi` the best sequence of tags that the scheme
            of the labels allows. It can be changed as an attribute.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` (see `BertEncoder`). Other keys
            are ignored. If `label_ids` are given in training, the logits of tokens without a label may be 0.
        training: whether to apply dropout.

    Returns:
        float32 logits `[B, S, number of labels]`. Ignore those of padding.

    Raises:
        InputError: there are fewer than two labels, one is there twice, `doc_stride` is below 1, or `decoding` is
            unknown.

    Reference: Devlin et al., 2018, section 5.3; TF Model Garden `official/nlp/tasks/tagging.py`.
    """

    has_token_outputs = True
    kind = "TokenClassifier"
    task_class = TaggingTask
    as_loss = staticmethod(label_loss)
    loss_names = ("token_classification_loss",)
    logits_layer = "token_classifier"
    metric_names = ("accuracy",)
    metrics_refusal = "TokenClassifier reports loss and accuracy; Keras' metrics would count tokens that have no label."

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str],
        doc_stride: int | None = None,
        temperature: float = 1.0,
        decoding: str = INDEPENDENT,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        self.temperature = float(temperature)
        self.labels = check_labels(labels)
        self.doc_stride = check_whole("doc_stride", doc_stride, at_least=1, or_none=True)
        self.decoding = DECODING.checked("decoding", decoding)
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.uses_pooler = self.encoder.has_token_head
        self.encoder.pooler.trainable = self.uses_pooler  # otherwise no gradient reaches it
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.token_classifier = self.logits_dense(len(self.labels), "token_classifier")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.token_classifier.build((None, None, self.config.hidden_size))

    def call(self, inputs: Any, training: bool = False) -> Any:
        label_ids = inputs.get(features.LABEL_IDS) if training else None
        if label_ids is None or not (tensorflow_functions and tensorflow_functions.lengths_may_vary()):
            return self._logits(self.encoder(inputs, training=training)["sequence_output"], training)
        # Only tokens with a label, the first of each word, enter loss and accuracy.
        flat_indices = ops.cast(ops.nonzero(ops.reshape(label_ids, (-1,)) >= 0)[0], "int32")
        tokens = self.encoder.vectors_at_flat(inputs, flat_indices, training=training)
        logits = self._logits(tokens, training)
        rows, length = ops.shape(label_ids)
        logits = ops.scatter(ops.expand_dims(flat_indices, 1), logits, (rows * length, len(self.labels)))
        return ops.reshape(logits, (rows, length, len(self.labels)))

    def _logits(self, tokens, training):
        tokens = self.encoder.token_features(tokens, training=training)
        return self.token_classifier(self.dropout(tokens, training=training))

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        term = self.loss_choice.term if self.loss_choice else cross_entropy_term
        return [term("token_classification_loss", y_pred, *self._labels(x, y, sample_weight))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return [accuracy_term("accuracy", y_pred, *self._labels(x, y, sample_weight))]

    def _labels(self, x, y, sample_weight):
        """Returns the label ids (0 for tokens without a label) and the weights of the tokens, both `[B, S]`."""
        y = labels_of(self, x, y)
        label_ids = ops.cast(y, "int32")
        weights = ops.cast(label_ids >= 0, "float32")
        row_weights = example_weights(x, sample_weight)
        if row_weights is not None:
            weights = weights * ops.expand_dims(ops.cast(row_weights, "float32"), 1)
        return ops.maximum(label_ids, 0), weights

    def get_config(self) -> dict[str, Any]:
        stride = {} if self.doc_stride is None else {"doc_stride": self.doc_stride}
        decoding = {} if self.decoding == INDEPENDENT else {"decoding": self.decoding}
        return {**super().get_config(), "labels": list(self.labels), **stride, **decoding}
