"""`BertEncoder`: token ids in, one vector for each token and one for each row out."""

import keras
from keras import ops

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.accelerate.recomputation import call_recomputed
from keras_bert.accelerate.shared_trace import shared_trace
from keras_bert.config import BertConfig
from keras_bert.layers.embeddings import BertEmbeddings
from keras_bert.layers.gathering import vectors_at
from keras_bert.layers.heads import Pooler
from keras_bert.layers.numbered_mask import attention_bias, position_ids
from keras_bert.layers.transformer_block import TransformerBlock
from keras_bert.models.base import BertModel
from keras_bert.models.class_names import stored_class
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tokenization.user_inputs import holds_texts

# From how many layers on it is quicker to trace one of them and to call it.
FEWEST_SHARING = 3
# A choice of `BertEncoder.unpadded`.
FEW_SHAPES = "few_shapes"


@stored_class
class BertEncoder(BertModel):
    """The bidirectional transformer encoder of the paper, with its pooler.

    Args:
        config: a `BertConfig`.
        output_hidden_states: whether to return what goes into and comes out of every layer.
        output_attentions: whether to return the attention probabilities of every layer.
        unpadded: whether to compute without padding: outside of training the rows of a batch are packed into fewer
            ones, and taken out again. For batches of mixed lengths, on TensorFlow without XLA. `"few_shapes"` rounds
            numbers and lengths of these rows up, as exports do: more padding, and fewer shapes that a process which
            computes for long keeps code for (`unpadding.pack_rows`).

    Call arguments:
        inputs: dictionary of int `[B, S]`:
            `input_ids`: rows of the token table.
            `input_mask`: 0 for padding, n for the n-th sequence packed in the row; see `layers/numbered_mask.py`.
            `segment_ids`: 0 for the first sentence, 1 for the second.
            `cls_positions`, int `[B, K]`, for packed rows: where their sequences begin. It may be left out.
            Other keys are ignored.
        training: whether dropout acts.
        columns: int `[B, F]`, the tokens whose vectors are returned; all by default. The last layer then runs for them
            and for the first tokens only, and neither hidden states nor attentions are returned.
        pooled_only: whether to return `pooled_output` only: the same as `columns` with F = 0.
        flat_indices: int `[T]`, counted through all rows of the batch: the only tokens whose vectors are returned. The
            dense layers behind the last attention run for them only. XLA would compile anew for every T.

    Returns:
        dictionary:
            `sequence_output`: `[B, S, H]`, `[B, F, H]` with `columns`, `[T, H]` with `flat_indices`. Vectors of padding
                are those of other BERTs, with `unpadded` that of their row's first token, and mean nothing.
            `pooled_output`: `[B, H]`, made from the first token of each row; with `cls_positions`, `[B, K, H]`; not
                with `flat_indices`.
            `hidden_states`: list of L + 1 tensors `[B, S, H]`, the embeddings first, if asked for.
            `attentions`: list of L tensors `[B, N, S, S]`, if asked for.

    Example:
        >>> encoder = BertEncoder(BertConfig.from_size("tiny", vocab_size=100))
        >>> ids = np.array([[2, 17, 43, 3, 0]])
        >>> outputs = encoder({"input_ids": ids, "input_mask": ids > 0, "segment_ids": 0 * ids})
        >>> outputs["sequence_output"].shape, outputs["pooled_output"].shape
        (TensorShape([1, 5, 128]), TensorShape([1, 128]))

    Attributes:
        gradient_checkpointing: whether training keeps what goes into a layer only, and computes the layer again in the
            backward pass: less memory, more time, the same result but for rounding. It is no part of the model's
            config.

    Reference: Devlin et al., 2018.
    """

    gradient_checkpointing = False
    _random_outputs = "its pooled_output is random (its sequence_output is not)"

    def __init__(
        self, config: BertConfig, *, output_hidden_states=False, output_attentions=False, unpadded=False, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.output_hidden_states = output_hidden_states
        self.output_attentions = output_attentions
        self.unpadded = unpadded
        self.embeddings = BertEmbeddings(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_position_embeddings,
            num_segments=config.type_vocab_size,
            dropout=config.hidden_dropout_prob,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name="embeddings",
        )
        self.blocks = [
            TransformerBlock(
                num_heads=config.num_attention_heads,
                intermediate_size=config.intermediate_size,
                activation=config.hidden_act,
                dropout=config.hidden_dropout_prob,
                attention_dropout=config.attention_probs_dropout_prob,
                layer_norm_epsilon=config.layer_norm_eps,
                initializer_range=config.initializer_range,
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(config.num_hidden_layers)
        ]
        self.pooler = Pooler(config.initializer_range, dtype=self.dtype_policy, name="pooler")
        self.build()

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build((None, None), (None, None), (None, None))
        for block in self.blocks:
            block.build(hidden_shape)
        self.pooler.build(hidden_shape)

    @property
    def unpadded(self) -> bool | str:
        """Whether batches are computed without padding. It can be set; `InputError`: this encoder cannot do it."""
        return self._unpadded

    @unpadded.setter
    def unpadded(self, unpadded: bool | str):
        if unpadded not in (False, True, FEW_SHAPES):
            raise InputError(f"unpadded must be False, True or {FEW_SHAPES!r}. Received: {unpadded!r}")
        if unpadded and not on_tensorflow():
            raise InputError(f"unpadded={unpadded!r} needs Keras on TensorFlow. It runs on {keras.backend.backend()}.")
        if unpadded and self.output_attentions:
            raise InputError("An encoder computes without padding or returns attentions. Set one of the two to False.")
        self._unpadded = unpadded
        # Keras otherwise compiles `predict` with XLA, which needs to know all shapes beforehand.
        self.supports_jit = not unpadded

    def predict(self, x, *args, **kwargs):
        """Returns outputs for features, as `keras.Model` does."""
        if holds_texts(x):
            raise InputError("A BertEncoder takes features. Of texts: keras_bert.sentence_embeddings(encoder, texts).")
        return super().predict(x, *args, **kwargs)

    def call(self, inputs, training=False, columns=None, pooled_only=False, flat_indices=None):
        input_ids, input_mask, segment_ids = (ops.cast(inputs[name], "int32") for name in self.feature_names)
        positions, cls_positions = position_ids(input_mask), inputs.get(features.CLS_POSITIONS)
        flat_indices = None if flat_indices is None else ops.cast(flat_indices, "int32")
        if self.unpadded and not training and cls_positions is None:
            outputs = self._call_unpadded(input_ids, input_mask, positions, segment_ids, columns, pooled_only)
            if flat_indices is None:
                return outputs
            return {"sequence_output": vectors_at(outputs["sequence_output"], flat_indices)}
        if flat_indices is not None:
            states, _ = self._run_layers(input_ids, input_mask, positions, segment_ids, flat_indices, training)
            return {"sequence_output": states[-1]}
        if columns is None and not pooled_only:
            states, attentions = self._run_layers(input_ids, input_mask, positions, segment_ids, None, training)
            return self._outputs(states, attentions, self.pooler(states[-1], cls_positions))

        is_packed = cls_positions is not None
        first = ops.cast(cls_positions, "int32") if is_packed else ops.zeros((ops.shape(input_ids)[0], 1), "int32")
        selected = ops.concatenate([first, ops.cast(columns, "int32")], axis=1) if columns is not None else first
        states, _ = self._run_layers(input_ids, input_mask, positions, segment_ids, selected, training)
        num_first = ops.shape(first)[1]
        pooled = self.pooler(states[-1], ops.zeros_like(first) + ops.arange(num_first) if is_packed else None)
        return {"pooled_output": pooled} | ({} if pooled_only else {"sequence_output": states[-1][:, num_first:]})

    def _call_unpadded(self, input_ids, input_mask, positions, segment_ids, columns, pooled_only):
        from keras_bert.accelerate.unpadding import pack_rows, unpack

        few_shapes = self.unpadded == FEW_SHAPES
        rows = (input_ids, input_mask, positions, segment_ids)
        packed = pack_rows(*rows, self.config.hidden_size, few_shapes=few_shapes)
        states, _ = self._run_layers(*packed[:4], packed.first_columns if pooled_only else None, training=False)
        if pooled_only:
            first = unpack(states[-1], packed.first_flat_indices)  # [B, H]
            return {"pooled_output": self.pooler(first[:, None])}
        states = [unpack(state, packed.flat_indices) for state in states]
        outputs = self._outputs(states, None, self.pooler(states[-1]))
        if columns is None:
            return outputs
        return {
            "sequence_output": vectors_at(outputs["sequence_output"], columns),
            "pooled_output": outputs["pooled_output"],
        }

    def _run_layers(self, input_ids, input_mask, positions, segment_ids, selected, training):
        """Returns what goes into and comes out of every layer, and the attentions.

        The last layer runs for the selected tokens only, columns `[B, F]` or flat indices `[T]`; None: for all.
        """
        hidden = self.embeddings(input_ids, positions, segment_ids, training=training)
        bias = attention_bias(input_mask)
        states, attentions = [hidden], []
        call = call_recomputed if training and self.gradient_checkpointing else TransformerBlock.__call__
        if training and len(self.blocks) >= FEWEST_SHARING:
            call = shared_trace(call)
        for block in self.blocks:
            inputs = (hidden, bias)
            if selected is not None and block is self.blocks[-1]:
                if len(selected.shape) == 2:
                    bias = attention_bias(input_mask, query_mask=ops.take_along_axis(input_mask, selected, axis=1))
                inputs = hidden, bias, selected
            outputs = call(block, *inputs, training=training, return_attention=self.output_attentions)
            hidden, attention = outputs if self.output_attentions else (outputs, None)
            states.append(hidden)
            attentions.append(attention)
        return states, attentions

    def _outputs(self, states, attentions, pooled):
        outputs = {"sequence_output": states[-1], "pooled_output": pooled}
        if self.output_hidden_states:
            outputs["hidden_states"] = states
        if self.output_attentions:
            outputs["attentions"] = attentions
        return outputs

    def get_config(self):
        return {
            **super().get_config(),
            "output_hidden_states": self.output_hidden_states,
            "output_attentions": self.output_attentions,
            "unpadded": self.unpadded,
        }
