"""`SentenceEncoder`: one vector for each text, and its training on pairs, triplets, scores or labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.config import SENTENCE_POOLING, BertConfig
from keras_bert.layers.text_pooling import TextPooling
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.losses import LossTerm
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.tasks.embedding.encoding import SentenceEncoding
from keras_bert.tasks.embedding.examples import LABELS, SCORES
from keras_bert.tasks.embedding.losses import DEFAULT_LOSSES, EmbeddingLoss, InBatchNegatives, as_loss
from keras_bert.tasks.embedding.mixed_loss import MixedLoss
from keras_bert.tasks.embedding.task import EmbeddingTask
from keras_bert.tasks.text_model import TextModel


@keras.saving.register_keras_serializable(package="keras_bert")
class SentenceEncoder(SentenceEncoding, TextModel):
    """The encoder, a pooling of its token vectors, optional dense layers, and vectors of length 1.

        encoder = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
        vectors = encoder.encode(["A cat sits on the mat.", "A kitten is on a rug."])
        encoder.similarity(vectors, vectors)  # cosines

    `from_pretrained` takes pooling, dense layers, normalisation, prompts and the maximum length from a folder of
    sentence-transformers. It is trained on texts; what they are selects the loss, see `embedding_losses`:

        encoder.fit((questions, answers))              # pairs: InBatchNegatives
        encoder.fit((questions, answers, wrong))       # the same with hard negatives
        encoder.fit((texts, second_texts), scores)     # CoSENT
        encoder.fit(texts, labels)                     # LabelTriplets
        encoder.fit((questions, answers, wrong), loss=MarginMSE(teacher=a_cross_encoder))
        encoder.fit((questions, answers), loss=Matryoshka(InBatchNegatives(), [384, 128]))

    Texts may also be `SentenceExamples`, or several data sets, `DataSets`, each with its loss. Features are `[..., S]`;
    beside them may be `label_ids`, `[B, ...]`, and `text_numbers`, int `[B, C]`, which are equal for equal texts.

    `evaluate((questions, answers))` searches for each answer among the given texts only; `evaluate_search` of
    `embeddings/search_scores.py` searches a whole corpus.

    The loss of a batch is that of all its texts together, on one device or several. With
    `compile(optimizer, gradient_accumulation_steps=N)` the batch is computed in N parts with the same result, so that
    memory does not limit the number of negatives (`models/whole_batch_step.py`).

    Args:
        config: a `BertConfig`.
        pooling: one or more of `config.POOLINGS`, joined in this order.
        dense: the dense layers after the pooling: mappings with `units`, and if required `activation` (a hidden
            activation, by default `tanh`), `use_bias` (by default true) and `use_residual` (by default false).
        normalize: whether vectors get length 1, so that their products are cosines.
        prompts: name -> text that is put before each text, such as {"query": "query: "}.
        default_prompt: the name of the prompt that is used when none is named; None for no prompt.
        max_seq_length: longer texts are cut to this many tokens; None for the number of the model's positions.
        doc_stride: `encode` and exports cut longer texts into overlapping windows instead, which begin this many tokens
            apart. The vector of a text is the mean over its windows, weighted by tokens. Training cuts texts.

    Call arguments:
        inputs: dictionary of `input_ids`, `input_mask` and `segment_ids`, int `[..., S]`. There may be several leading
            axes, such as `[B, C, S]` for training on C texts per example.
        training: whether to apply dropout.

    Returns:
        float32 `[..., D]`.

    Raises:
        InputError: a pooling or an activation is unknown, or a number is out of range.

    Reference: Reimers and Gurevych, 2019, arXiv 1908.10084.
    """

    kind = "SentenceEncoder"
    task_class = EmbeddingTask
    compares_batch = has_more_axes = True
    uses_pooler = False
    loss_names = ("embedding_loss",)
    can_be_static = True
    as_loss, default_losses, mixed_loss = staticmethod(as_loss), DEFAULT_LOSSES, MixedLoss.of
    metrics_refusal = "SentenceEncoder has no metrics in training. Its scores are those of evaluate(texts)."

    def __init__(
        self,
        config: BertConfig,
        pooling: Sequence[str] | str = ("mean",),
        dense: Sequence[Mapping] = (),
        normalize: bool = True,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        max_seq_length: int | None = None,
        doc_stride: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(naming_the_pooling(config, pooling, len(dense)), **kwargs)
        self.prompts = dict(prompts or {})
        self.default_prompt = default_prompt
        self.max_seq_length = check_whole("max_seq_length", max_seq_length, at_least=3, or_none=True)
        self.doc_stride = check_whole("doc_stride", doc_stride, at_least=1, or_none=True)
        self.check_prompts()
        if self.is_static and (pooling not in ("mean", ["mean"], ("mean",)) or self.doc_stride):
            raise InputError(
                "The vector of a text in a static model is the mean of its tokens. Leave out pooling and doc_stride. "
                f"Received: pooling={pooling!r}, doc_stride={self.doc_stride}"
            )
        self.encoder = make_encoder(config, dtype=self.dtype_policy, name="encoder")
        if not self.is_static:
            self.encoder.pooler.trainable = False  # no gradient reaches it
        self.sentence_head = TextPooling(pooling, dense, normalize, dtype=self._logits_dtype, name="sentence_head")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.sentence_head.build((None, None, self.config.hidden_size))
        self.built = True

    @property
    def is_static(self) -> bool:
        """Whether the encoder is a `StaticEncoder`, a table of token vectors."""
        return self.config.is_static

    @property
    def pooling(self) -> tuple[str, ...]:
        """The poolings of the token vectors."""
        return self.sentence_head.pooling

    @property
    def normalize(self) -> bool:
        """Whether vectors have length 1."""
        return self.sentence_head.normalize

    @property
    def embedding_size(self) -> int:
        """The length D of the vectors."""
        return self.sentence_head.output_size(self.config.hidden_size)

    vector_size = embedding_size  # its name in all models that compare texts

    def call(self, inputs: Any, training: bool = False) -> Any:
        shape = ops.shape(inputs[features.INPUT_IDS])
        rows = {name: ops.reshape(inputs[name], (-1, shape[-1])) for name in self.feature_names}
        vectors = self.sentence_head.text_vectors(self.encoder, rows, training=training)
        return vectors if len(shape) == 2 else ops.reshape(vectors, (*shape[:-1], self.embedding_size))

    def vectors_of_ids(self, ids: Any) -> Any:
        """Returns the vectors of texts of a static model, float32 `[B, D]`.

        Args:
            ids: a `tf.RaggedTensor`, int32 `[B, None]`: tokens without [CLS] and [SEP].
        """
        return self.sentence_head.finish(ops.cast(self.encoder.mean_vectors(ids), self._logits_dtype))

    @property
    def embedding_loss(self) -> EmbeddingLoss:
        """The loss that the model is trained with."""
        return self.loss_choice or self._loss_of_examples or InBatchNegatives()

    def loss_term(self, vectors: Any, labels: Any, text_numbers: Any, weights: Any) -> LossTerm:
        """Returns the loss of a whole batch; the arguments are those of `EmbeddingLoss.__call__`."""
        loss = self.embedding_loss
        vectors = vectors if len(vectors.shape) == 3 else vectors[:, None]
        loss.check_batch(vectors.shape[1], labels)
        if loss.learns_from in (SCORES, LABELS):
            labels = ops.reshape(labels, (-1,))
        count = ops.cast(ops.shape(vectors)[0], vectors.dtype)
        total = count if weights is None else ops.sum(weights)
        return LossTerm("embedding_loss", loss(vectors, labels, text_numbers, weights) * total, count)

    def get_config(self) -> dict[str, Any]:
        head = {"pooling": list(self.pooling), "dense": [dict(settings) for settings in self.sentence_head.dense]}
        names = ("normalize", "prompts", "default_prompt", "max_seq_length", "doc_stride")
        return {**super().get_config(), **head, **{name: getattr(self, name) for name in names}}


def naming_the_pooling(config: BertConfig, pooling: Sequence[str] | str, num_dense: int) -> BertConfig:
    """Returns a config that names the pooling, so that another model with this encoder does not pool otherwise."""
    if not isinstance(config, BertConfig):
        return config  # refused by the base class
    pooling = [pooling] if isinstance(pooling, str) else pooling
    extra = {name: value for name, value in config.extra.items() if name != SENTENCE_POOLING}
    name = ", then ".join([" + ".join(pooling), *["Dense"] * num_dense])
    return config.replace(extra=extra if name == "mean" else {**extra, SENTENCE_POOLING: name})


def first_and_others(rows: Mapping[str, Any], is_used: Any, longest: int) -> tuple[dict, dict]:
    """Returns the features of the first texts, `[B, W]`, which are mostly shorter, and of the others, `[B, C - 1, S]`.

    Args:
        rows: features, each `[B, C, S]`.
        is_used: int `[B, S]`, above 0 for columns of the first texts that are no padding.
        longest: the number W of columns of first texts where shapes must be known, as under XLA.
    """
    width = longest
    if tensorflow_functions and tensorflow_functions.lengths_may_vary():
        columns = ops.arange(ops.shape(is_used)[1], dtype="int32")
        width = ops.max(ops.where(is_used > 0, columns, 0), initial=0) + 1  # a part of a batch may be empty
    first = {name: values[:, 0, :width] for name, values in rows.items()}
    return first, {name: values[:, 1:] for name, values in rows.items()}
