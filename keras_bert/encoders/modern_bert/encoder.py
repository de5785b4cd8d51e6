"""`ModernBertEncoder`: ModernBERT, with rotary positions and alternating global and local attention."""

from keras import ops

from keras_bert.encoders.modern_bert.config import ModernBertConfig
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.numbered_mask import local_attention_bias
from keras_bert.layers.prediction_head import PredictionHead
from keras_bert.layers.rotary_attention import rotary_angles, rotary_frequencies
from keras_bert.layers.rotary_block import RotaryBlock
from keras_bert.layers.token_embeddings import TokenEmbeddings
from keras_bert.models.class_names import stored_class
from keras_bert.models.encoder_base import ATTENTION_SCORES, PACKING, PADDING, POOLED_OUTPUT, UNPADDING, Encoder


@stored_class
class ModernBertEncoder(Encoder):
    """The encoder of ModernBERT, with the head that its tasks have in common as the pooler.

    Every `global_attn_every_n_layers`-th layer, the first included, attends to all tokens of a sequence. In the other
    layers a token attends to the `local_attention / 2` tokens on each side. There are no segments.

    Args:
        config: a `ModernBertConfig`.
        **arguments: those of `Encoder`.

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

    supports = (PACKING, UNPADDING, POOLED_OUTPUT, ATTENTION_SCORES, PADDING)
    has_token_head = True
    _random_outputs = "its pooled_output is random (its sequence_output is not)"

    def __init__(self, config: ModernBertConfig, **arguments):
        super().__init__(config, **arguments)
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

    def block_kinds(self, tokens) -> tuple[str, ...]:
        return self.config.layer_kinds

    def block_inputs(self, tokens, kind, query_columns=None, training=False) -> tuple:
        """Returns the bias of the attention scores, and the cosines and sines of the positions, of "global" or "local"
        layers."""
        angles = rotary_angles(tokens.positions, self.rotary_frequencies(kind))
        if kind == "global":
            return *super().block_inputs(tokens, kind, query_columns), *angles
        reach = self.config.local_attention // 2
        bias = local_attention_bias(tokens.sequences, tokens.positions, reach, query_columns=query_columns)
        return bias, *angles

    def rotary_frequencies(self, kind: str):
        """Returns the angles of position 1 in "global" or "local" layers, float32 `[D / 2]` in NumPy."""
        config = self.config
        theta = config.global_rope_theta if kind == "global" else config.local_rope_theta
        return rotary_frequencies(config.head_size, theta)

    def run(self, tokens, query_columns=None, flat_indices=None, training=False) -> tuple[list, list]:
        states, attentions = super().run(tokens, query_columns, flat_indices, training)
        states[-1] = self.final_layer_norm(states[-1], training=training)
        return states, attentions

    def first_columns(self, tokens):
        return None if self.config.classifier_pooling == "mean" else super().first_columns(tokens)

    def pooler_inputs(self, hidden, tokens):
        if self.config.classifier_pooling == "cls":
            return super().pooler_inputs(hidden, tokens)
        if tokens.cls_positions is None:
            is_inside = ops.expand_dims(tokens.sequences > 0, 1)  # [B, 1, S]
        else:
            numbers = ops.take_along_axis(tokens.sequences, tokens.cls_positions, axis=1)
            is_inside = ops.equal(ops.expand_dims(numbers, 2), ops.expand_dims(tokens.sequences, 1))  # [B, K, S]
        weights = ops.cast(is_inside, hidden.dtype)
        means = ops.matmul(weights, hidden) / ops.maximum(ops.sum(weights, axis=2, keepdims=True), 1)
        return means[:, 0] if tokens.cls_positions is None else means
