"""Attention between the blocks of a row: each block attends to few others, so no tensor has a score for every pair."""

import keras
from keras import ops

from keras_bert.encoders.long.block_patterns import SlidingWindows, SparseBlocks
from keras_bert.layers.attention import SelfAttention, products_of_heads
from keras_bert.layers.blocks import block_attention, neighbouring_blocks
from keras_bert.layers.choosing import layouts_for
from keras_bert.layers.gathering import vectors_at
from keras_bert.layers.transformer_block import TransformerBlock


def chosen_blocks(blocks, numbers):
    """Gathers for every block of every head those with these numbers, each at least 0 and below C.

    `[B, C, N, b, D]` and int32 `[B, C, N, M]` -> `[B, C, N, M b, D]`.
    """
    batch_size, num_blocks, num_heads, block_size, width = ops.shape(blocks)
    # The index of block c of head n in row r is (r C + c) N + n.
    rows = ops.reshape(ops.arange(batch_size, dtype="int32") * num_blocks, (-1, 1, 1, 1))
    heads = ops.reshape(ops.arange(num_heads, dtype="int32"), (1, 1, -1, 1))
    indices = (rows + numbers) * num_heads + heads
    gathered = ops.take(ops.reshape(blocks, (-1, block_size * width)), indices, axis=0)  # [B, C, N, M, b D]
    return ops.reshape(gathered, (batch_size, num_blocks, num_heads, -1, width))


class BlockSelfAttention(SelfAttention):
    """Self-attention between blocks. `SelfAttention` has its arguments.

    Call arguments:
        hidden: float `[B, S, H]`, S of any length.
        attention_bias: the pattern of the subclass, which says who attends to whom; or the bias of full attention.
        training, flat_indices: as in `SelfAttention`. `query_tokens` and `return_attention` need full attention.
    """

    takes_numbers = False

    def call(
        self, hidden, attention_bias, training=False, return_attention=False, query_tokens=None, flat_indices=None
    ):
        # B = batch, S = length, C = blocks, b = block size, N = heads, D = head size, H = N D
        if not isinstance(attention_bias, tuple):
            return super().call(hidden, attention_bias, training, return_attention, query_tokens, flat_indices)
        pattern = attention_bias
        batch_size, length, _ = ops.shape(hidden)
        flat = ops.reshape(hidden, (-1, self.hidden_size))
        query, key, value = (
            self._blocks(vectors, batch_size, length, pattern.block_size, training)
            for vectors in (self.query(flat) * self.head_size**-0.5, self.key(flat), self.value(flat))
        )
        gathered = self._attend_blocks(query, key, value, pattern, training)  # [B, C, N, b, D]
        gathered = self._rows(gathered, training)[:, :length]  # [B, S, H]
        gathered = self._with_global_queries(gathered, hidden, pattern, training)
        gathered = ops.reshape(gathered, (-1, self.hidden_size))
        if flat_indices is None:
            return ops.reshape(self.output_dense(gathered), ops.shape(hidden))
        return self.output_dense(ops.take(gathered, flat_indices, axis=0))

    def _blocks(self, vectors, batch_size, length, block_size, training):
        """Pads the rows to full blocks, and splits them into blocks and heads: `[B S, H]` -> `[B, C, N, b, D]`."""
        num_blocks = -(-length // block_size)
        rows = ops.reshape(vectors, (batch_size, length, self.hidden_size))
        rows = ops.pad(rows, [[0, 0], [0, num_blocks * block_size - length], [0, 0]])
        blocks = self._split(rows, batch_size * num_blocks, block_size, training)
        return ops.reshape(blocks, (batch_size, num_blocks, self.num_heads, block_size, self.head_size))

    def _rows(self, blocks, training):
        """Joins blocks to rows: `[B, C, N, b, D]` -> `[B, C b, H]`."""
        batch_size, num_blocks, _, block_size, _ = ops.shape(blocks)
        blocks = ops.reshape(blocks, (-1, self.num_heads, block_size, self.head_size))
        sizes = (batch_size * num_blocks, self.num_heads, block_size)
        rows = layouts_for(training).swap_middle_axes(blocks, sizes)
        return ops.reshape(rows, (batch_size, num_blocks * block_size, self.hidden_size))

    def _attention(self, training):
        """Returns `attention(query, keys, values, bias)` with this layer's dropout."""

        def attention(query, keys, values, bias):
            sizes = (*ops.shape(query)[:3], ops.shape(keys)[2])
            return self._attend(query, keys, values, bias, sizes, training, return_attention=False)[0]

        return attention

    def _attend_blocks(self, query, key, value, pattern, training):
        raise NotImplementedError

    def _with_global_queries(self, gathered, hidden, pattern, training):
        return gathered


@keras.saving.register_keras_serializable(package="keras_bert")
class WindowAttention(BlockSelfAttention):
    """Longformer's attention: each token attends to a window around it and to the global tokens of its row.

    Global tokens attend to all tokens, with queries, keys and values of their own.

    Call arguments:
        attention_bias: `SlidingWindows`, or the bias of full attention for all but the global tokens.

    Reference: Beltagy et al., 2020, sections 3.1 to 3.3.
    """

    def build(self, hidden_shape, *other_shapes):
        super().build(hidden_shape)
        for name in ("query_global", "key_global", "value_global"):
            self._add_dense(name)

    def _attend_blocks(self, query, key, value, pattern: SlidingWindows, training):
        keys, values = (
            neighbouring_blocks(blocks, self._at_global(blocks, pattern, training)) for blocks in (key, value)
        )
        return block_attention(query, keys, values, pattern.bias, self._attention(training))

    def _at_global(self, blocks, pattern, training):
        """Returns the vectors of the global tokens: `[B, C, N, b, D]` -> `[B, N, G, D]`."""
        batch_size, _, _, block_size, _ = ops.shape(blocks)
        columns = pattern.global_columns
        indices = (columns // block_size) * self.num_heads  # [B, G], of the block for the first head
        heads = ops.reshape(ops.arange(self.num_heads, dtype="int32"), (1, -1, 1))
        vectors_of_rows = ops.reshape(blocks, (batch_size, -1, self.head_size))
        places = (ops.expand_dims(indices, 1) + heads) * block_size + ops.expand_dims(columns % block_size, 1)
        found = vectors_at(vectors_of_rows, ops.reshape(places, (batch_size, -1)))
        return ops.reshape(found, (batch_size, self.num_heads, -1, self.head_size))

    def _with_global_queries(self, gathered, hidden, pattern: SlidingWindows, training):
        batch_size, length, _ = ops.shape(hidden)
        num_global = ops.shape(pattern.global_columns)[1]
        at_global = ops.reshape(vectors_at(hidden, pattern.global_columns), (-1, self.hidden_size))
        query = self._split(self.query_global(at_global) * self.head_size**-0.5, batch_size, num_global, training)
        # q (x W) = (q W') x, and P (x W) = (P x) W. Global tokens are few, so they are projected instead of the row.
        rows = ops.concatenate([hidden, ops.ones((batch_size, length, 1), hidden.dtype)], axis=2)  # [B, S, H + 1]
        rows = ops.expand_dims(rows, 1)
        key_weights = ops.swapaxes(self._weights_of_heads(self.key_global), 1, 2)
        query = products_of_heads(query, key_weights)  # [B, N, G, H + 1]
        query = ops.reshape(query, (batch_size, 1, -1, self.hidden_size + 1))
        found = self._attention(training)(query, rows, rows, pattern.key_bias)  # [B, 1, N G, H + 1]
        found = ops.reshape(found, (batch_size, self.num_heads, num_global, self.hidden_size + 1))
        found = products_of_heads(found, self._weights_of_heads(self.value_global))  # [B, N, G, D]
        found = layouts_for(training).swap_middle_axes(found, (batch_size, self.num_heads, num_global))
        found = ops.reshape(found, (batch_size, num_global, self.hidden_size))
        is_global = ops.expand_dims(pattern.global_numbers >= 0, 2)
        return ops.where(is_global, vectors_at(found, ops.maximum(pattern.global_numbers, 0)), gathered)

    def _weights_of_heads(self, dense):
        """Returns the kernel of a dense layer, and its bias as the last row, for each head: `[N, H + 1, D]`."""
        weights = ops.concatenate([ops.convert_to_tensor(dense.kernel), ops.expand_dims(dense.bias, 0)], axis=0)
        weights = ops.reshape(ops.cast(weights, self.compute_dtype), (-1, self.num_heads, self.head_size))
        return ops.swapaxes(weights, 0, 1)


@keras.saving.register_keras_serializable(package="keras_bert")
class SparseBlockAttention(BlockSelfAttention):
    """BigBird's attention: each block attends to itself, its neighbours, the first, the last and some random blocks.

    The first and the last block of a row attend to all its tokens.

    Call arguments:
        attention_bias: `SparseBlocks`, or the bias of full attention.

    Reference: Zaheer et al., 2020, section 2 and appendix D.
    """

    def _attend_blocks(self, query, key, value, pattern: SparseBlocks, training):
        attention = self._attention(training)
        numbers = ops.maximum(pattern.numbers, 0)
        keys, values = (chosen_blocks(blocks, numbers) for blocks in (key, value))
        gathered = block_attention(query, keys, values, pattern.bias, attention)
        batch_size, num_blocks, num_heads, block_size, width = ops.shape(query)
        # The first and the last block attend to all keys.
        ends = ops.concatenate([ops.zeros_like(pattern.last_block), pattern.last_block], axis=1)  # [B, 2]
        ends = ends + ops.expand_dims(ops.arange(batch_size, dtype="int32") * num_blocks, 1)
        at_ends = ops.take(ops.reshape(query, (-1, num_heads, block_size, width)), ends, axis=0)
        at_ends = ops.reshape(ops.swapaxes(at_ends, 1, 2), (batch_size, num_heads, 2 * block_size, width))
        all_keys, all_values = (
            ops.reshape(ops.swapaxes(blocks, 1, 2), (batch_size, num_heads, num_blocks * block_size, width))
            for blocks in (key, value)
        )
        found = attention(at_ends, all_keys, all_values, pattern.key_bias)
        found = ops.reshape(found, (batch_size, num_heads, 2, block_size, width))
        first, last = (ops.expand_dims(found[:, :, number], 1) for number in range(2))
        columns = ops.reshape(ops.arange(num_blocks, dtype="int32"), (1, -1, 1, 1, 1))
        is_last = ops.equal(columns, ops.reshape(pattern.last_block, (-1, 1, 1, 1, 1)))
        return ops.where(ops.equal(columns, 0), first, ops.where(is_last, last, gathered))


@keras.saving.register_keras_serializable(package="keras_bert")
class WindowBlock(TransformerBlock):
    """One layer of Longformer: a `TransformerBlock` with `WindowAttention`."""

    attention_class = WindowAttention

    def dense_layers(self) -> dict[str, tuple[keras.layers.Dense, ...]]:
        # The other two global layers are not called: their weights multiply the global tokens.
        layers = super().dense_layers()
        return {**layers, "attention": (*layers["attention"], self.attention.query_global)}


@keras.saving.register_keras_serializable(package="keras_bert")
class SparseBlock(TransformerBlock):
    """One layer of BigBird: a `TransformerBlock` with `SparseBlockAttention`."""

    attention_class = SparseBlockAttention
