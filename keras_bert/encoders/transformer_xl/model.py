"""`TransformerXL`: a language model with relative attention and a memory of the tokens before a segment."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.block_runner import run_blocks
from keras_bert.encoders.transformer_xl.adaptive_softmax import AdaptiveEmbeddings, AdaptiveSoftmax
from keras_bert.encoders.transformer_xl.config import TransformerXLConfig
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.numbered_mask import MASKED
from keras_bert.layers.relative_attention import RelativeBlock, distance_vectors
from keras_bert.models.bert_layers import make_block
from keras_bert.models.losses import LossTerm
from keras_bert.models.task_model import FeatureModel
from keras_bert.program.errors import InputError
from keras_bert.records import features


@keras.saving.register_keras_serializable(package="keras_bert")
class TransformerXL(FeatureModel):
    """Predicts each token from the ones before it: those of its segment, and vectors of earlier segments, the memory.

    Args:
        config: a `TransformerXLConfig`.
        mem_len, clamp_len, same_length: replace those of the config. A model may remember more than in its training.

    Call arguments:
        inputs: dictionary with `input_ids`, int `[B, S]`. Optional are `memory`, float `[B, L, M, H]`, the vectors of M
            earlier tokens that enter each of the L layers, with `memory_mask`, int `[B, M]`, 0 for those to ignore; and
            `target_ids`, int `[B, S]`, the tokens that follow the inputs, for the loss.
        training: whether to apply dropout.

    Returns:
        dictionary: `sequence_output`, float `[B, S, H]`; without targets `log_probabilities`, float `[B, S, V]`, of the
        tokens that follow; and, if `mem_len` is above 0, `memory` and `memory_mask` for the next segment, with the last
        `mem_len` tokens at most. The memory gets no gradient.

    Raises:
        InputError: the shapes of the inputs do not fit the model.

    Example:
        >>> config = BertConfig.from_size("transformer-xl-enwik8", num_hidden_layers=1, mem_len=4)
        >>> model = TransformerXL(config)
        >>> outputs = model({"input_ids": np.array([[5, 6, 7]])})
        >>> outputs["log_probabilities"].shape, outputs["memory"].shape
        (TensorShape([1, 3, 204]), TensorShape([1, 1, 3, 512]))

    Reference: Dai et al., 2019, arXiv 1901.02860; kimiyoung/transformer-xl `tf/model.py`.
    """

    kind = "TransformerXL"
    config: TransformerXLConfig
    feature_names = (features.INPUT_IDS,)
    has_token_outputs = True
    loss_names = ("next_token_loss",)

    def __init__(
        self,
        config: TransformerXLConfig,
        *,
        mem_len: int | None = None,
        clamp_len: int | None = None,
        same_length: bool | None = None,
        **kwargs: Any,
    ):
        if not isinstance(config, TransformerXLConfig):
            raise InputError(
                f"A TransformerXL is made from a TransformerXLConfig. Received: a {type(config).__name__}. Use a "
                "config or a checkpoint with model_type transfo-xl."
            )
        changes = {"mem_len": mem_len, "clamp_len": clamp_len, "same_length": same_length}
        changes = {name: value for name, value in changes.items() if value is not None}
        super().__init__(config.replace(**changes) if changes else config, **kwargs)
        config = self.config
        self.gradient_checkpointing = False
        clusters = config.clusters
        shape = {
            "sizes": [cluster.size for cluster in clusters],
            "widths": [cluster.width for cluster in clusters],
            "hidden_size": config.hidden_size,
            "initializer_range": config.initializer_range,
            "dtype": self.dtype_policy,
        }
        self.embeddings = AdaptiveEmbeddings(
            is_projected=[cluster.is_projected for cluster in clusters], name="embeddings", **shape
        )
        self.blocks = [
            make_block(config, self.dtype_policy, f"layer_{index}", RelativeBlock, uses_segments=False)
            for index in range(config.num_hidden_layers)
        ]
        own = [cluster.is_projected and not cluster.is_tied for cluster in clusters]
        self.softmax = AdaptiveSoftmax(is_projected=own, name="softmax", **shape)
        self.dropout = Dropout(config.hidden_dropout_prob, dtype=self.dtype_policy, name="dropout")
        self.build()

    def build(self, input_shape: Any = None) -> None:
        self.embeddings.build()
        for block in self.blocks:
            block.build((None, None, self.config.hidden_size))
        self.softmax.build()

    def empty_memory(self, batch_size: int) -> dict[str, Any]:
        """Returns the features `memory` and `memory_mask` before the first segment; nothing for `mem_len` 0."""
        config = self.config
        shape = (batch_size, config.num_hidden_layers, config.mem_len, config.hidden_size)
        mask = ops.zeros((batch_size, config.mem_len), "int32")
        return {features.MEMORY: ops.zeros(shape, self.compute_dtype), features.MEMORY_MASK: mask} if shape[2] else {}

    def blocks_in_order(self) -> list[RelativeBlock]:
        """Returns the blocks, as an `Encoder` does: for freezing and LoRA."""
        return list(self.blocks)

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        ids = ops.cast(inputs[features.INPUT_IDS], "int32")
        memory, mask = inputs.get(features.MEMORY), inputs.get(features.MEMORY_MASK)
        batch_size, length = ops.shape(ids)
        if memory is None:
            memory = ops.zeros((batch_size, len(self.blocks), 0, self.config.hidden_size), self.compute_dtype)
            mask = None
        num_remembered = ops.shape(memory)[2]
        mask = ops.ones((batch_size, num_remembered), "int32") if mask is None else ops.cast(mask, "int32")
        states = self._states(ids, ops.cast(memory, self.compute_dtype), mask, training)
        outputs = {"sequence_output": self.dropout(states.pop(), training=training)}
        if features.TARGET_IDS not in inputs:
            vectors = ops.reshape(outputs["sequence_output"], (-1, self.config.hidden_size))
            scores = self.softmax(vectors, embeddings=self.embeddings)
            outputs["log_probabilities"] = ops.reshape(scores, (batch_size, length, self.config.vocab_size))
        if self.config.mem_len:
            kept = ops.concatenate([ops.cast(memory, self.compute_dtype), ops.stack(states, axis=1)], axis=2)
            mask = ops.concatenate([mask, ops.ones_like(ids)], axis=1)
            outputs[features.MEMORY] = ops.stop_gradient(kept[:, :, -self.config.mem_len :])
            outputs[features.MEMORY_MASK] = mask[:, -self.config.mem_len :]
        return outputs

    def _states(self, ids, memory, mask, training) -> list:
        """Returns the inputs of all layers and the output of the last one, `[B, S, H]` each."""
        length, num_keys = ops.shape(ids)[1], ops.shape(ids)[1] + ops.shape(memory)[2]
        bias = self._bias(mask, length)
        distances = distance_vectors(
            num_keys, length, self.config.hidden_size, self.config.longest_distance, self._logits_dtype
        )
        distances = self.dropout(ops.cast(distances, self.compute_dtype), training=training)
        hidden = self.dropout(self.embeddings(ids), training=training)
        inputs = [(bias, distances, None, memory[:, number]) for number in range(len(self.blocks))]
        return run_blocks(self.blocks, hidden, inputs, training, self.gradient_checkpointing)[0]

    def _bias(self, mask, length):
        """Returns which of the K = M + S keys a token attends to: int `[B, M]` -> float `[B, 1, S, K]`."""
        num_remembered = ops.shape(mask)[1]
        queries = ops.expand_dims(num_remembered + ops.arange(length, dtype="int32"), 1)
        distances = queries - ops.arange(num_remembered + length, dtype="int32")  # [S, K]
        allowed = distances >= 0
        if self.config.same_length:
            allowed = allowed & (distances < self.config.mem_len)
        is_there = ops.pad(mask, [[0, 0], [0, length]], constant_values=1) > 0
        allowed = allowed & ops.expand_dims(is_there, 1)  # [B, S, K]
        return ops.expand_dims(ops.where(allowed, 0.0, MASKED), 1)

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        targets = ops.reshape(ops.cast(x[features.TARGET_IDS], "int32"), (-1,))
        vectors = ops.reshape(y_pred["sequence_output"], (-1, self.config.hidden_size))
        losses = self.softmax(vectors, embeddings=self.embeddings, targets=targets)
        return [LossTerm(self.loss_names[0], ops.sum(losses), ops.sum(ops.ones_like(targets, dtype=losses.dtype)))]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return []

    def _check_inputs(self, inputs) -> None:
        super()._check_inputs(inputs)
        memory = inputs.get(features.MEMORY)
        if memory is not None:
            batch_size = inputs[features.INPUT_IDS].shape[0]
            expected = (batch_size, self.config.num_hidden_layers, None, self.config.hidden_size)
            shape = tuple(memory.shape)
            if len(shape) != 4 or any(
                None not in pair and pair[0] != pair[1] for pair in zip(shape, expected, strict=True)
            ):
                raise InputError(
                    f"{features.MEMORY} must be an array [batch, layers, tokens, hidden size], here {list(expected)}. "
                    f"Received the shape {list(shape)}"
                )
