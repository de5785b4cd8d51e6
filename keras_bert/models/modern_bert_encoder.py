"""`ModernBertEncoder`: ModernBERT, with rotary positions and alternating global and local attention."""

from typing import Any, NamedTuple

from keras import ops

from keras_bert.accelerate.block_runner import block_runner
from keras_bert.config.modern_bert_config import ModernBertConfig
from keras_bert.layers.gathering import vectors_at
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.numbered_mask import attention_bias, local_attention_bias
from keras_bert.layers.prediction_head import PredictionHead
from keras_bert.layers.rotary_attention import rotary_angles, rotary_frequencies
from keras_bert.layers.rotary_block import RotaryBlock
from keras_bert.layers.token_embeddings import TokenEmbeddings
from keras_bert.models.class_names import stored_class
from keras_bert.models.encoder_base import ATTENTION_SCORES, PACKING, POOLED_OUTPUT, UNPADDING, Encoder
from keras_bert.records import features


@stored_class
class ModernBertEncoder(Encoder):
    """The encoder of ModernBERT, with the head that its tasks have in common as the pooler.

    Every `global_attn_every_n_layers`-th layer, the first included, attends to all tokens of a sequence. In the other
    layers a token attends to the `local_attention / 2` tokens on each side. There are no segments.

    Args:
        config: a `ModernBertConfig`.
        output_hidden_states: whether to return the embeddings and the output of every layer.
        output_attentions: whether to return the attention probabilities of every layer.
        unpadded: see `Encoder`.

    Call arguments:
        inputs, training: as for `BertEncoder`.

    Returns:
        dictionary, as `BertEncoder` returns it. The last of the `hidden_states` has passed the final LayerNorm, as
        `sequence_output` has. `pooled_output` is the head's output for the first token, or for the mean of the tokens
        if `classifier_pooling` is "mean".

    Example:
        >>> config = BertConfig.from_size("modernbert-base", vocab_size=100, num_hidden_layers=2)
        >>> encoder = ModernBertEncoder(config)
        >>> ids = np.array([[2, 17, 43, 3, 0]])
        >>> outputs = encoder({"input_ids": ids, "input_mask": ids > 0})
        >>> outputs["sequence_output"].shape, outputs["pooled_output"].shape
        (TensorShape([1, 5, 768]), TensorShape([1, 768]))

    Reference: Warner et al., 2024, arXiv 2412.13663.
    """

    supports = (PACKING, UNPADDING, POOLED_OUTPUT, ATTENTION_SCORES)
    has_token_head = True
    _random_outputs = "its pooled_output is random (its sequence_output is not)"

    def __init__(
        self, config: ModernBertConfig, *, output_hidden_states=False, output_attentions=False, unpadded=False, **kwargs
    ):
        self.output_hidden_states = output_hidden_states
        self.output_attentions = output_attentions
        super().__init__(config, unpadded=unpadded, **kwargs)
        self.embeddings = TokenEmbeddings(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            dropout=config.embedding_dropout,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            norm_bias=config.norm_bias,
            dtype=self.dtype_policy,
            name="embeddings",
        )
        self.blocks = [
            RotaryBlock(
                num_heads=config.num_attention_heads,
                intermediate_size=config.intermediate_size,
                activation=config.hidden_act,
                attention_dropout=config.attention_probs_dropout_prob,
                feed_forward_dropout=config.mlp_dropout,
                layer_norm_epsilon=config.layer_norm_eps,
                initializer_range=config.initializer_range,
                output_range=config.initializer_range / (2 * config.num_hidden_layers) ** 0.5,
                normalizes_input=index > 0,
                attention_bias=config.attention_bias,
                feed_forward_bias=config.mlp_bias,
                norm_bias=config.norm_bias,
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(config.num_hidden_layers)
        ]
        self.final_layer_norm = LayerNorm(
            config.layer_norm_eps, config.norm_bias, dtype=self.dtype_policy, name="final_layer_norm"
        )
        self.pooler = PredictionHead(
            activation=config.pooler_act,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            use_bias=config.classifier_bias,
            norm_bias=config.norm_bias,
            dtype=self.dtype_policy,
            name="pooler",
        )
        self.build()

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build((None, None))
        for layer in (*self.blocks, self.final_layer_norm, self.pooler):
            layer.build(hidden_shape)

    def blocks_in_order(self) -> list[RotaryBlock]:
        return list(self.blocks)

    def encode(self, inputs, training=False) -> dict:
        tokens = self._read(inputs)
        states, attentions = self._run(tokens, training=training)
        outputs = {"sequence_output": states[-1], "pooled_output": self._pooled(states[-1], tokens, training)}
        if self.output_hidden_states:
            outputs["hidden_states"] = states
        if self.output_attentions:
            outputs["attentions"] = attentions
        return outputs

    def encode_at(self, inputs, columns=None, training=False) -> dict:
        tokens = self._read(inputs)
        if self.config.classifier_pooling == "mean":  # it needs the vectors of all tokens
            states, _ = self._run(tokens, training=training)
            outputs = {"pooled_output": self._pooled(states[-1], tokens, training)}
            return outputs if columns is None else outputs | {"sequence_output": vectors_at(states[-1], columns)}
        is_packed = tokens.cls_positions is not None
        first = tokens.cls_positions if is_packed else ops.zeros((ops.shape(tokens.ids)[0], 1), "int32")
        selected = first if columns is None else ops.concatenate([first, ops.cast(columns, "int32")], axis=1)
        states, _ = self._run(tokens, query_columns=selected, training=training)
        num_first = ops.shape(first)[1]
        pooled = self.pooler(states[-1][:, :num_first], training=training)
        outputs = {"pooled_output": pooled if is_packed else pooled[:, 0]}
        if columns is not None:
            outputs["sequence_output"] = states[-1][:, num_first:]
        return outputs

    def encode_flat(self, inputs, flat_indices, training=False):
        flat_indices = ops.cast(flat_indices, "int32")
        states, _ = self._run(self._read(inputs), flat_indices=flat_indices, training=training)
        return states[-1]

    def _read(self, inputs) -> "_Tokens":
        """Returns the inputs as int32, with the positions of the tokens."""
        ids, sequences = (ops.cast(inputs[name], "int32") for name in (features.INPUT_IDS, features.INPUT_MASK))
        positions, cls_positions = inputs.get(features.POSITION_IDS), inputs.get(features.CLS_POSITIONS)
        return _Tokens(
            ids,
            self.positions_of(sequences) if positions is None else ops.cast(positions, "int32"),
            sequences,
            None if cls_positions is None else ops.cast(cls_positions, "int32"),
            inputs.get(features.TOKEN_VECTORS),
        )

    def _run(self, tokens: "_Tokens", query_columns=None, flat_indices=None, training=False):
        """Returns the inputs and outputs of all blocks, `[B, S, H]`, and the attentions of each block, or None.

        The last of the outputs is normalised. The last block runs for selected tokens only if there are `query_columns`
        or `flat_indices`.
        """
        config = self.config
        hidden = self.embeddings(tokens.ids, training=training, token_vectors=tokens.vectors)
        kinds = {kind: self._attention_inputs(kind, tokens) for kind in set(config.layer_kinds)}
        states, attentions = [hidden], []
        run_block = block_runner(len(self.blocks), training, self.gradient_checkpointing)
        for number, (block, kind) in enumerate(zip(self.blocks, config.layer_kinds, strict=True), start=1):
            inputs = (hidden, *kinds[kind])
            if number == len(self.blocks) and query_columns is not None:
                inputs = (hidden, *self._attention_inputs(kind, tokens, query_columns), query_columns)
            elif number == len(self.blocks) and flat_indices is not None:
                inputs = (*inputs, None, flat_indices)
            hidden = run_block(block, *inputs, training=training, return_attention=self.output_attentions)
            if self.output_attentions:
                hidden, attention = hidden
                attentions.append(attention)
            states.append(hidden)
        states[-1] = self.final_layer_norm(hidden, training=training)
        return states, attentions

    def _attention_inputs(self, kind: str, tokens: "_Tokens", query_columns=None) -> tuple:
        """Returns the bias of the attention scores, and the cosines and sines of the positions, of "global" or "local"
        layers."""
        angles = rotary_angles(tokens.positions, self.rotary_frequencies(kind))
        if kind == "global":
            bias = attention_bias(
                tokens.sequences,
                query_mask=None
                if query_columns is None
                else ops.take_along_axis(tokens.sequences, query_columns, axis=1),
            )
            return bias, *angles
        reach = self.config.local_attention // 2
        bias = local_attention_bias(tokens.sequences, tokens.positions, reach, query_columns=query_columns)
        return bias, *angles

    def rotary_frequencies(self, kind: str):
        """Returns the angles of position 1 in "global" or "local" layers, float32 `[D / 2]` in NumPy."""
        config = self.config
        theta = config.global_rope_theta if kind == "global" else config.local_rope_theta
        return rotary_frequencies(config.head_size, theta)

    def _pooled(self, hidden, tokens: "_Tokens", training):
        """Returns the head's output for each row `[B, H]`, or for each packed sequence `[B, K, H]`."""
        if self.config.classifier_pooling == "cls":
            pooled = hidden[:, 0] if tokens.cls_positions is None else vectors_at(hidden, tokens.cls_positions)
            return self.pooler(pooled, training=training)
        if tokens.cls_positions is None:
            is_inside = ops.expand_dims(tokens.sequences > 0, 1)  # [B, 1, S]
        else:
            numbers = ops.take_along_axis(tokens.sequences, tokens.cls_positions, axis=1)
            is_inside = ops.equal(ops.expand_dims(numbers, 2), ops.expand_dims(tokens.sequences, 1))  # [B, K, S]
        weights = ops.cast(is_inside, hidden.dtype)
        means = ops.matmul(weights, hidden) / ops.maximum(ops.sum(weights, axis=2, keepdims=True), 1)
        pooled = self.pooler(means, training=training)
        return pooled if tokens.cls_positions is not None else pooled[:, 0]

    def get_config(self):
        return {
            **super().get_config(),
            "output_hidden_states": self.output_hidden_states,
            "output_attentions": self.output_attentions,
        }


class _Tokens(NamedTuple):
    """The inputs of the encoder, int32.

    Attributes:
        ids, positions: `[B, S]`; positions are counted from 0.
        sequences: `[B, S]`, the number of each token's sequence in its row; 0 for padding.
        cls_positions: `[B, K]`, the columns where the sequences of packed rows begin, or None.
        vectors: float `[B, S, H]`, used instead of the token embeddings of `ids`, or None.
    """

    ids: Any
    positions: Any
    sequences: Any
    cls_positions: Any
    vectors: Any
