"""`BertEncoder`: token ids in, one vector for each token and one for each row out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_bert.accelerate.block_runner import block_runner
from keras_bert.config import BertConfig
from keras_bert.layers.embeddings import BertEmbeddings
from keras_bert.layers.heads import Pooler
from keras_bert.layers.numbered_mask import attention_bias, position_ids, without_left_padding
from keras_bert.layers.transformer_block import TransformerBlock
from keras_bert.models.class_names import stored_class
from keras_bert.models.encoder_base import ATTENTION_SCORES, PACKING, POOLED_OUTPUT, SEGMENTS, UNPADDING, Encoder
from keras_bert.records import features


@stored_class
class BertEncoder(Encoder):
    """The bidirectional transformer encoder of the paper, with its pooler.

    The config selects the model family, see `families.py`. If layers share weights (ALBERT), `blocks` has each block
    once and `blocks_in_order()` repeats it.

    Args:
        config: a `BertConfig`.
        output_hidden_states: whether to return the embeddings and the output of every layer.
        output_attentions: whether to return the attention probabilities of every layer.
        unpadded: see `Encoder`.
        tables_of: the `BertEmbeddings` of another encoder whose tables to use, see there. It is not saved.

    Call arguments:
        inputs: dictionary of int `[B, S]`. Other keys are ignored.

            * `input_ids`: token ids.
            * `input_mask`: 0 for padding, n for the n-th sequence packed in the row; see `layers/numbered_mask.py`.
            * `segment_ids`: 0 for the first sentence, 1 for the second. Models with fewer than two segments ignore it.
            * `cls_positions`, int `[B, K]`: optional, for packed rows: the columns where their sequences begin.
            * `position_ids`, int `[B, S]`: optional: positions, counted from 0. By default they count the tokens of
              each sequence in the row.
            * `token_vectors`, float `[B, S, E]`: optional, used instead of the token embeddings of `input_ids`.

        training: whether to apply dropout.

    Returns:
        dictionary:

            * `sequence_output`: `[B, S, H]`. Ignore the vectors of padding: they are computed as in other BERTs, or,
              with `unpadded`, are copies of the row's first vector.
            * `pooled_output`: `[B, H]`, made from the first token of each row; with `cls_positions`, `[B, K, H]`.
            * `hidden_states`: with `output_hidden_states`, list of L + 1 tensors `[B, S, H]`, the embeddings first.
            * `attentions`: with `output_attentions`, list of L tensors `[B, N, S, S]`.

    Example:
        >>> encoder = BertEncoder(BertConfig.from_size("tiny", vocab_size=100))
        >>> ids = np.array([[2, 17, 43, 3, 0]])
        >>> outputs = encoder({"input_ids": ids, "input_mask": ids > 0, "segment_ids": 0 * ids})
        >>> outputs["sequence_output"].shape, outputs["pooled_output"].shape
        (TensorShape([1, 5, 128]), TensorShape([1, 128]))

    Reference: Devlin et al., 2018; Lan et al., 2019, for shared layers.
    """

    supports: Sequence[str] = (SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT, ATTENTION_SCORES)
    block_class = TransformerBlock
    _random_outputs = "its pooled_output is random (its sequence_output is not)"

    def __init__(
        self,
        config: BertConfig,
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        unpadded: bool | str = False,
        tables_of: Any = None,
        **kwargs: Any,
    ):
        self.output_hidden_states = output_hidden_states
        self.output_attentions = output_attentions
        super().__init__(config, unpadded=unpadded, **kwargs)
        if not self.takes_segments:
            self.supports = tuple(part for part in self.supports if part != SEGMENTS)
        self.embeddings = self._new_embeddings(tables_of)
        self.blocks = [self._new_block(f"layer_{index}") for index in range(config.num_blocks)]
        self.pooler = self._new_pooler()
        self.build()

    def _new_embeddings(self, tables_of):
        return make_embeddings(self.config, self.dtype_policy, tables_of)

    def _new_block(self, name):
        return make_block(self.config, self.dtype_policy, name, self.block_class)

    def _new_pooler(self):
        return Pooler(self.config.initializer_range, self.config.pooler_act, dtype=self.dtype_policy, name="pooler")

    def build(self, input_shape: Any = None) -> None:
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build((None, None), (None, None), (None, None))
        for block in self.blocks:
            block.build(hidden_shape)
        self.pooler.build(hidden_shape)

    def blocks_in_order(self) -> list[TransformerBlock]:
        return in_order(self.blocks, self.config)

    def positions_of(self, input_mask: Any) -> Any:
        positions = position_ids(input_mask)
        # Models with a position offset (RoBERTa) do not count padding on the left; BERT does.
        return without_left_padding(positions, input_mask) if self.config.position_offset else positions

    def encode(self, inputs: Any, training: bool = False) -> dict:
        tokens = self._read(inputs)
        states, attentions = self._run(tokens, training=training)
        outputs = {
            "sequence_output": states[-1],
            "pooled_output": self.pooler(states[-1], tokens.cls_positions),
        }
        if self.output_hidden_states:
            outputs["hidden_states"] = states
        if self.output_attentions:
            outputs["attentions"] = attentions
        return outputs

    def encode_at(self, inputs: Any, columns: Any = None, training: bool = False) -> dict:
        tokens = self._read(inputs)
        is_packed = tokens.cls_positions is not None
        first = tokens.cls_positions if is_packed else ops.zeros((ops.shape(tokens.ids)[0], 1), "int32")
        selected = first if columns is None else ops.concatenate([first, ops.cast(columns, "int32")], axis=1)
        states, _ = self._run(tokens, query_columns=selected, training=training)
        num_first = ops.shape(first)[1]
        # In the last block's output, the vectors of the first tokens come first.
        pooled = self.pooler(states[-1], ops.zeros_like(first) + ops.arange(num_first) if is_packed else None)
        outputs = {"pooled_output": pooled}
        if columns is not None:
            outputs["sequence_output"] = states[-1][:, num_first:]
        return outputs

    def encode_flat(self, inputs: Any, flat_indices: Any, training: bool = False) -> Any:
        flat_indices = ops.cast(flat_indices, "int32")
        states, _ = self._run(self._read(inputs), flat_indices=flat_indices, training=training)
        return states[-1]

    def _read(self, inputs) -> "_Tokens":
        """Returns the inputs as int32, with the positions of the tokens."""
        ids, sequences = (ops.cast(inputs[name], "int32") for name in (features.INPUT_IDS, features.INPUT_MASK))
        # Models with fewer than two segments take no `segment_ids`: all tokens are in segment 0.
        segments = ops.cast(inputs[features.SEGMENT_IDS], "int32") if self.takes_segments else ops.zeros_like(ids)
        positions, cls_positions = inputs.get(features.POSITION_IDS), inputs.get(features.CLS_POSITIONS)
        return _Tokens(
            ids,
            self.positions_of(sequences) if positions is None else ops.cast(positions, "int32"),
            segments,
            sequences,
            None if cls_positions is None else ops.cast(cls_positions, "int32"),
            inputs.get(features.TOKEN_VECTORS),
        )

    def _embed(self, tokens: "_Tokens", training):
        """Returns the input of the first block, `[B, S, H]`."""
        positions = tokens.positions + self.config.position_offset if self.config.position_offset else tokens.positions
        return self.embeddings(tokens.ids, positions, tokens.segments, training=training, token_vectors=tokens.vectors)

    def _run(self, tokens: "_Tokens", query_columns=None, flat_indices=None, training=False):
        """Returns the inputs and outputs of all blocks, `[B, S, H]`, and the attentions of each block, or None.

        The last block runs for selected tokens only if there are `query_columns` or `flat_indices`.
        """
        hidden, bias = self._embed(tokens, training), attention_bias(tokens.sequences)
        blocks, states, attentions = self.blocks_in_order(), [hidden], []
        run_block = block_runner(len(blocks), training, self.gradient_checkpointing)
        for number, block in enumerate(blocks, start=1):
            inputs = (hidden, bias)
            if number == len(blocks) and query_columns is not None:
                query_mask = ops.take_along_axis(tokens.sequences, query_columns, axis=1)
                inputs = (hidden, attention_bias(tokens.sequences, query_mask=query_mask), query_columns)
            elif number == len(blocks) and flat_indices is not None:
                inputs = (hidden, bias, None, flat_indices)
            hidden = run_block(block, *inputs, training=training, return_attention=self.output_attentions)
            if self.output_attentions:
                hidden, attention = hidden
                attentions.append(attention)
            states.append(hidden)
        return states, attentions

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_hidden_states": self.output_hidden_states,
            "output_attentions": self.output_attentions,
        }


class _Tokens(NamedTuple):
    """The inputs of an encoder, int32.

    Attributes:
        ids, positions, segments: `[B, S]`; positions are counted from 0.
        sequences: `[B, S]`, the number of each token's sequence in its row; 0 for padding.
        cls_positions: `[B, K]`, the columns where the sequences of packed rows begin, or None.
        vectors: float `[B, S, E]`, used instead of the token embeddings of `ids`, or None.
        is_global: bool `[B, S]`, the global tokens of a `LongEncoder`; None for other encoders.
        most_global: the largest number of global tokens in a row.
    """

    ids: Any
    positions: Any
    segments: Any
    sequences: Any
    cls_positions: Any
    vectors: Any = None
    is_global: Any = None
    most_global: int = 0


def make_embeddings(config: BertConfig, dtype: Any, tables_of: Any = None) -> BertEmbeddings:
    """Returns the embeddings of a config, not yet built."""
    return BertEmbeddings(
        vocab_size=config.vocab_size,
        hidden_size=config.embedding_size,
        max_positions=config.max_position_embeddings,
        num_segments=config.type_vocab_size,
        dropout=config.hidden_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        projected_size=config.hidden_size if config.embedding_projection else None,
        tables_of=tables_of,
        dtype=dtype,
        name="embeddings",
    )


def make_block(config: BertConfig, dtype: Any, name: str, block_class: Callable = TransformerBlock) -> Any:
    """Returns a block of a config, not yet built."""
    return block_class(
        num_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        activation=config.hidden_act,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        dtype=dtype,
        name=name,
    )


def in_order(blocks: list, config: BertConfig) -> list:
    """Returns blocks in the order of computation. If layers share weights (ALBERT), blocks are repeated."""
    layers_of_a_group = config.num_hidden_layers // (config.num_hidden_groups or config.num_hidden_layers)
    groups = [blocks[first : first + config.inner_group_num] for first in range(0, len(blocks), config.inner_group_num)]
    return [block for group in groups for _ in range(layers_of_a_group) for block in group]
