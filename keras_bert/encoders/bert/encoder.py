"""`BertEncoder`: token ids in, one vector for each token and one for each row out."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.layers.heads import Pooler
from keras_bert.layers.numbered_mask import position_ids, without_left_padding
from keras_bert.layers.transformer_block import TransformerBlock
from keras_bert.models.bert_layers import in_order, make_block, make_embeddings
from keras_bert.models.encoder_base import (
    ATTENTION_SCORES,
    PACKING,
    PADDING,
    POOLED_OUTPUT,
    SEGMENTS,
    UNPADDING,
    Encoder,
    Tokens,
)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertEncoder(Encoder):
    """The bidirectional transformer encoder of the paper, with its pooler.

    The config selects the model family, see `registry.Family`. If layers share weights (ALBERT), `blocks` has each
    block once and `blocks_in_order()` repeats it.

    Args:
        config: a `BertConfig`.
        output_hidden_states, output_attentions, unpadded: see `Encoder`.
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

    supports: Sequence[str] = (SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT, ATTENTION_SCORES, PADDING)
    block_class = TransformerBlock
    # Whether an encoder with `tables_of` adds a table of its own to that of tokens, which it does not train.
    adds_to_tables = False
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
        super().__init__(
            config,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
            unpadded=unpadded,
            **kwargs,
        )
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

    def read(self, inputs: Any) -> Tokens:
        tokens = super().read(inputs)
        # Models with fewer than two segments take no `segment_ids`: all tokens are in segment 0.
        return tokens if self.takes_segments else dataclasses.replace(tokens, segments=ops.zeros_like(tokens.ids))

    def embed(self, tokens: Any, training: bool) -> Any:
        positions, offset = tokens.positions, self.config.position_offset
        if offset:  # the row before the first position is that of padding
            positions = ops.where(tokens.sequences > 0, positions + offset, offset - 1)
        return self.embeddings(tokens.ids, positions, tokens.segments, training=training, token_vectors=tokens.vectors)
