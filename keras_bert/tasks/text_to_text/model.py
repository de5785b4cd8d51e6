"""`TextToText`: an encoder that reads a source and a decoder that writes a target."""

from typing import Any, Unpack

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.layers.choosing import formulas_for
from keras_bert.models.decoder import CrossAttentions, Decoder, DecoderLayers
from keras_bert.models.encoder_base import encoder_class, make_encoder
from keras_bert.models.losses import LossTerm, accuracy_term, cross_entropy_term, smoothed_cross_entropy_term
from keras_bert.models.task_model import example_weights
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number
from keras_bert.records import features
from keras_bert.tasks.masked_lm.model import masked_lm_head
from keras_bert.tasks.text_model import PredictOptions, TextModel
from keras_bert.tasks.text_to_text.beam_search import Found, search
from keras_bert.tasks.text_to_text.search_options import SearchOptions
from keras_bert.tasks.text_to_text.task import TextToTextTask


@keras.saving.register_keras_serializable(package="keras_bert")
class TextToText(TextModel):
    """Writes a target text for a source text: translation, summaries.

    The decoder has the layers of the encoder, with a causal mask and attention to the source, and the masked-LM head.
    Encoder and decoder start from one encoder checkpoint; the attention to the source is new:

        model = TextToText.from_pretrained("uncased_L-12_H-768_A-12")
        model.fit(sources, targets, epochs=3)
        model.predict(["ein Hund läuft ."], num_beams=4)[0].text

    A target row is `[CLS] t1 ... tn [SEP]`. The decoder reads all its tokens but the last and predicts all but the
    first: [CLS] begins a target and [SEP] ends it. The loss is the mean over the real tokens of

        (1 - e) * -log p(token) + e * mean over the vocabulary of -log p(v),    e = label_smoothing

    over the whole batch, as `label_smoothing` of torch's CrossEntropyLoss. `fit` and `evaluate` report `loss`,
    `perplexity` (exp of the loss without smoothing) and `token_accuracy`.

    Args:
        config: the `BertConfig` of the encoder and the decoder.
        shared: whether the decoder shares the weights of the encoder's embeddings and blocks.
        label_smoothing: e above, at least 0 and below 1; it counts in `loss` only.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]`, the source; and `target_ids`,
            int `[B, T]`, the target rows. The loss reads `target_mask`, int `[B, T]`, too. Other keys are ignored.
        training: whether to apply dropout.

    Returns:
        float32 logits `[B, T - 1, vocab_size]` of the tokens 1 to T - 1.

    Raises:
        InputError: the encoder has blocks that cannot decode, or an argument is out of range.

    Reference: Rothe et al., 2020, arXiv 1907.12461, "BERT2BERT" and "BERTSHARE"; Vaswani et al., 2017, sections 3 and
    5.4. transformers' `EncoderDecoderModel` computes the same.
    """

    feature_names = (*TextModel.feature_names, features.TARGET_IDS)
    loss_names = ("loss_of_targets",)
    metric_names = ("token_loss", "token_accuracy")
    uses_pooler = False
    kind = "TextToText"
    task_class = TextToTextTask

    def __init__(self, config: BertConfig, *, shared: bool = False, label_smoothing: float = 0.1, **kwargs: Any):
        super().__init__(config, **kwargs)
        check_number("label_smoothing", label_smoothing, at_least=0, below=1)
        self.shared, self.label_smoothing = bool(shared), float(label_smoothing)
        if encoder_class(config) is not BertEncoder:
            raise InputError(
                f"A decoder needs the blocks of a BertEncoder. Received: a config of {encoder_class(config).__name__} "
                f"({config.model_type}). Use BERT, RoBERTa, ALBERT, DistilBERT or ELECTRA."
            )
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.encoder.pooler.trainable = False  # no gradient reaches it
        if not self.shared:
            self.decoder = DecoderLayers(config, dtype=self.dtype_policy, name="decoder")
        self.cross_attention = CrossAttentions(config, dtype=self.dtype_policy, name="cross_attention")
        self.masked_lm_head = masked_lm_head(config, self.dtype_policy)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        width = self.config.hidden_size
        if not self.shared:
            self.decoder.build()
        self.cross_attention.build()
        self.masked_lm_head.build((None, None, width), (self.config.vocab_size, self.config.embedding_size))

    @property
    def _layers_of_decoder(self):
        return self.encoder if self.shared else self.decoder

    def _decoder(self) -> Decoder:
        return Decoder(self.config, self._layers_of_decoder, self.cross_attention)

    def _logits(self, hidden):
        table = ops.convert_to_tensor(self._layers_of_decoder.embeddings.token_embeddings)
        return self.masked_lm_head(hidden, table)

    def call(self, inputs: Any, training: bool = False) -> Any:
        source = self.encoder(inputs, training=training)["sequence_output"]
        read = ops.cast(inputs[features.TARGET_IDS], "int32")[:, :-1]
        return self._logits(self._decoder().vectors(read, source, inputs[features.INPUT_MASK], training=training))

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        num_beams: int = 4,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        length_penalty: float = 1.0,
        num_answers: int = 1,
        **options: Unpack[PredictOptions],
    ) -> Any:
        """Returns logits for features, or a `WrittenText` for each source.

        Arguments that are not listed are those of `TextModel.predict`.

        Args:
            num_beams, min_new_tokens, length_penalty, num_answers: texts only; see `SearchOptions`.
            max_new_tokens: texts only. The largest number of tokens in a target, [SEP] included. None for 64, or all
                positions of a shorter model.

        Raises:
            InputError: as `TextModel.predict`, or a number is out of range.
        """
        search: dict[str, Any] = {"num_beams": num_beams, "length_penalty": length_penalty, "num_answers": num_answers}
        search |= {"max_new_tokens": max_new_tokens, "min_new_tokens": min_new_tokens}
        return super().predict(x, batch_size, **search, **options)

    def generate(self, inputs: Any, options: SearchOptions) -> Found:
        """Returns the best targets for sources and their scores; see `tasks/text_to_text/beam_search.py`.

        Args:
            inputs: the features of the sources, as for `call`; no targets.
            options: the options of the search.

        Raises:
            InputError: `max_new_tokens` exceeds the positions, the model has no vocabulary, or features are missing.
        """
        self._check_features(inputs, self.source_names)
        self.check_target_length(options.max_new_tokens)
        if self.vocabulary is None:
            raise InputError("Writing targets needs a vocabulary, which names [CLS] and [SEP]. Set model.vocabulary.")
        source_mask = inputs[features.INPUT_MASK]
        decoder, source = self._decoder(), self.encoder(inputs)["sequence_output"]
        sources, source_bias = decoder.read_source(source), decoder.source_bias(source_mask)
        num_rows = ops.shape(source_mask)[0]

        def step(ids, column, cache):
            hidden, cache = decoder.step(ids, column, cache, sources, source_bias)
            return self._logits(hidden), cache

        cache = decoder.empty_cache(num_rows * options.num_beams, options.max_new_tokens)
        table = self.vocabulary
        return search(step, cache, num_rows, options, table.cls_id, table.sep_id, table.pad_id)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the features of a source."""
        return tuple(name for name in self.feature_names if name != features.TARGET_IDS)

    def check_target_length(self, num_tokens: int) -> None:
        """Raises `InputError` if a target has more tokens, [SEP] included, than the decoder has positions."""
        longest = self.config.max_sequence_length
        if num_tokens > longest:
            raise InputError(
                f"A target may have {longest} tokens, [SEP] included: the positions of the decoder. Received: "
                f"{num_tokens}. Use a smaller max_target_length or max_new_tokens."
            )

    def _check_inputs(self, inputs) -> None:
        super()._check_inputs(inputs)
        length = getattr(inputs[features.TARGET_IDS], "shape", (None, None))[-1]
        if length is not None:
            self.check_target_length(length - 1)

    def target_scores(self, inputs: Any) -> dict:
        """Returns, for each target, sums over its real tokens: `loss` (without smoothing), `right` and `weight`, `[B]`.

        Args:
            inputs: as for `call`, with `target_mask`.
        """
        logits, (labels, weights) = self(inputs), self._labels(inputs, None)
        losses = formulas_for(training=False).cross_entropy(logits, labels)
        is_right = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), ops.cast(labels, "int32"))
        sums = {"loss": losses, "right": ops.cast(is_right, "float32"), "weight": ops.ones_like(weights)}
        return {name: ops.sum(values * weights, axis=1) for name, values in sums.items()}

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        labels, weights = self._labels(x, sample_weight)
        smoothing = self.label_smoothing
        return [smoothed_cross_entropy_term("loss_of_targets", y_pred, labels, weights, smoothing)]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        labels = self._labels(x, sample_weight)
        return [cross_entropy_term("token_loss", y_pred, *labels), accuracy_term("token_accuracy", y_pred, *labels)]

    def get_metrics_result(self) -> dict:
        results = super().get_metrics_result()
        results["perplexity"] = ops.exp(results.pop("token_loss"))
        return results

    def _labels(self, x, sample_weight) -> tuple[Any, Any]:
        """Returns the ids and the weights of the tokens to predict, both `[B, T - 1]`."""
        self._check_features(x, (features.TARGET_IDS, features.TARGET_MASK))
        weights = ops.cast(ops.not_equal(x[features.TARGET_MASK], 0), "float32")[:, 1:]
        row_weights = example_weights(x, sample_weight)
        if row_weights is not None:
            weights = weights * ops.expand_dims(row_weights, 1)
        return x[features.TARGET_IDS][:, 1:], weights

    def get_config(self) -> dict:
        return {**super().get_config(), "shared": self.shared, "label_smoothing": self.label_smoothing}
