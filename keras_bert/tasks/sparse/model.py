"""`SparseEncoder`: a weight for each token of the vocabulary, for each text (SPLADE)."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.checkpoints.checkpoint import TOKEN_SCORES
from keras_bert.config import BertConfig
from keras_bert.layers.vocabulary_pooling import (
    ACTIVATIONS,
    POOLINGS,
    TokenPresence,
    largest_of_tokens,
    vocabulary_weights,
)
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import LossTerm
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice, check_whole
from keras_bert.records import features
from keras_bert.tasks.embedding.examples import LISTS, PAIRS
from keras_bert.tasks.embedding.model import first_and_others, naming_the_pooling
from keras_bert.tasks.fitting import num_batches_of
from keras_bert.tasks.masked_lm.model import masked_lm_head
from keras_bert.tasks.sparse.encoding import ROLES, SparseEncoding
from keras_bert.tasks.sparse.losses import MixedSpladeLoss, SpladeLoss, as_splade_loss
from keras_bert.tasks.sparse.task import SparseTask
from keras_bert.tasks.text_model import TextModel


@keras.saving.register_keras_serializable(package="keras_bert")
class SparseEncoder(SparseEncoding, TextModel):
    """The encoder with its masked-LM head, and a pooling of the logits of all tokens of a text.

        encoder = SparseEncoder.from_pretrained("splade-cocondenser-ensembledistil")
        queries, documents = encoder.encode_query(["how do cats purr"]), encoder.encode_document(texts)
        encoder.similarity(queries, documents)  # products
        encoder.decode(queries[0], top_k=10)    # tokens and weights

    `from_pretrained` needs a masked-LM head. It takes pooling, activation, prompts, the maximum length and the weights
    of static queries from a folder of sentence-transformers. It is trained on texts:

        encoder.fit((queries, documents))                            # in-batch negatives
        encoder.fit((queries, documents, others))                    # the same with hard negatives
        encoder.fit((queries, documents, others), teacher_margins)   # margin MSE
        encoder.fit(..., loss=SpladeLoss(document_regularizer_weight=1e-4))

    `teacher_margins` has for each example a number, the teacher's score of the document less that of the other one; a
    list of these numbers for several others; or a list of the scores of all documents. A teacher can compute them:
    `loss=SpladeLoss("margin_mse", teacher=cross_encoder)`. Several data sets are `DataSets`, each with its loss.

    A `fit` on features needs a known number of updates, for the warm-up of the regularisers.

    The loss of a batch is that of all its texts together, on one device or several, see `SentenceEncoder`.

    Args:
        config: a `BertConfig` of a family with a masked-LM head.
        pooling_strategy: `max` or `sum` over the tokens, special tokens included.
        activation_function: `relu` or `log1p_relu`, see `vocabulary_weights`.
        static_queries: whether the weights of a query are those of its own tokens, looked up in a table that does not
            depend on the text, so that queries need no encoder. They start as 1; `query_weights.weight.assign` sets
            others, such as inverse document frequencies.
        frozen: whether this table is not trained.
        max_query_length: longer static queries are cut to this many tokens, without [CLS] and [SEP]; None for
            `max_seq_length`.
        default_route: `document` or `query`, as what `encode` takes texts.
        max_active_dims: the largest number of tokens with a weight; None for no limit.
        unscored_ids: None, or the special tokens of a model without a masked-LM head, as bge-m3 is: there the weight of
            a token is the largest score, 0 or more, of its vectors in the text, and these ids get none.
        prompts, default_prompt, max_seq_length: as for `SentenceEncoder`.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[B, S]` for documents, or `[B, C, S]`
            for a query, its document, and C - 2 others.
        training: whether to apply dropout.

    Returns:
        float32 `[B, V]` or `[B, C, V]`, 0 or more.

    Raises:
        InputError: the family has no masked-LM head that knows the tokens, or an argument is not valid.

    Reference: Formal et al., 2021, arXiv 2109.10086; Geng et al., 2024, arXiv 2411.04403 (static queries).
    """

    kind = "SparseEncoder"
    task_class = SparseTask
    compares_batch = has_more_axes = True
    uses_pooler = False
    loss_names = ("embedding_loss",)
    as_loss, default_losses = staticmethod(as_splade_loss), dict.fromkeys((PAIRS, LISTS), SpladeLoss())
    mixed_loss = MixedSpladeLoss.of
    metrics_refusal = "SparseEncoder has no metrics in training. Its scores are those of evaluate(texts)."

    def __init__(
        self,
        config: BertConfig,
        pooling_strategy: str = "max",
        activation_function: str = "relu",
        static_queries: bool = False,
        frozen: bool = False,
        max_query_length: int | None = None,
        default_route: str = "document",
        max_active_dims: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        max_seq_length: int | None = None,
        unscored_ids: Sequence[int] | None = None,
        **kwargs: Any,
    ):
        super().__init__(naming_the_pooling(config, "SpladePooling of a SparseEncoder", 0), **kwargs)
        if config.family.predicts_from_queries:
            raise InputError(f"The masked-LM head of {config.model_type} does not know the tokens that it predicts.")
        self.pooling_strategy, self.activation_function = pooling_strategy, activation_function
        check_choice("pooling_strategy", pooling_strategy, POOLINGS)
        check_choice("activation_function", activation_function, ACTIVATIONS)
        self.static_queries, self.frozen, self.default_route = bool(static_queries), bool(frozen), default_route
        check_choice("default_route", default_route, ROLES)
        self.max_query_length = check_whole("max_query_length", max_query_length, at_least=1, or_none=True)
        self.max_active_dims = check_whole("max_active_dims", max_active_dims, at_least=1, or_none=True)
        self.max_seq_length = check_whole("max_seq_length", max_seq_length, at_least=3, or_none=True)
        self.prompts, self.default_prompt = dict(prompts or {}), default_prompt
        self.check_prompts()
        self._warm_up: tuple[int, int] | None = None
        self.updates_of_run: int | None = None
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self.encoder.pooler.trainable = False  # no gradient reaches it
        self.unscored_ids = None if unscored_ids is None else [int(number) for number in unscored_ids]
        if self.unscored_ids is None:
            self.masked_lm_head = masked_lm_head(config, self.dtype_policy)
        else:
            self.token_scores = keras.layers.Dense(1, "relu", dtype=self._logits_dtype, name=TOKEN_SCORES)
        self.query_weights: Any = None
        if self.static_queries:
            self.query_weights = TokenPresence(config.vocab_size, dtype=self._logits_dtype, name="query_weights")
            self.query_weights.trainable = not frozen
        self.build()

    def build(self, input_shape: Any = None) -> None:
        if self.unscored_ids is None:
            table = (self.config.vocab_size, self.config.embedding_size)
            self.masked_lm_head.build((None, None, self.config.hidden_size), table)
        else:
            self.token_scores.build((None, None, self.config.hidden_size))
        if self.query_weights is not None:
            self.query_weights.build()
        self.built = True

    @property
    def vector_size(self) -> int:
        return self.config.vocab_size

    def call(self, inputs: Any, training: bool = False) -> Any:
        shape = ops.shape(inputs[features.INPUT_IDS])
        if len(shape) == 2:
            return self._weights(inputs, training)
        rows = {name: inputs[name] for name in self.feature_names}
        # Queries are shorter than documents, so they are rows of their own.
        queries, documents = first_and_others(rows, rows[features.INPUT_MASK][:, 0], shape[-1])
        if self.query_weights is not None:
            of_queries = self.query_weights(queries[features.INPUT_IDS], queries[features.INPUT_MASK])
        else:
            of_queries = self._weights(queries, training)
        documents = {name: ops.reshape(values, (-1, shape[-1])) for name, values in documents.items()}
        of_documents = ops.reshape(self._weights(documents, training), (-1, shape[1] - 1, self.vector_size))
        return ops.concatenate([ops.expand_dims(of_queries, 1), of_documents], axis=1)

    def _weights(self, inputs, training):
        """Returns the weights of rows `[B, S]`: `[B, V]`."""
        hidden = self.encoder(inputs, training=training)["sequence_output"]
        if self.unscored_ids is not None:
            ids, is_scored = inputs[features.INPUT_IDS], inputs[features.INPUT_MASK] > 0
            for number in self.unscored_ids:
                is_scored = ops.logical_and(is_scored, ids != number)
            scores = ops.where(is_scored, self.token_scores(hidden)[..., 0], 0.0)
            return largest_of_tokens(scores, ids, self.vector_size)
        head = self.masked_lm_head
        vectors = head.vectors(hidden)
        vectors = ops.reshape(vectors, (*ops.shape(hidden)[:2], vectors.shape[-1]))
        table = head.table(ops.convert_to_tensor(self.encoder.embeddings.token_embeddings))
        table = ops.cast(table, vectors.dtype)  # in mixed precision
        bias = head.output_bias if head.has_bias else ops.zeros(self.config.vocab_size)
        bias = ops.cast(bias, self._logits_dtype)
        pooling = {"pooling": self.pooling_strategy, "activation": self.activation_function, "training": training}
        return vocabulary_weights(vectors, inputs[features.INPUT_MASK], table, bias, **pooling)

    def static_weights(self) -> np.ndarray:
        assert self.query_weights is not None
        return np.asarray(keras.ops.convert_to_numpy(self.query_weights.weight), np.float32)

    def before_fit(self, arguments: Mapping[str, Any]) -> None:
        self._warm_up = self._updates_of_warm_up(arguments)
        super().before_fit(arguments)

    @property
    def splade_loss(self) -> SpladeLoss | MixedSpladeLoss:
        """The loss that the model is trained with."""
        return self.loss_choice or self._loss_of_examples or SpladeLoss()

    def _updates_of_warm_up(self, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
        """Returns the number of the optimizer's first update in this `fit`, and how many updates the warm-up takes."""
        ratio = self.splade_loss.warmup_ratio
        if not ratio:
            return None
        require_tensorflow("A rise of the regularisers' weights (warmup_ratio)", ", or give warmup_ratio=0")
        updates_of_run, self.updates_of_run = self.updates_of_run, None
        if updates_of_run:
            return 0, max(1, int(updates_of_run * ratio))
        num_batches = num_batches_of(arguments)
        if num_batches is None:
            raise InputError(
                "The weights of the regularisers rise during a part of the updates, and the number of batches is "
                "unknown. Give steps_per_epoch, or SpladeLoss(warmup_ratio=0)."
            )
        is_new = not self.compiled or self.is_compiled_for_one_fit
        first = 0 if is_new else int(self.optimizer.iterations + 0)  # + 0 reads a variable that several devices hold
        num_updates = num_batches * (arguments.get("epochs", 1) - arguments.get("initial_epoch", 0))
        return first, max(1, int(num_updates * ratio))

    def _regularizer_share(self) -> Any:
        """Returns the share of the full weights of the regularisers in this update, a scalar from 0 to 1."""
        if self._warm_up is None or not self.compiled:
            return 1.0
        first, num_updates = self._warm_up
        done = ops.cast(self.optimizer.iterations - first, self._logits_dtype)
        return ops.square(ops.minimum(done / num_updates, 1.0))

    def loss_term(self, vectors: Any, labels: Any, text_numbers: Any, weights: Any) -> LossTerm:
        """Returns the loss of a whole batch; the arguments are those of `SpladeLoss.__call__`."""
        share = self._regularizer_share()
        value = self.splade_loss(vectors, labels, text_numbers, weights, share, static_queries=self.static_queries)
        count = ops.cast(ops.shape(vectors)[0], vectors.dtype)
        total = count if weights is None else ops.cast(ops.sum(weights), vectors.dtype)
        return LossTerm("embedding_loss", value * total, count)

    def get_config(self) -> dict[str, Any]:
        names = ("pooling_strategy", "activation_function", "static_queries", "frozen", "max_query_length")
        names += ("default_route", "max_active_dims", "prompts", "default_prompt", "max_seq_length", "unscored_ids")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
