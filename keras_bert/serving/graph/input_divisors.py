"""Divides the inputs of dense layers before they are rounded to 8 bits: see `balanced_divisors`."""

import keras
import numpy as np

# A range must not be empty, but a batch may have zeros only.
SMALLEST_RANGE = 1e-30
# Processors without VNNI make the inputs positive and add two products in 16 bits: 2 * 255 * 64 still fits. With 127
# the sums would overflow silently.
LARGEST_OF_KERNELS = 64
_RANDOM_TOKENS = (16, 64)
# In `balanced_divisors` no size is below this part of the median: an input may be 0 for random tokens only.
_SMALLEST_PART = 0.1
_EXPONENT = 0.6


def input_divisors(encoder) -> list[tuple]:
    """Returns the dense layers of an encoder's feed-forward parts, each with the `balanced_divisors` of its inputs.

    A layer behind an activation has None instead: each row of its inputs needs a range of its own, because a few tokens
    have far larger values than the others there. Elsewhere this would gain little for its time.
    """
    blocks = list(dict.fromkeys(encoder.blocks_in_order()))  # layers may share blocks
    parts = [block.dense_layers()["feed_forward"] for block in blocks]
    first = [layer for part in parts for layer in part[::2]]
    divided = [
        (layer, balanced_divisors(sizes, keras.ops.convert_to_numpy(layer.kernel)))
        for layer, sizes in zip(first, _input_sizes(encoder, first), strict=True)
    ]
    return [*divided, *((layer, None) for part in parts for layer in part[1::2])]


def balanced_divisors(largest: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Returns divisors that leave both the inputs and the kernel of a layer their precision.

    In every text, a few inputs of a layer are many times larger than the others, which would then get few integers.
    Large divisors would take the precision from the kernel instead. From SmoothQuant (Xiao et al., 2023, section 4),
    with the exponent that had the smallest error where ranges are computed in each call.

    Args:
        largest: float `[inputs]`, the largest absolute value of each input.
        kernel: float `[inputs, outputs]`.

    Returns:
        float32 `[inputs]`, positive. Their median is 1.
    """
    of_inputs, of_kernel = (
        np.maximum(sizes, _SMALLEST_PART * np.median(sizes) or 1)
        for sizes in (largest, np.abs(kernel).max(axis=1, initial=0))
    )
    divisors = of_inputs**_EXPONENT / of_kernel ** (1 - _EXPONENT)
    return (divisors / np.median(divisors)).astype(np.float32)


def _input_sizes(encoder, layers) -> list[np.ndarray]:
    """Returns the largest absolute value of each input of the layers, `[inputs]`, for rows of random tokens.

    Which inputs are large depends on the weights, not on the text, so random tokens show it.
    """
    found = {}

    def watching(layer):
        call = layer.call

        def watched(inputs, training=None):
            largest = np.abs(keras.ops.convert_to_numpy(inputs)).max(axis=0)
            found[id(layer)] = np.maximum(found.get(id(layer), 0), largest)
            return call(inputs, training=training)

        return watched

    vocabulary = encoder.config.vocab_size
    length = min(_RANDOM_TOKENS[1], encoder.config.max_sequence_length)
    ids = np.random.default_rng(0).integers(vocabulary, size=(_RANDOM_TOKENS[0], length))
    for layer in layers:
        layer.call = watching(layer)
    try:
        encoder({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})
    finally:
        for layer in layers:
            del layer.call
    return [found[id(layer)] for layer in layers]
