"""The layers on top of the encoder. The next-sentence head and the classifier are dense layers in their models."""

import keras
from keras import ops

from keras_bert.layers.activations import hidden_activation
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.choosing import formulas_for
from keras_bert.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_bert")
class Pooler(BertLayer):
    """One vector for a row, or for each sequence packed in it: a dense layer on its first token, [CLS].

    Args:
        initializer_range: standard deviation of the initial kernel.
        activation: the function after it, as in `BertConfig.pooler_act`.
        has_dense: whether there is a dense layer; otherwise the vectors of the first tokens are returned.

    Call arguments:
        vectors: float `[B, H]`, or `[B, K, H]` for packed rows: the vectors of first tokens. The outputs have this
            shape.

    Reference: google-research/bert `modeling.py`; the paper calls its input C.
    """

    def __init__(self, initializer_range=0.02, activation="tanh", has_dense=True, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.activation = activation
        self.has_dense = has_dense

    def build(self, vectors_shape):
        if self.has_dense:
            width = vectors_shape[-1]
            self.dense = self.new_dense("dense", width, width, activation=hidden_activation(self.activation))

    def call(self, vectors, training=False):
        if not self.has_dense:
            return vectors
        if len(vectors.shape) == 2:
            return self.dense(vectors, training=training)
        # Two dimensions, as in SelfAttention.
        width = vectors.shape[-1]
        pooled = self.dense(ops.reshape(vectors, (-1, width)), training=training)
        return ops.reshape(pooled, (ops.shape(vectors)[0], -1, width))

    def compute_output_shape(self, vectors_shape):
        return vectors_shape


class VocabularyHead(BertLayer):
    """A head that scores every token of the vocabulary: products with a table of tokens, plus a bias for each token."""

    has_bias = True

    def _add_output_bias(self):
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
        )

    def _scores(self, products, batch_size):
        """Returns the products with their bias, in at least float32: `[B * P, V]` -> `[B, P, V]`."""
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        logits = ops.cast(products, dtype)
        if self.has_bias:
            logits = logits + ops.cast(self.output_bias, dtype)
        return ops.reshape(logits, (batch_size, -1, self.vocab_size))

    def compute_output_shape(self, hidden_shape, *other_shapes):
        return (*hidden_shape[:-1], self.vocab_size)


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLanguageModelHead(VocabularyHead):
    """Scores every token of the vocabulary at the masked positions.

    The vectors at those positions pass a dense layer, the activation and a LayerNorm. The logits are their products
    with the token embeddings, plus a bias for each token. `call` takes the encoder's table of token embeddings, so the
    table exists only once in memory, in the optimiser and on disk.

    Args:
        vocab_size: number of tokens.
        activation, layer_norm_epsilon, initializer_range: as for `TransformerBlock`.
        tied: whether to use the table given to `call`. If false, the head has a table of its own.
        dense_bias, norm_bias: whether the dense layer and the LayerNorm have a bias.
        extra_size: width X of a second table, which is the head's own (MobileBERT). A token's row in it continues that
            in the first table.
        has_transform: whether there are a dense layer and a LayerNorm. Otherwise E must be the width of `hidden`.
        has_bias: whether there is a bias for each token.

    Call arguments:
        hidden: float `[B, P, H]`, the encoder's vectors at the masked positions.
        token_embeddings: float `[vocab_size, E]`; the dense layer makes vectors of width E + X.

    Returns:
        `[B, P, vocab_size]`, in at least float32.

    Reference: google-research/bert `run_pretraining.py`, `get_masked_lm_output`.
    """

    def __init__(
        self,
        vocab_size,
        activation="gelu",
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        tied=True,
        dense_bias=True,
        norm_bias=True,
        extra_size=0,
        has_transform=True,
        has_bias=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.tied = tied
        self.dense_bias = dense_bias
        self.norm_bias = norm_bias
        self.extra_size = extra_size
        self.has_transform = has_transform
        self.has_bias = has_bias

    def build(self, hidden_shape, token_embeddings_shape=None):
        self.hidden_size = hidden_shape[-1]
        self.embedding_size = token_embeddings_shape[-1] if token_embeddings_shape else self.hidden_size
        if self.has_transform:
            self._build_transform(self.embedding_size + self.extra_size)
        if self.has_bias:
            self._add_output_bias()
        if not self.tied:
            self.output_embeddings = self.new_weight("output_embeddings", (self.vocab_size, self.embedding_size))
        if self.extra_size:
            shape = (self.vocab_size, self.extra_size)
            self.extra_output_embeddings = self.new_weight("extra_output_embeddings", shape)

    def _build_transform(self, width):
        activation = hidden_activation(self.activation)
        self.dense = self.new_dense("dense", width, self.hidden_size, use_bias=self.dense_bias, activation=activation)
        self.layer_norm = LayerNorm(self.layer_norm_epsilon, self.norm_bias, dtype=self.dtype_policy, name="layer_norm")
        self.layer_norm.build((None, width))

    def call(self, hidden, token_embeddings):
        # B = batch, P = predictions of a row, E = embedding size, V = vocabulary
        masked = self.vectors(hidden)  # [B * P, E + X]
        table = token_embeddings if self.tied else ops.convert_to_tensor(self.output_embeddings)
        product = formulas_for(training=True).product_with_rows
        logits = product(masked[:, : self.embedding_size] if self.extra_size else masked, table)  # [B * P, V]
        if self.extra_size:
            extra = ops.convert_to_tensor(self.extra_output_embeddings)
            logits = logits + product(masked[:, self.embedding_size :], extra)
        return self._scores(logits, ops.shape(hidden)[0])

    def vectors(self, hidden):
        """Returns the vectors whose products with the table are the logits, without the bias: `[T, E + X]`."""
        flat = ops.reshape(hidden, (-1, self.hidden_size))
        return self.layer_norm(self.dense(flat)) if self.has_transform else flat

    def table(self, token_embeddings):
        """Returns the table of these products, `[vocab_size, E + X]`."""
        table = token_embeddings if self.tied else ops.convert_to_tensor(self.output_embeddings)
        return ops.concatenate([table, self.extra_output_embeddings], axis=1) if self.extra_size else table


@keras.saving.register_keras_serializable(package="keras_bert")
class QueryHead(VocabularyHead):
    """Scores every token of the vocabulary for vectors of XLNet's second stream: their products with the token
    embeddings, plus a bias for each token.

    Attributes:
        mask_embedding: `[H]`, the vector with which the second stream begins; `initializer_range` is for it.

    Arguments, call arguments and outputs: as for `MaskedLanguageModelHead`.

    Reference: zihangdai/xlnet `modeling.py`, `lm_loss`, and `mask_emb` in `transformer_xl`.
    """

    def __init__(self, vocab_size, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.initializer_range = initializer_range

    def build(self, hidden_shape, token_embeddings_shape=None):
        self.hidden_size = hidden_shape[-1]
        self.mask_embedding = self.new_weight("mask_embedding", (self.hidden_size,))
        self._add_output_bias()

    def call(self, hidden, token_embeddings):
        vectors = ops.reshape(hidden, (-1, self.hidden_size))  # [B * P, H]
        products = formulas_for(training=True).product_with_rows(vectors, token_embeddings)
        return self._scores(products, ops.shape(hidden)[0])


@keras.saving.register_keras_serializable(package="keras_bert")
class ReplacedTokenHead(BertLayer):
    """Scores every token: a dense layer with an activation, then one output.

    Args:
        activation: name of the function between the two, as in `BertConfig.hidden_act`.
        initializer_range: standard deviation of the initial kernels.
        layer_norm_epsilon: added to the variance in the LayerNorm of a head that reads LayerNorm(token + first token),
            as in DeBERTa-v3. None: the head reads the tokens.

    Call arguments:
        hidden: float `[B, S, H]`.
        first_tokens: float `[B, S, H]` or `[B, 1, H]`, the first token of the sequence of each token, or None.

    Returns:
        `[B, S]`, a logit for each token.

    Reference: google-research/electra `run_pretraining.py`, `_get_discriminator_output`; microsoft/DeBERTa
    `DeBERTa/apps/models/replaced_token_detection_model.py`.
    """

    def __init__(self, activation="gelu_erf", initializer_range=0.02, layer_norm_epsilon=None, **kwargs):
        super().__init__(**kwargs)
        self.activation = activation
        self.initializer_range = initializer_range
        self.layer_norm_epsilon = layer_norm_epsilon
        self.layer_norm = None
        if layer_norm_epsilon is not None:
            self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm")

    def build(self, hidden_shape):
        if self.layer_norm:
            self.layer_norm.build(hidden_shape)
        width = hidden_shape[-1]
        self.dense = self.new_dense("dense", width, width, activation=hidden_activation(self.activation))
        self.output_dense = self.new_dense("output_dense", 1, width)

    def call(self, hidden, first_tokens=None):
        if self.layer_norm:
            hidden = self.layer_norm(hidden + first_tokens)
        return ops.squeeze(self.output_dense(self.dense(hidden)), -1)

    def compute_output_shape(self, hidden_shape, first_tokens_shape=None):
        return tuple(hidden_shape[:-1])


@keras.saving.register_keras_serializable(package="keras_bert")
class PredictionHead(BertLayer):
    """Prepares vectors for the last layer of a task: `LayerNorm(activation(dense(x)))`.

    Args:
        activation, layer_norm_epsilon, initializer_range: as for `TransformerBlock`.
        use_bias: whether the dense layer has a bias.
        norm_bias: whether the LayerNorm has a bias.

    Call arguments:
        hidden: float `[..., H]`: the vectors of rows or of tokens. The outputs have this shape.
        training: whether a backward pass follows.

    Reference: transformers, `ModernBertPredictionHead`.
    """

    def __init__(
        self,
        activation="gelu_erf",
        layer_norm_epsilon=1e-5,
        initializer_range=0.02,
        use_bias=False,
        norm_bias=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.norm_bias = norm_bias
        self._activate = hidden_activation(activation)
        self.layer_norm = LayerNorm(layer_norm_epsilon, norm_bias, dtype=self.dtype_policy, name="layer_norm")

    def build(self, hidden_shape):
        width = hidden_shape[-1]
        self.dense = self.new_dense("dense", width, width, use_bias=self.use_bias)
        self.layer_norm.build((None, width))

    def call(self, hidden, training=False):
        return self.layer_norm(self._activate(self.dense(hidden), training), training=training)

    def compute_output_shape(self, hidden_shape):
        return hidden_shape
