"""`XLNetEncoder`: XLNet, with relative attention, a memory, and a second stream that predicts tokens."""

import dataclasses
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert.accelerate.block_runner import block_runner, run_blocks
from keras_bert.encoders.xlnet.config import XLNetConfig
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.gathering import flat_indices_of, vectors_at
from keras_bert.layers.heads import Pooler
from keras_bert.layers.numbered_mask import MASKED, attention_bias, columns_with_first_last
from keras_bert.layers.relative_attention import RelativeBlock, distance_vectors
from keras_bert.layers.token_embeddings import TokenEmbeddings
from keras_bert.models.bert_layers import make_block
from keras_bert.models.encoder_base import PACKING, POOLED_OUTPUT, SEGMENTS, UNPADDING, Encoder, Tokens
from keras_bert.records import features

# The segment of [CLS] is neither that of the first nor that of the second text.
_CLS_SEGMENT = 2


@keras.saving.register_keras_serializable(package="keras_bert")
class XLNetEncoder(Encoder):
    """The encoder of XLNet, with the summary of a row as the pooler.

    XLNet's rows end with [CLS]: `a <sep> b <sep> <cls>`. This encoder takes rows as all encoders here do, [CLS] first,
    and computes those of XLNet: it moves each sequence's first token behind its last one, gives it a segment of its
    own, and returns the vectors in the order of the inputs. Attention depends on the distances between columns, so
    padding on the left or on the right does not change answers, and `position_ids` are ignored.

    Args:
        config: an `XLNetConfig`.
        **arguments: those of `Encoder`.

    Call arguments:
        inputs, training: as for `BertEncoder`.

    Returns:
        dictionary, as `BertEncoder` returns it. `pooled_output` is made from the first token that is not padding.

    Reference: Yang et al., 2019, arXiv 1906.08237; zihangdai/xlnet `modeling.py`, `transformer_xl`.
    """

    supports = (SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT)
    has_positions = False
    _random_outputs = "its pooled_output is random (its sequence_output is not)"

    def __init__(self, config: XLNetConfig, **arguments):
        super().__init__(config, **arguments)
        self.embeddings = TokenEmbeddings(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            dropout=config.hidden_dropout_prob,
            layer_norm_epsilon=None,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name="embeddings",
        )
        self.blocks = [
            make_block(config, self.dtype_policy, f"layer_{index}", RelativeBlock)
            for index in range(config.num_hidden_layers)
        ]
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.pooler = Pooler(config.initializer_range, config.pooler_act, dtype=self.dtype_policy, name="pooler")
        self.build()

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build((None, None))
        for layer in (*self.blocks, self.pooler):
            layer.build(hidden_shape)

    def read(self, inputs) -> "XLNetTokens":
        """Returns the tokens in XLNet's order of columns."""
        tokens = super().read(inputs)
        columns, origins, is_first = columns_with_first_last(tokens.sequences)
        first = tokens.cls_positions
        if first is None:
            first = ops.argmax(ops.cast(tokens.sequences > 0, "int32"), axis=1)
            first = ops.expand_dims(ops.cast(first, "int32"), 1)
        moved = {
            "ids": tokens.ids,
            "segments": ops.where(is_first, _CLS_SEGMENT, tokens.segments),
            "sequences": tokens.sequences,
        }
        moved = {name: ops.take_along_axis(values, origins, axis=1) for name, values in moved.items()}
        moved["vectors"] = None if tokens.vectors is None else vectors_at(tokens.vectors, origins)
        return XLNetTokens(**{**vars(tokens), **moved}, columns=columns, origins=origins, first=first)

    def block_inputs(self, tokens, kind, query_columns=None, training=False) -> tuple:
        bias, memory = attention_bias(tokens.sequences), None
        return *self._relative_inputs(tokens.segments, tokens.segments, bias, training), memory

    def takes_query_columns(self, tokens) -> bool:
        return False

    def run(self, tokens, query_columns=None, flat_indices=None, training=False) -> tuple[list, list]:
        """As `Encoder.run`. Columns, indices and the returned vectors are in the order of the inputs."""
        if query_columns is not None:
            query_columns = ops.take_along_axis(tokens.columns, query_columns, axis=1)
        elif flat_indices is not None:
            flat_indices = ops.take(ops.reshape(flat_indices_of(tokens.columns, tokens.ids), (-1,)), flat_indices)
        states, attentions = super().run(tokens, query_columns, flat_indices, training)
        if query_columns is not None or flat_indices is not None:
            return states, attentions
        returned = states if self.output_hidden_states else states[-1:]
        return [vectors_at(state, tokens.columns) for state in returned], self._in_order(attentions, tokens.columns)

    def _in_order(self, attentions: list, columns) -> list:
        """Returns attentions `[B, N, S, S]` whose rows and columns are in the order of the inputs."""
        if not attentions:
            return attentions
        queries, keys = ops.expand_dims(columns, (1, 3)), ops.expand_dims(columns, (1, 2))
        return [
            ops.take_along_axis(ops.take_along_axis(values, queries, axis=2), keys, axis=3) for values in attentions
        ]

    def first_columns(self, tokens):
        return tokens.first

    def pooler_inputs(self, hidden, tokens):
        vectors = vectors_at(hidden, tokens.first)
        return vectors[:, 0] if tokens.cls_positions is None else vectors

    def vectors_to_predict(self, inputs, columns, head, training=False) -> dict:
        """Computes the second stream in selected columns, whose tokens it does not know.

        Args:
            inputs, columns: as for `vectors_at`. With `prediction_order`, int `[B, S]` (see `order_bias`), a token also
                knows the selected tokens of lower ranks. By default no token knows the selected ones. With `memory`,
                float `[B, L, M, H]`, the inputs of all layers for the M tokens before the row, all tokens know those
                where `memory_mask`, `[B, M]`, is 1; the first `reuse_len` tokens, int `[B, 1]`, go into the next one.
            head: a `QueryHead`.
            training: whether to apply dropout.

        Returns:
            as `vectors_at`; with a memory, also the `memory` and `memory_mask` of the rows that follow.
        """
        self._check_inputs(inputs)
        row, columns = self.read(inputs), ops.cast(columns, "int32")
        all_columns = ops.arange(ops.shape(row.ids)[1], dtype="int32")
        is_target = ops.any(ops.equal(ops.expand_dims(columns, 2), all_columns), axis=1)
        is_target = ops.take_along_axis(is_target, row.origins, axis=1)
        # Unused predictions have column 0: that of [CLS], or padding.
        is_target = is_target & ops.not_equal(row.segments, _CLS_SEGMENT) & (row.sequences > 0)
        order = ops.where(is_target, 0, -1)
        if features.PREDICTION_ORDER in inputs:
            order = ops.cast(inputs[features.PREDICTION_ORDER], "int32")
            order = ops.take_along_axis(order, row.origins, axis=1)
        hidden_tokens = order_bias(order, is_target)
        query_columns = ops.take_along_axis(row.columns, columns, axis=1)
        query_bias = attention_bias(
            row.sequences, query_mask=ops.take_along_axis(row.sequences, query_columns, axis=1)
        ) + ops.take_along_axis(hidden_tokens, ops.expand_dims(query_columns, (1, 3)), axis=2)
        columns_of_first = ops.take_along_axis(row.columns, row.first, axis=1)
        start = ops.cast(head.mask_embedding, self.compute_dtype)
        bias, memory = attention_bias(row.sequences) + with_own_token(hidden_tokens), None
        if features.MEMORY in inputs:
            memory = _Memory(ops.cast(inputs[features.MEMORY], self.compute_dtype), inputs[features.MEMORY_MASK])
            bias, query_bias = memory.before(bias), memory.before(query_bias)
        streams = self.streams(
            row.ids,
            row.segments,
            bias,
            memory=memory and memory.of_layers(),
            queries=ops.zeros((*ops.shape(columns), self.config.hidden_size), self.compute_dtype) + start,
            query_columns=query_columns,
            query_bias=query_bias,
            training=training,
            flat_indices=ops.reshape(flat_indices_of(columns_of_first, row.ids), (-1,)),
            token_vectors=row.vectors,
        )
        first = ops.reshape(streams.states[-1], (*ops.shape(row.first), self.config.hidden_size))
        first = first[:, 0] if row.cls_positions is None else first
        outputs = {"sequence_output": streams.queries, "pooled_output": self.pooler(first, training=training)}
        return outputs | memory.following(streams.states, inputs[features.REUSE_LEN]) if memory else outputs

    def streams(
        self,
        ids,
        segments,
        bias,
        memory=None,
        queries=None,
        query_columns=None,
        query_bias=None,
        flat_indices=None,
        training=False,
        token_vectors=None,
    ) -> "_Streams":
        """Computes rows whose columns are in XLNet's order.

        Args:
            ids, segments: int `[B, S]`.
            bias: float `[B, 1, S, K]` or `[B, 1, 1, K]`: which of the K = M + S keys a token attends to.
            memory: inputs of all layers for the M tokens before the row, a list of `[B, M, H]`; None: M = 0. The
                segment of these tokens is 0.
            queries: float `[B, P, H]`: the second stream, which does not know the tokens in its columns.
            query_columns: int `[B, P]`, the columns of the queries.
            query_bias: as `bias`, `[B, 1, P, K]`, for the queries.
            flat_indices: int `[T]`, the tokens for which the last block computes the first stream; by default all.
            training: whether to apply dropout.
            token_vectors: float `[B, S, H]`, used instead of the embeddings of `ids`.

        Returns:
            the states of the first stream, and the outputs of the second stream, `[B, P, H]`.
        """
        hidden = self.embeddings(ids, training=training, token_vectors=token_vectors)
        length, num_keys = ops.shape(ids)[1], ops.shape(bias)[3]
        key_segments = ops.pad(segments, [[0, 0], [num_keys - length, 0]])
        relative = self._relative_inputs(segments, key_segments, bias, training)
        inputs = [(*relative, remembered) for remembered in memory or [None] * len(self.blocks)]
        if flat_indices is not None:
            inputs[-1] = (*inputs[-1], None, flat_indices)
        if queries is not None:
            queries = self.dropout(ops.cast(queries, self.compute_dtype), training=training)
            query_segments = ops.take_along_axis(segments, query_columns, axis=1)
            is_other_of_queries = _is_other(query_segments, key_segments)
        # The second stream is not recomputed: it has few tokens.
        run_queries = block_runner(len(self.blocks), training, recomputes=False)

        def run_second_stream(block, hidden, bias, distances, is_other, remembered, *selected):
            nonlocal queries
            inputs = (hidden, query_bias, distances, is_other_of_queries, remembered, query_columns, None, queries)
            queries = run_queries(block, *inputs, training=training, return_attention=False)

        before_block = None if queries is None else run_second_stream
        states, _ = run_blocks(
            self.blocks, hidden, inputs, training, self.gradient_checkpointing, before_block=before_block
        )
        return _Streams(states, queries)

    def _relative_inputs(self, segments, key_segments, bias, training) -> tuple:
        """Returns the bias, the vectors of the distances, and which keys have another segment than the query."""
        length, num_keys = ops.shape(segments)[1], ops.shape(key_segments)[1]
        distances = distance_vectors(
            num_keys, length, self.config.hidden_size, self.config.longest_distance, self._logits_dtype
        )
        distances = self.dropout(ops.cast(distances, self.compute_dtype), training=training)
        return bias, distances, _is_other(segments, key_segments)


def _is_other(segments, key_segments):
    """Returns 1 where query and key have different segments, else 0: `[B, F]`, `[B, K]` -> float32 `[B, 1, F, K]`."""
    is_other = ops.not_equal(ops.expand_dims(segments, 2), ops.expand_dims(key_segments, 1))
    return ops.expand_dims(ops.cast(is_other, "float32"), 1)


@dataclasses.dataclass(frozen=True, eq=False)
class XLNetTokens(Tokens):
    """The inputs of an `XLNetEncoder`. `ids`, `segments`, `sequences` and `vectors` are in XLNet's order of columns."""

    columns: Any  # int32 `[B, S]`, the column in XLNet's order of each column of the inputs
    origins: Any  # int32 `[B, S]`, the column of the inputs of each column in XLNet's order
    first: Any  # int32 `[B, K]`, the columns of the inputs where the sequences begin; K = 1 if rows are not packed


class _Memory(NamedTuple):
    """The inputs of all layers for M tokens before a row, `[B, L, M, H]`, and which of them are known, `[B, M]`."""

    vectors: Any
    mask: Any

    def of_layers(self) -> list:
        return [self.vectors[:, layer] for layer in range(self.vectors.shape[1])]

    def before(self, bias):
        """Returns a bias `[B, 1, F, S]` with that of the memory before it: `[B, 1, F, M + S]`."""
        of_memory = ops.expand_dims((1.0 - ops.cast(self.mask, bias.dtype)) * MASKED, (1, 2))
        shape = (*ops.shape(bias)[:3], ops.shape(self.mask)[1])
        return ops.concatenate([ops.broadcast_to(of_memory, shape), bias], axis=3)

    def following(self, states: list, reuse_len) -> dict:
        """Returns the memory after the first `reuse_len` tokens, `[B, 1]`, as `_cache_mem` of zihangdai/xlnet does."""
        columns = ops.cast(reuse_len, "int32") + ops.arange(ops.shape(self.mask)[1], dtype="int32")
        known = ops.concatenate([self.mask, ops.ones_like(states[0][:, :, 0], dtype=self.mask.dtype)], axis=1)
        vectors = [
            vectors_at(ops.concatenate([old, ops.stop_gradient(new)], axis=1), columns)
            for old, new in zip(self.of_layers(), states, strict=False)
        ]
        return {
            features.MEMORY: ops.stack(vectors, axis=1),
            features.MEMORY_MASK: ops.take_along_axis(known, columns, axis=1),
        }


class _Streams(NamedTuple):
    """See `XLNetEncoder.streams`."""

    states: list
    queries: Any


def order_bias(order, is_target):
    """Returns the bias of attention scores that hides tokens from those that are predicted before them.

    Every token knows the tokens without a rank. A target knows those of lower ranks, so not itself; another token with
    a rank knows itself and those of lower ranks.

    Args:
        order: int `[B, S]`, the rank of each token; -1: it has none.
        is_target: bool `[B, S]`, whether a token is to be predicted.

    Returns:
        float32 `[B, 1, S, S]`: 0 where token f may know token s, a large negative number elsewhere.

    Example:
        order [1, 0, -1], all of them targets -> known (x) and hidden (.)
            [[., x, x],
             [., ., x],
             [., ., x]]

    Reference: Yang et al., 2019, section 2.3; zihangdai/xlnet `data_utils.py`, `_local_perm`.
    """
    ranks = ops.where(is_target, order, order + 1)
    is_hidden = ops.expand_dims(ranks, 2) <= ops.expand_dims(order, 1)
    is_hidden = ops.logical_and(is_hidden, ops.expand_dims(order >= 0, 1))
    return ops.expand_dims(ops.cast(is_hidden, "float32") * MASKED, 1)


def with_own_token(bias):
    """Returns a bias `[B, 1, S, S]` of `order_bias` with which every token knows itself too."""
    length = ops.shape(bias)[3]
    return bias * (1.0 - ops.eye(length, dtype=bias.dtype))
