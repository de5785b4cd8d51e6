"""Which parts of a model are trained: freezing, and LoRA, which trains small matrices beside the large ones."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_bert.models.encoder_base import encoder_of
from keras_bert.program.errors import InputError

# Where LoRA goes: parts of a block, see `TransformerBlock.dense_layers`.
LORA_PARTS = ("attention", "feed_forward")
# What Keras calls the two matrices of a layer.
LORA_WEIGHTS = ("lora_kernel_a", "lora_kernel_b")


def freeze(model, *, embeddings: bool = False, num_layers: int = 0, whole_encoder: bool = False) -> None:
    """Keeps parts of the encoder as they are in training; call it before `compile`.

    Dropout acts in frozen parts too.

    Args:
        model: a task model, or a `BertEncoder`.
        embeddings: the tables of tokens, positions and segments, and their LayerNorm.
        num_layers: this many layers from the embeddings on; the embeddings are frozen with them.
        whole_encoder: embeddings, all layers and the pooler. What is trained is the head.

    Raises:
        InputError: the encoder has fewer layers, or layers to freeze share weights with layers to train.

    Example:
        freeze(model, num_layers=8)
        model.compile(optimizer=AdamW(2e-5))
    """
    encoder = encoder_of(model)
    blocks = encoder.blocks_in_order()
    if not 0 <= num_layers <= len(blocks):
        raise InputError(f"The encoder has {len(blocks)} layers. Received: freeze {num_layers} of them")
    if whole_encoder:
        encoder.trainable = False
        return
    trained = {id(block) for block in blocks[num_layers:]}
    if any(id(block) in trained for block in blocks[:num_layers]):
        raise InputError(
            f"The first {num_layers} of {len(blocks)} layers share weights with later ones, so they cannot be frozen "
            "by themselves. Freeze the embeddings, all layers, or as many layers as whole groups have."
        )
    if embeddings or num_layers:
        encoder.embeddings.trainable = False
    for block in blocks[:num_layers]:
        block.trainable = False


def enable_lora(model, rank: int, *, alpha: float | None = None, parts: Sequence[str] = ("attention",)) -> None:
    """Trains two matrices of `rank` columns and rows beside each kernel of the encoder's layers, and not the kernel.

    A kernel W becomes W + alpha / rank * A B, by Keras' own `Dense.enable_lora`: A `[in, rank]` is random, B
    `[rank, out]` starts at 0. All else in the encoder is frozen but the pooler, which belongs to the head here: on
    checkpoints of masked language models it is new or of another task. `save_pretrained` and `export_for_serving` write
    W + alpha / rank * A B, so what they write is an ordinary model. Call it before `compile`.

    Args:
        model: a task model, or a `BertEncoder`.
        rank: 4 to 16 is usual.
        alpha: the default is `rank`, a factor of 1.
        parts: `attention` (query, key, value, output), `feed_forward` (the two dense layers after it), or both.

    Raises:
        InputError: the rank is below 1 or above the width of a kernel, a part is not known, or LoRA is on already.

    Example:
        enable_lora(model, rank=8)
        model.compile(optimizer=AdamW(5e-4))

    Reference: Hu et al., 2021, arXiv 2106.09685.
    """
    parts = (parts,) if isinstance(parts, str) else tuple(parts)
    unknown = [part for part in parts if part not in LORA_PARTS]
    if unknown or not parts:
        raise InputError(f"LoRA goes to {' and '.join(LORA_PARTS)}. Received: {', '.join(unknown) or 'nothing'}")
    if lora_layers(model):
        raise InputError("LoRA is on already. Load the model anew to give it another rank.")
    layers = _dense_layers(model, parts)
    widest = min(min(layer.kernel.shape) for layer in layers)
    if not 1 <= rank <= widest:
        raise InputError(f"The rank of LoRA must be between 1 and {widest}, the width of the kernels. Received: {rank}")
    encoder = encoder_of(model)
    for part in (encoder.embeddings, *encoder.blocks_in_order()):
        # Not `part.trainable = False`: that would hold for the new matrices as well.
        for weight in part.weights:
            weight.trainable = False
    for layer in layers:
        layer.enable_lora(rank, lora_alpha=alpha)


def lora_layers(model) -> list:
    """Returns the dense layers of a model that have LoRA."""
    return [layer for layer in _dense_layers(model, LORA_PARTS) if layer.lora_enabled]


def merged_kernel(layer) -> np.ndarray:
    """Returns the kernel of a layer with LoRA as an ordinary one: W + alpha / rank * A B, in the dtype of W."""
    kernel, a, b = (
        ops.convert_to_numpy(weight) for weight in (layer._kernel, layer.lora_kernel_a, layer.lora_kernel_b)
    )
    # In float64, so that the only rounding is that of the sum.
    product = a.astype(np.float64) @ b.astype(np.float64)
    return (kernel.astype(np.float64) + layer.lora_alpha / layer.lora_rank * product).astype(kernel.dtype)


def count_trained(model) -> tuple[int, int]:
    """Returns how many numbers of a model are trained, and how many it has."""

    def total(weights):
        return sum(int(np.prod(weight.shape)) for weight in weights)

    return total(model.trainable_weights), total(model.weights)


def what_is_trained(model) -> str:
    """Returns, in words, how many numbers of a model are trained and why the others are not; "" if all are."""
    trained, all_weights = count_trained(model)
    if trained == all_weights:
        return ""
    unused = 0 if model.uses_pooler else count_trained(model.encoder.pooler)[1]
    frozen = all_weights - trained - unused
    reasons = [f"{unused:,} are the pooler's, which a {type(model).__name__} does not use"] if unused else []
    reasons += [f"{frozen:,} stay as they are, as the options say (freezing or LoRA)"] if frozen else []
    return f"{trained:,} of {all_weights:,} numbers are trained ({trained / all_weights:.1%}): {'; '.join(reasons)}"


def _dense_layers(model, parts: Sequence[str]) -> list:
    """Returns the dense layers of these parts of the blocks, each layer once."""
    layers = [
        layer for block in encoder_of(model).blocks_in_order() for part in parts for layer in block.dense_layers()[part]
    ]
    return list(dict.fromkeys(layers))
