"""Selects the parts of a model to train: freezing, and LoRA, which trains small matrices beside the large ones."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_bert.models.encoder_base import encoder_of
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole

# The parts of a block that LoRA can train, see `TransformerBlock.dense_layers`.
LORA_PARTS = ("attention", "feed_forward")
# Keras' names of the two matrices.
LORA_WEIGHTS = ("lora_kernel_a", "lora_kernel_b")


def freeze(model: keras.Model, *, embeddings: bool = False, num_layers: int = 0, whole_encoder: bool = False) -> None:
    """Freezes parts of the encoder: training does not change their weights. Call it before `compile`.

    Frozen parts still apply dropout.

    Args:
        model: a task model, or a `BertEncoder`.
        embeddings: whether to freeze the embeddings of tokens, positions and segments, and their LayerNorm.
        num_layers: the number of layers to freeze, counted from the embeddings; above 0, the embeddings are frozen too.
        whole_encoder: whether to freeze embeddings, all layers and the pooler, so that only the head is trained.

    Raises:
        InputError: the encoder has fewer than `num_layers` layers, or frozen layers share weights with trained ones.

    Example:
        freeze(model, num_layers=8)
        model.compile(optimizer=AdamW(2e-5))
    """
    encoder = encoder_of(model)
    blocks = encoder.blocks_in_order()
    if not 0 <= num_layers <= len(blocks):
        raise InputError(
            f"Between 0 and {len(blocks)} layers can be frozen, the layers of the encoder. Received: {num_layers}"
        )
    if whole_encoder:
        encoder.trainable = False
        return
    trained = {id(block) for block in blocks[num_layers:]}
    if any(id(block) in trained for block in blocks[:num_layers]):
        raise InputError(
            f"The first {num_layers} of {len(blocks)} layers share weights with later ones, so they cannot be frozen "
            "alone. Freeze the embeddings only, all layers, or the layers of whole groups."
        )
    if embeddings or num_layers:
        encoder.embeddings.trainable = False
    for block in blocks[:num_layers]:
        block.trainable = False


def enable_lora(
    model: keras.Model, rank: int, *, alpha: float | None = None, parts: Sequence[str] = ("attention",)
) -> None:
    """Trains two small matrices beside each kernel instead of the kernel. Call it before `compile`.

    A kernel W becomes W + alpha / rank * A B, by Keras' own `Dense.enable_lora`: A `[in, rank]` is random, B
    `[rank, out]` starts at 0. The rest of the encoder is frozen except for the pooler, which is trained like the head:
    many checkpoints have no pooler, or one of another task. `save_pretrained` and `export_for_serving` write
    W + alpha / rank * A B as the kernel, so they write an ordinary model.

    Args:
        model: a task model, or a `BertEncoder`.
        rank: the columns of A and rows of B, usually 4 to 16.
        alpha: see above; by default `rank`, so that alpha / rank is 1.
        parts: `attention` (query, key, value, output), `feed_forward` (the two dense layers after it), or both.

    Raises:
        InputError: the rank is below 1 or above the width of a kernel, a part is unknown, or LoRA is already enabled.

    Example:
        enable_lora(model, rank=8)
        model.compile(optimizer=AdamW(5e-4))

    Reference: Hu et al., 2021, arXiv 2106.09685.
    """
    parts = (parts,) if isinstance(parts, str) else tuple(parts)
    unknown = [part for part in parts if part not in LORA_PARTS]
    if unknown or not parts:
        raise InputError(
            f"parts must be one or more of {', '.join(LORA_PARTS)}. Received: {', '.join(unknown) or 'none'}"
        )
    if lora_layers(model):
        raise InputError("LoRA is already enabled. To use another rank, load the model again.")
    layers = _dense_layers(model, parts)
    if not layers:
        raise InputError("A static model has no layers for LoRA.")
    widest = min(min(layer.kernel.shape) for layer in layers)
    check_whole("rank", rank, at_least=1, at_most=widest)
    encoder = encoder_of(model)
    for part in (layer for layer in encoder.layers if layer is not getattr(encoder, "pooler", None)):
        # Not `part.trainable = False`, which would freeze the new matrices too.
        for weight in part.weights:
            weight.trainable = False
    for layer in layers:
        layer.enable_lora(rank, lora_alpha=alpha)


def lora_layers(model) -> list:
    """Returns the dense layers of a model that LoRA is enabled in."""
    return [layer for layer in _dense_layers(model, LORA_PARTS) if layer.lora_enabled]


def count_trained(model) -> tuple[int, int]:
    """Returns the number of trained parameters of a model and the number of all its parameters."""

    def total(weights):
        return sum(int(np.prod(weight.shape)) for weight in weights)

    return total(model.trainable_weights), total(model.weights)


def what_is_trained(model) -> str:
    """Returns a sentence: how many parameters are trained, and why the others are not; "" if all are trained."""
    trained, all_weights = count_trained(model)
    if trained == all_weights:
        return ""
    pooler = None if model.uses_pooler else getattr(model.encoder, "pooler", None)
    unused = count_trained(pooler)[1] if pooler else 0
    frozen = all_weights - trained - unused
    reasons = [f"{unused:,} are the pooler's, which a {type(model).__name__} does not use"] if unused else []
    reasons += [f"{frozen:,} stay as they are, as the options say (freezing or LoRA)"] if frozen else []
    return f"{trained:,} of {all_weights:,} numbers are trained ({trained / all_weights:.1%}): {'; '.join(reasons)}"


def _dense_layers(model, parts: Sequence[str]) -> list:
    """Returns the dense layers of these parts of all blocks, each layer once."""
    layers = [
        layer for block in encoder_of(model).blocks_in_order() for part in parts for layer in block.dense_layers()[part]
    ]
    return list(dict.fromkeys(layers))
