"""`MultiVectorEncoder`: a vector for each token of queries and documents, and its training."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.text_pooling import TextPooling
from keras_bert.models.encoder_base import PADDING, make_encoder
from keras_bert.models.losses import LossTerm
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tasks.embedding.model import first_and_others, naming_the_pooling
from keras_bert.tasks.multi_vector.encoding import DOCUMENT, QUERY, LateInteraction, checked_expansion
from keras_bert.tasks.multi_vector.losses import (
    DEFAULT_LOSSES,
    MaxSimInBatchNegatives,
    MaxSimLoss,
    MixedMaxSimLoss,
    as_loss,
)
from keras_bert.tasks.multi_vector.task import MultiVectorTask
from keras_bert.tasks.text_model import TextModel

PROJECTION = {"units": 128, "activation": "linear", "use_bias": False}


@keras.saving.register_keras_serializable(package="keras_bert")
class MultiVectorEncoder(LateInteraction, TextModel):
    """The encoder and a projection: a vector of length 1 for each token (ColBERT).

        model = MultiVectorEncoder.from_pretrained("colbert")
        queries, documents = model.encode_query(["how do cats purr?"]), model.encode_document(texts)
        scores = model.similarity(queries, documents)  # MaxSim, [queries, documents]
        best = model.rank("how do cats purr?", texts, top_k=3)

    The score of a query and a document is MaxSim: each token of the query has its largest product with the tokens of
    the document, and these are added up. Documents are encoded beforehand, so it is faster than a `CrossEncoder`, and
    more accurate than one vector for each text; but a document needs a vector for each token. It is trained on

        model.fit((queries, documents))                                # MaxSimInBatchNegatives
        model.fit((queries, documents, others, ...))                   # the same with hard negatives
        model.fit((queries, documents, others, ...), teacher_scores)   # MaxSimDistillation

    where `teacher_scores` has a list for each query with a score for each of its documents, such as the outputs of a
    cross-encoder. `fit(..., loss="margin_mse")` selects another loss of `tasks/multi_vector/losses.py`; some have a
    teacher, `loss=MaxSimDistillation(teacher=cross_encoder)`. Several data sets are `DataSets`, as for
    `SentenceEncoder`. The loss of a batch is that of all its texts, on one device or several, in one part or several.

    A prompt such as "[Q] " marks queries, "[D] " documents. In `from_pretrained` a mark in brackets must be a token of
    the vocabulary, such as [unused0]; `new_tokens=["[Q]", "[D]"]` adds tokens.

    Args:
        config: a `BertConfig`.
        dense: the dense layers for each token, as in `SentenceEncoder`; by default one to 128 numbers without bias.
        normalize: whether vectors get length 1.
        prompts: name -> text that is put before each text: "query" and "document".
        default_prompt: the name of the prompt for texts without a prompt of their own; None for no prompt.
        query_expansion: None, or how queries are filled up with [MASK]: `length`, the tokens of a query; `attend`,
            whether its tokens attend to the masks (by default false); `strategy`, "fixed" cuts longer queries, "min"
            does not; `token`, instead of [MASK].
        query_length, document_length: longer texts are cut to this many tokens; None for the number of positions.
        skiplist_words: tokens whose vectors are left out of documents, such as punctuation. Words that are not one
            token do not count.
        skiplist_tasks: the roles that the skip list holds for, "query" and "document".
        similarity_fn_name: `maxsim`, or `meanmaxsim`, which is divided by the number of the query's vectors.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask`, `segment_ids` and `score_mask`, int `[B, S]`. `input_mask` is
            0 for padding and for masks to which no token attends; `score_mask` is 1 for tokens with a vector. For
            training they are `[B, C, S]`: a query and C - 1 documents.
        training: whether to apply dropout.

    Returns:
        float32 `[B, S, D]` or `[B, C, S, D]`; zeros for tokens without a vector.

    Raises:
        InputError: a setting is unknown or contradicts another, or a number is out of range.

    Reference: Khattab and Zaharia, 2020, arXiv 2004.12832; Santhanam et al., 2022, arXiv 2112.01488;
    sentence-transformers `MultiVectorEncoder`.
    """

    kind = "MultiVectorEncoder"
    task_class = MultiVectorTask
    compares_batch = has_more_axes = True
    uses_pooler = False
    loss_names = ("embedding_loss",)
    feature_names = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS, features.SCORE_MASK)
    has_token_outputs = True
    as_loss, default_losses, mixed_loss = staticmethod(as_loss), DEFAULT_LOSSES, MixedMaxSimLoss.of
    metrics_refusal = "MultiVectorEncoder has no metrics in training. Its scores are those of evaluate(texts)."

    def __init__(
        self,
        config: BertConfig,
        dense: Sequence[Mapping] = (PROJECTION,),
        normalize: bool = True,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        query_expansion: Mapping[str, Any] | None = None,
        query_length: int | None = None,
        document_length: int | None = None,
        skiplist_words: Sequence[str] = (),
        skiplist_tasks: Sequence[str] = (DOCUMENT,),
        similarity_fn_name: str = "maxsim",
        **kwargs: Any,
    ):
        super().__init__(naming_the_pooling(config, "a vector for each token", 0), **kwargs)
        self.prompts, self.default_prompt = dict(prompts or {}), default_prompt
        self.query_expansion = checked_expansion(query_expansion)
        self.query_length, self.document_length = query_length, document_length
        self.skiplist_words = skiplist_words if isinstance(skiplist_words, str) else tuple(skiplist_words or ())
        self.skiplist_tasks, self.similarity_fn_name = list(skiplist_tasks), similarity_fn_name
        self.check_settings()
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        self._check_encoder()
        self.encoder.pooler.trainable = False  # no gradient reaches it
        # Each token is a text of its own: only what follows the pooling is computed.
        self.sentence_head = TextPooling("mean", dense, normalize, dtype=self._logits_dtype, name="sentence_head")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.sentence_head.build((None, None, self.config.hidden_size))
        self.built = True

    @property
    def vector_size(self) -> int:
        """The length D of the vectors."""
        return self.sentence_head.output_size(self.config.hidden_size)

    @property
    def computes_padding(self) -> bool:
        """Whether tokens to which no other one attends have vectors: the masks behind a query."""
        return self.query_expansion is not None and not self.query_expansion["attend"]

    def call(self, inputs: Any, training: bool = False) -> Any:
        rows = {name: inputs[name] for name in self.feature_names}
        if len(rows[features.INPUT_IDS].shape) < 3:
            return self._scored_vectors(rows, training)
        # Queries are shorter than documents, so they are rows of their own.
        is_used = rows[features.INPUT_MASK][:, 0] + rows[features.SCORE_MASK][:, 0]
        parts = first_and_others(rows, is_used, self.longest(QUERY))
        queries, documents = (self._scored_vectors(part, training) for part in parts)
        size, _, length, _ = ops.shape(documents)
        padding = ops.zeros((size, length - ops.shape(queries)[1], self.vector_size), queries.dtype)
        queries = ops.expand_dims(ops.concatenate([queries, padding], axis=1), 1)
        return ops.concatenate([queries, documents], axis=1)

    def _scored_vectors(self, rows, training):
        """Returns the vectors `[..., S, D]` of rows, zeros where none is scored."""
        shape = ops.shape(rows[features.INPUT_IDS])
        rows = {name: ops.reshape(values, (-1, shape[-1])) for name, values in rows.items()}
        vectors = self.token_vectors(rows, self.computes_padding, training=training)
        vectors *= ops.expand_dims(ops.cast(rows[features.SCORE_MASK] > 0, vectors.dtype), -1)
        return ops.reshape(vectors, (*shape, self.vector_size))

    def token_vectors(self, rows: Mapping[str, Any], computes_padding: bool, training: bool = False) -> Any:
        """Returns a vector for each column of rows, float32 `[B, S, D]`.

        Args:
            rows: `input_ids`, `input_mask` and `segment_ids`, int `[B, S]`.
            computes_padding: whether columns that `input_mask` hides have vectors. Otherwise an encoder with `unpadded`
                leaves them out.
            training: whether to apply dropout.
        """
        encode = self.encoder.encode if computes_padding else self.encoder
        hidden = encode(rows, training=training)["sequence_output"]
        return self.sentence_head.finish(ops.cast(hidden, self._logits_dtype), training=training)

    @property
    def embedding_loss(self) -> MaxSimLoss:
        """The loss that the model is trained with."""
        return self.loss_choice or self._loss_of_examples or MaxSimInBatchNegatives()

    def loss_term(self, vectors: Any, labels: Any, text_numbers: Any, weights: Any) -> LossTerm:
        """Returns the loss of a whole batch.

        Args:
            vectors: float `[B, C, S, D]`, what `call` returns.
            labels, text_numbers, weights: see `MaxSimLoss`.
        """
        loss = self.embedding_loss
        loss.check_batch(vectors.shape[1] if len(vectors.shape) == 4 else 1, labels)
        queries, documents = vectors[:, 0, : self.longest(QUERY)], vectors[:, 1:]
        value = loss(queries, documents, labels, text_numbers, weights, self.similarity_fn_name == "meanmaxsim")
        count = ops.cast(ops.shape(vectors)[0], vectors.dtype)
        return LossTerm("embedding_loss", value * (count if weights is None else ops.sum(weights)), count)

    def _check_encoder(self) -> None:
        expansion = self.query_expansion
        if expansion is None or expansion["attend"]:
            return
        # Positions of RoBERTa leave padding out, and padding attends to distant tokens in layers with local attention.
        is_local = getattr(self.config, "global_attn_every_n_layers", 1) > 1
        is_far = is_local and expansion["length"] > self.config.local_attention // 2
        if PADDING not in self.encoder.supports or self.config.position_offset or is_far:
            raise InputError(
                "query_expansion: in models of the family "
                f"{self.config.model_type} the tokens of a query must attend to its masks. Give attend=True."
            )

    def get_config(self) -> dict[str, Any]:
        arguments = {
            "dense": [dict(settings) for settings in self.sentence_head.dense],
            "normalize": self.sentence_head.normalize,
            "query_expansion": self.query_expansion,
            "skiplist_words": list(self.skiplist_words),
            "skiplist_tasks": self.skiplist_tasks,
        }
        names = ("prompts", "default_prompt", "query_length", "document_length", "similarity_fn_name")
        return {**super().get_config(), **arguments, **{name: getattr(self, name) for name in names}}
