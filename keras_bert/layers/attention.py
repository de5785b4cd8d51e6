"""Multi-head self-attention."""

import keras
from keras import ops

from keras_bert.accelerate.backend import numbered_attention
from keras_bert.layers import formulas
from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.choosing import attention_for, formulas_for, layouts_for
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.numbered_mask import SequenceNumbers
from keras_bert.program.errors import InputError

# A value of `return_attention`.
SCORES = "scores"


def products_of_heads(vectors, matrices):
    """Returns the products of the vectors of each head with its matrix: `[B, N, S, D]`, `[N, D, T]` -> `[B, N, S, T]`.

    N must be known when the graph is made.
    """
    if matrices.shape[0] > 1:
        return ops.matmul(vectors, matrices)
    # TensorFlow 2.21 multiplies several batches with one matrix wrongly on a CPU, and overwrites other memory.
    batch_size, _, length, width = ops.shape(vectors)
    products = ops.matmul(ops.reshape(vectors, (-1, width)), matrices[0])
    return ops.reshape(products, (batch_size, 1, length, ops.shape(matrices)[2]))


@keras.saving.register_keras_serializable(package="keras_bert")
class SelfAttention(BertLayer):
    """Multi-head self-attention.

    Args:
        num_heads: number of heads; it must divide the width of the inputs.
        dropout: fraction of the attention probabilities that become 0 in training.
        initializer_range: standard deviation of the initial kernels.

    Call arguments:
        hidden: float `[B, S, H]`.
        attention_bias: float `[B, 1, F, S]` or `[B, 1, 1, S]`, see `numbered_mask.attention_bias`; or
            `SequenceNumbers`, if `choosing.reads_numbers` is true.
        training: whether to apply dropout.
        return_attention: whether to return the attention probabilities (before dropout) too; `SCORES` to return a pair
            of the scores before the softmax, without the bias, and the bias instead.
        query_tokens: float `[B, F, H]`, the tokens that attend; all of `hidden` by default, so F = S.
        flat_indices: int `[T]`, indices into the B * F query tokens. The output projection runs for these tokens only.
        value_tokens: float `[B, S, V]`, the vectors that values are made from; `hidden` by default.

    Returns:
        `[B, F, H]`, or `[T, H]` with `flat_indices`. With `return_attention`, a pair of it and the probabilities
        `[B, N, F, S]` of the N heads.

    Raises:
        ValueError: `num_heads` does not divide the width of the inputs.
        InputError: there are `SequenceNumbers` with dropout in training, with `return_attention` or on another backend
            than JAX.

    Reference: Vaswani et al., 2017, section 3.2.
    """

    # Whether the bias is learned: only then it surely gets a gradient.
    learns_bias = False
    # Whether it may get `SequenceNumbers` instead of a bias.
    takes_numbers = True

    def __init__(self, num_heads, dropout=0.1, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, *other_shapes, value_tokens_shape=None):
        self._set_sizes(hidden_shape[-1])
        for name in ("query", "key", "value", "output_dense"):
            self._add_dense(name, value_tokens_shape[-1] if name == "value" and value_tokens_shape else None)

    def _add_dense(self, name: str, width: int | None = None, use_bias: bool = True) -> None:
        """Adds a dense layer for vectors of this width, by default that of the inputs."""
        setattr(self, name, self.new_dense(name, self.hidden_size, width or self.hidden_size, use_bias=use_bias))

    def _set_sizes(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"The width of the inputs must be divisible by num_heads={self.num_heads}. Received: {self.hidden_size}"
            )
        self.head_size = self.hidden_size // self.num_heads

    def call(
        self,
        hidden,
        attention_bias,
        training=False,
        return_attention=False,
        query_tokens=None,
        flat_indices=None,
        value_tokens=None,
    ):
        # B = batch, F = query tokens, S = sequence length, H = hidden size, N = number of heads, D = head size
        query_tokens = hidden if query_tokens is None else query_tokens
        # Sizes are taken from the bias, which all layers share. So TensorFlow computes them once, not in each layer.
        if isinstance(attention_bias, SequenceNumbers):
            batch_size, length = ops.shape(attention_bias.keys)
        else:
            batch_size, _, _, length = ops.shape(attention_bias)
        num_queries = length if query_tokens is hidden else ops.shape(query_tokens)[1]
        # Products with weights have two dimensions: CPU kernels fuse their bias, but not that of an einsum.
        flat = ops.reshape(hidden, (-1, self.hidden_size))  # [B * S, H]
        query = self.query(ops.reshape(query_tokens, (-1, self.hidden_size)))  # [B * F, H]
        # Scaling the queries has the effect of scaling the scores, which are S / D times as many numbers.
        query = self._split(query * self.head_size**-0.5, batch_size, num_queries, training)  # [B, N, F, D]
        key = self._split(self.key(flat), batch_size, length, training)  # [B, N, S, D]
        values = flat if value_tokens is None else ops.reshape(value_tokens, (-1, value_tokens.shape[-1]))
        value = self._split(self.value(values), batch_size, length, training)

        sizes = (batch_size, self.num_heads, num_queries, length)
        gathered, probabilities = self._attend(query, key, value, attention_bias, sizes, training, return_attention)
        output = self._project(gathered, sizes, ops.shape(query_tokens), flat_indices, training)
        return (output, probabilities) if return_attention else output

    def keys_and_values(self, hidden):
        """Returns the keys and the values of tokens `[B, S, H]`, each `[B, N, S, D]`, for `attend_to`."""
        batch_size, length, _ = ops.shape(hidden)
        flat = ops.reshape(hidden, (-1, self.hidden_size))
        return tuple(self._split(dense(flat), batch_size, length, False) for dense in (self.key, self.value))

    def attend_to(self, query_tokens, key, value, attention_bias):
        """As `call` in inference, for `[B, F, H]` query tokens, with the key and value that `keys_and_values` returned.

        The bias is `[B, 1, F, S]`, or has 1 instead of B or F.
        """
        batch_size, num_queries, _ = shape = ops.shape(query_tokens)
        query = self.query(ops.reshape(query_tokens, (-1, self.hidden_size))) * self.head_size**-0.5
        query = self._split(query, batch_size, num_queries, False)
        gathered = attention_for(training=False)(query, key, value, attention_bias)
        return self._project(gathered, (batch_size, self.num_heads, num_queries), shape, None, False)

    def _split(self, vectors, batch_size, length, training, num_heads=None):
        """Splits vectors into heads: `[B * S, N * D]` -> `[B, N, S, D]`."""
        num_heads = num_heads or self.num_heads
        heads = ops.reshape(vectors, (-1, length, num_heads, self.head_size))
        return layouts_for(training).swap_middle_axes(heads, (batch_size, length, num_heads))

    def _attend(self, query, key, value, bias, sizes, training, return_attention):
        """Returns the outputs of the heads `[B, N, F, D]`, and the probabilities or, if not asked for, None."""
        if isinstance(bias, SequenceNumbers):
            self._check_fused(training, return_attention)
            return numbered_attention.attention(query, key, value, *bias), None
        dropout = ()
        if training and self.dropout.rate:
            dropout = formulas_for(training).draw_kept(sizes, self.dropout.rate, self.dropout.seed_generator)
        # The kernels take scores that all heads share for a mask, which gets no gradient.
        is_shared = (bias.shape[1] or self.num_heads) == 1
        attention = formulas.attention if self.learns_bias and is_shared else attention_for(training)
        if return_attention == SCORES:
            scores = ops.matmul(query, ops.swapaxes(key, 2, 3))
            return attention(query, key, value, bias, *dropout), (scores, bias)
        if return_attention:
            return formulas.attention(query, key, value, bias, *dropout, return_probabilities=True)
        return attention(query, key, value, bias, *dropout), None

    def _check_fused(self, training, return_attention):
        """Raises `InputError` for what the fused attention on JAX cannot compute."""
        if training and self.dropout.rate:
            problem = f"has no dropout. Received: attention dropout {self.dropout.rate}. Set it to 0"
        elif return_attention:
            problem = f"has no probabilities to return. Received: return_attention={return_attention}. Set it to False"
        elif numbered_attention is None:
            problem = f"needs Keras on JAX. Received: Keras on {keras.backend.backend()}. Start with KERAS_BACKEND=jax"
        else:
            return
        raise InputError(f"Fused attention {problem}, or give a bias (numbered_mask.attention_bias).")

    def _project(self, gathered, sizes, shape, flat_indices, training):
        """Joins the outputs of the heads `[B, N, F, D]` and projects them; see `call` for the result."""
        gathered = layouts_for(training).swap_middle_axes(gathered, sizes[:3])
        gathered = ops.reshape(gathered, (-1, self.num_heads * self.head_size))  # [B * F, N * D]
        if flat_indices is None:
            return ops.reshape(self.output_dense(gathered), shape)
        return self.output_dense(ops.take(gathered, flat_indices, axis=0))

    def compute_output_shape(
        self, hidden_shape, *other_shapes, query_tokens_shape=None, flat_indices_shape=None, **more_shapes
    ):
        return (*flat_indices_shape, hidden_shape[-1]) if flat_indices_shape else query_tokens_shape or hidden_shape
