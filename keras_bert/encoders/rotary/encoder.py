"""`RotaryEncoder`: encoders with rotary positions, and ModernBERT's, which is one of them."""

import dataclasses

import keras
from keras import ops

from keras_bert.encoders.rotary.attention import LocalBias, rotary_angles, rotary_frequencies
from keras_bert.encoders.rotary.block import RotaryBlock, new_norm
from keras_bert.encoders.rotary.config import BEFORE, CLS, GLOBAL, LATE, RotaryConfig
from keras_bert.layers.heads import Pooler, PredictionHead
from keras_bert.layers.numbered_mask import local_attention_bias, window_bias
from keras_bert.layers.token_embeddings import TokenEmbeddings
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
from keras_bert.records import features

# Rows of more tokens than this are computed in windows, if they have this many times the tokens that a window reaches.
LONG_ROW, MOST_REACHES = 512, 6


@keras.saving.register_keras_serializable(package="keras_bert")
class RotaryEncoder(Encoder):
    """An encoder with rotary positions. The columns of its config say what it computes; see `RotaryConfig`.

    In layers with local attention, a token attends to the `local_attention / 2` tokens on each side. In long rows,
    these layers take time and memory for the windows only.

    Args:
        config: a `RotaryConfig`.
        **arguments: those of `Encoder`.

    Call arguments:
        inputs, training: as for `BertEncoder`.

    Returns:
        dictionary, as `BertEncoder` returns it. If the model has a norm after its last layer, the last of the
        `hidden_states` has passed it, as `sequence_output` has. `pooled_output` is made as `classifier_pooling` says.

    Reference: `encoders/rotary/__init__.py` names the families and their papers.
    """

    supports = (SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT, ATTENTION_SCORES, PADDING)
    _random_outputs = "its pooled_output is random (its sequence_output is not)"

    def __init__(self, config: RotaryConfig, **arguments):
        super().__init__(config, **arguments)
        self.has_token_head = config.head_pooler
        self.embeddings = TokenEmbeddings(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            dropout=config.hidden_dropout_prob if config.layer_dropout else config.embedding_dropout,
            layer_norm_epsilon=config.layer_norm_eps if config.embedding_norm else None,
            initializer_range=config.initializer_range,
            norm_bias=config.norm_bias,
            num_segments=config.type_vocab_size,
            scale=config.hidden_size**0.5 if config.scaled_embeddings else 1.0,
            dtype=self.dtype_policy,
            name="embeddings",
        )
        self.blocks = [self._new_block(index) for index in range(config.num_hidden_layers)]
        if config.final_norm:
            self.final_layer_norm = new_norm(
                config.norm, config.layer_norm_eps, config.norm_bias, dtype=self.dtype_policy, name="final_layer_norm"
            )
        self.pooler = self._new_pooler()
        self.build()

    def _new_block(self, index):
        config = self.config
        return RotaryBlock(
            num_heads=config.num_attention_heads,
            intermediate_size=config.intermediate_size,
            activation=config.hidden_act,
            attention_dropout=config.attention_probs_dropout_prob,
            feed_forward_dropout=config.mlp_dropout,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            output_range=config.initializer_range / (2 * config.num_hidden_layers) ** 0.5,
            normalizes_input=index > 0 or not (config.embedding_norm and config.norm_place == BEFORE),
            attention_bias=config.attention_bias,
            feed_forward_bias=config.mlp_bias,
            norm_bias=config.norm_bias,
            output_bias=config.mlp_output_bias,
            norm=config.norm,
            norm_place=config.norm_place,
            gated=config.gated,
            joined=config.joined_mlp,
            output_dropout=config.hidden_dropout_prob if config.layer_dropout else None,
            attention={
                "head_size": config.head_size,
                "key_value_heads": config.key_value_heads,
                "joined": config.joined_attention,
                "scale": (config.query_pre_attn_scalar or config.head_size) ** -0.5,
                "norm_epsilon": config.layer_norm_eps if config.query_key_norm else None,
            },
            dtype=self.dtype_policy,
            name=f"layer_{index}",
        )

    def _new_pooler(self):
        config = self.config
        if not config.head_pooler:
            return Pooler(config.initializer_range, config.pooler_act, dtype=self.dtype_policy, name="pooler")
        return PredictionHead(
            activation=config.pooler_act,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            use_bias=config.classifier_bias,
            norm_bias=config.norm_bias,
            dtype=self.dtype_policy,
            name="pooler",
        )

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build((None, None))
        final_norm = [self.final_layer_norm] if self.config.final_norm else []
        for layer in (*self.blocks, *final_norm, self.pooler):
            layer.build(hidden_shape)

    def read(self, inputs):
        # Sequences that are packed without padding get their positions, which count their columns.
        counts = features.POSITION_IDS not in inputs or features.CLS_POSITIONS in inputs
        return RotaryTokens(**vars(super().read(inputs)), counts_columns=counts)

    def embed(self, tokens, training):
        return self.embeddings(tokens.ids, tokens.segments, training=training, token_vectors=tokens.vectors)

    def block_kinds(self, tokens) -> tuple[str, ...]:
        return self.config.layer_kinds

    def block_inputs(self, tokens, kind, query_columns=None, training=False) -> tuple:
        """Returns the bias of the attention scores, and the cosines and sines of the positions, of a kind of layers."""
        angles = rotary_angles(tokens.positions, self.rotary_frequencies(kind))
        if kind == GLOBAL:
            return *super().block_inputs(tokens, kind, query_columns, training), *angles
        return self._local_bias(tokens, query_columns), *angles

    def _local_bias(self, tokens, query_columns):
        """Returns the bias of layers with local attention, in one of its forms; see `RotaryAttention`."""
        reach, length = self.config.local_attention // 2, ops.shape(tokens.ids)[1]

        def of_rows():
            return local_attention_bias(tokens.sequences, tokens.positions, reach, query_columns=query_columns)

        def of_windows():
            return window_bias(tokens.sequences, tokens.positions, reach)

        def nothing(*shape):
            return lambda: ops.zeros(shape, "float32")

        is_long = length > max(LONG_ROW, MOST_REACHES * reach)
        if query_columns is not None or not tokens.counts_columns or self.output_attentions or is_long is False:
            return of_rows()
        if is_long is True:
            return of_windows()
        rows = ops.cond(is_long, nothing(1, 1, 1, 1), of_rows)
        return LocalBias(rows, ops.cond(is_long, of_windows, nothing(1, 1, 1, reach, 3 * reach)), is_long)

    def rotary_frequencies(self, kind: str):
        """Returns the angles of position 1 in a kind of layers, float32 `[D / 2]` in NumPy."""
        config = self.config
        theta = config.global_rope_theta if kind == GLOBAL else config.local_rope_theta
        return rotary_frequencies(config.head_size, theta, config.rope_factor)

    def run(self, tokens, query_columns=None, flat_indices=None, training=False) -> tuple[list, list]:
        states, attentions = super().run(tokens, query_columns, flat_indices, training)
        if self.config.final_norm:
            states[-1] = self.final_layer_norm(states[-1], training=training)
        return states, attentions

    def first_columns(self, tokens):
        return super().first_columns(tokens) if self.config.classifier_pooling == CLS else None

    def pooled_vectors(self, hidden, tokens, training):
        if self.config.classifier_pooling == CLS:
            return super().pooled_vectors(hidden, tokens, training)
        if self.config.classifier_pooling == LATE:
            return _means(self.pooler(hidden, training=training), tokens)
        return self.pooler(_means(hidden, tokens), training=training)


def _means(vectors, tokens):
    """Returns the mean of each row, `[B, H]`, or of each sequence of packed rows, `[B, K, H]`."""
    if tokens.cls_positions is None:
        is_inside = ops.expand_dims(tokens.sequences > 0, 1)  # [B, 1, S]
    else:
        numbers = ops.take_along_axis(tokens.sequences, tokens.cls_positions, axis=1)
        is_inside = ops.equal(ops.expand_dims(numbers, 2), ops.expand_dims(tokens.sequences, 1))  # [B, K, S]
    weights = ops.cast(is_inside, vectors.dtype)
    means = ops.matmul(weights, vectors) / ops.maximum(ops.sum(weights, axis=2, keepdims=True), 1)
    return means[:, 0] if tokens.cls_positions is None else means


@dataclasses.dataclass(frozen=True, eq=False)
class RotaryTokens(Tokens):
    """The inputs of a `RotaryEncoder`."""

    counts_columns: bool = True  # whether the positions of a sequence count its columns


@keras.saving.register_keras_serializable(package="keras_bert")
class ModernBertEncoder(RotaryEncoder):
    """The encoder of ModernBERT, with the head that its tasks have in common as the pooler. There are no segments.

    Its arguments, inputs and outputs are those of `RotaryEncoder`.

    Reference: Warner et al., 2024, arXiv 2412.13663.
    """
