"""`StaticEncoder`: a vector for each token of the vocabulary, whatever text it stands in."""

import keras
from keras import ops

from keras_bert.accelerate.backend import tensorflow_functions
from keras_bert.config import BertConfig
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.models.encoder_base import Encoder, Tokens
from keras_bert.records import features


@keras.saving.register_keras_serializable(package="keras_bert")
class StaticEncoder(Encoder):
    """A table of token vectors. The vector of a text is the mean of its tokens, so a text costs a lookup.

    It is the encoder of a `SentenceEncoder` whose config has the `model_type` "static".
    `tasks/embedding/static_distillation.py` distils it from another encoder.

    Args:
        config: a `BertConfig.static`.

    Call arguments:
        inputs: dictionary of `input_ids` and `input_mask`, int `[B, S]`.
        training: changes nothing.

    Returns:
        dictionary: `sequence_output`, `[B, S, H]`.

    Reference: sentence-transformers, `StaticEmbedding`.
    """

    no_attentions = "it computes no attention"

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        sizes = (config.vocab_size, config.hidden_size)
        self.embeddings = TokenVectors(*sizes, dtype=self.dtype_policy, name="embeddings")
        self.build()

    def build(self, input_shape=None):
        self.embeddings.build((None, None))
        self.built = True

    def read(self, inputs) -> Tokens:
        unused = dict.fromkeys(("sequences", "segments", "positions", "cls_positions", "vectors"))
        return Tokens(ops.convert_to_tensor(inputs[features.INPUT_IDS]), **unused)

    def run(self, tokens, query_columns=None, flat_indices=None, training=False) -> tuple[list, list]:
        ids = tokens.ids
        if query_columns is not None:
            ids = ops.take_along_axis(ids, query_columns, axis=1)
        elif flat_indices is not None:
            ids = ops.take(ops.reshape(ids, (-1,)), flat_indices)
        return [self.embeddings(ids)], []

    def blocks_in_order(self) -> list:
        return []

    def pooled_tokens(self, input_mask):
        """Leaves out the first and the last token of each row, [CLS] and [SEP]: they stand in every text."""
        is_token = ops.cast(input_mask > 0, "int32")
        has_next = ops.concatenate([is_token[:, 1:], ops.zeros_like(is_token[:, :1])], axis=1)
        return has_next * ops.cast(ops.arange(ops.shape(is_token)[1]) > 0, "int32")

    def mean_vectors(self, ids):
        """Returns the mean vectors of texts without [CLS] and [SEP], or 0: ragged int32 `[B, None]` -> `[B, H]`."""
        means = tensorflow_functions.mean_rows(self.embeddings.token_embeddings, ids)
        return ops.cast(means, self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenVectors(BertLayer):
    """A table of `vocab_size` vectors: ids, int32 of any shape -> float `[..., size]`."""

    def __init__(self, vocab_size: int, size: int, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.size = size

    def build(self, ids_shape):
        self.token_embeddings = self.add_weight(
            name="token_embeddings",
            shape=(self.vocab_size, self.size),
            initializer=keras.initializers.RandomNormal(),
            autocast=False,  # in mixed precision only the rows are cast
        )

    def call(self, ids):
        return ops.cast(ops.take(self.token_embeddings, ids, axis=0), self.compute_dtype)

    def compute_output_shape(self, ids_shape):
        return (*ids_shape, self.size)
