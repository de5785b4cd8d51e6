"""The vectors of a text's tokens -> one weight for each token of the vocabulary, as in SPLADE."""

import keras
from keras import ops

from keras_bert.accelerate.backend import text_groups
from keras_bert.layers.bert_layer import BertLayer

POOLINGS, ACTIVATIONS = ("max", "sum"), ("relu", "log1p_relu")


def vocabulary_weights(vectors, mask, table, bias, pooling: str = "max", activation: str = "relu", training=False):
    """Pools the logits of a masked LM for all tokens of each text.

    A logit x becomes `log(1 + max(x, 0))`, with the activation `log1p_relu` the same of that again. Both are 0 up to 0
    and rise from there, so the largest value of a text is that of its largest logit.

    On TensorFlow the logits `[B, S, V]` are computed for few texts at a time, in the backward pass too.

    Args:
        vectors: float `[B, S, E]`, the vectors of the tokens.
        mask: int `[B, S]`, above 0 for tokens and 0 for padding.
        table: `[V, E]` of that dtype; a logit is the product of a vector with one of its rows, plus the bias.
        bias: float `[V]`, in at least float32.
        pooling: `max` or `sum` over the tokens.
        activation: `relu` or `log1p_relu`.
        training: whether a backward pass follows.

    Returns:
        `[B, V]` in the dtype of the bias, 0 or more.

    Reference: Formal et al., 2021, arXiv 2107.05720 (sum) and 2109.10086 (max); Shen et al., 2025, arXiv 2504.14839
    (`log1p_relu`).
    """
    is_token = mask > 0
    if pooling == "max":
        largest = text_groups.largest_products if text_groups else _largest_products
        return _activated(ops.cast(largest(vectors, is_token, table, training), bias.dtype) + bias, activation)

    def summed(vectors, is_token, table, bias):
        weights = _activated(_products(vectors, table, bias.dtype) + bias, activation)
        return ops.sum(ops.where(ops.expand_dims(is_token, 2), weights, 0.0), axis=1)

    if text_groups:
        return text_groups.in_groups(summed, vectors, is_token, table, bias, training)
    return summed(vectors, is_token, table, bias)


def largest_of_tokens(scores, ids, vocab_size: int):
    """Returns the largest score of each token of the vocabulary in a text, float `[B, V]`; 0 where it is not there.

    The tokens `ids`, int `[B, S]`, have the scores, float `[B, S]`, 0 or more.
    """
    num_texts = ops.shape(ids)[0]
    places = ops.expand_dims(ops.arange(num_texts, dtype="int32") * vocab_size, 1) + ops.cast(ids, "int32")
    largest = ops.segment_max(ops.reshape(scores, (-1,)), ops.reshape(places, (-1,)), num_texts * vocab_size)
    return ops.reshape(ops.relu(largest), (-1, vocab_size))  # segments without a score are very negative


def _activated(logits, activation):
    weights = ops.log1p(ops.relu(logits))
    return ops.log1p(weights) if activation == "log1p_relu" else weights


def _products(vectors, table, dtype):
    shape = ops.shape(vectors)
    products = ops.matmul(ops.reshape(vectors, (-1, shape[2])), ops.transpose(table))
    return ops.cast(ops.reshape(products, (-1, shape[1], table.shape[0])), dtype)


def _largest_products(vectors, is_token, table, training=False):
    products = _products(vectors, table, vectors.dtype)
    return ops.max(ops.where(ops.expand_dims(is_token, 2), products, -float("inf")), axis=1)


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenPresence(BertLayer):
    """A weight for each of the `vocab_size` tokens V, which a text gets for the tokens that it has.

    Call arguments:
        ids: int `[B, S]`, rows of one text each. Their first and their last token, [CLS] and [SEP], do not count.
        mask: int `[B, S]`, above 0 for tokens and 0 for padding.

    Returns:
        float `[B, V]`: the weights of the tokens in the text, however often they are there, and 0 elsewhere.

    Reference: sentence-transformers, `SparseStaticEmbedding`.
    """

    def __init__(self, vocab_size, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size

    def build(self, ids_shape=None, mask_shape=None):
        self.weight = self.add_weight(name="weight", shape=(self.vocab_size,), initializer="ones")

    def call(self, ids, mask):
        num_texts, length = ops.shape(ids)
        first = ops.zeros_like(mask[:, :1])
        is_inner = ops.concatenate([first, mask[:, 2:], first], axis=1)[:, :length] > 0
        texts = ops.expand_dims(ops.arange(num_texts, dtype="int32"), 1) + ops.zeros_like(ids, dtype="int32")
        places = ops.reshape(ops.stack([texts, ops.cast(ids, "int32")], axis=2), (-1, 2))
        counts = ops.scatter(places, ops.reshape(ops.cast(is_inner, "int32"), (-1,)), (num_texts, self.vocab_size))
        return ops.where(counts > 0, self.weight, 0.0)

    def compute_output_shape(self, ids_shape, mask_shape=None):
        return (ids_shape[0], self.vocab_size)
