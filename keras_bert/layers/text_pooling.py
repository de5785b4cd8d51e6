"""Pooling: the vectors of a text's tokens -> one vector for the text."""

from collections.abc import Sequence

from keras import ops

from keras_bert.config import POOLINGS

_HIDDEN = -1e9  # replaces the vectors of padding before a maximum is taken


def pool_tokens(hidden, mask, poolings: Sequence[str]):
    """Pools the vectors of each row. Several poolings are joined in the order of `config.POOLINGS`.

    Args:
        hidden: float `[B, S, H]`, a vector for each token. Padding is on the right.
        mask: int `[B, S]`, above 0 for tokens and 0 for padding.
        poolings: one or more of:

            cls                   the vector of the first token
            max                   the largest value of each component
            mean                  the mean of all tokens, [CLS] and [SEP] included
            mean_sqrt_len_tokens  their sum, divided by the square root of their number
            weightedmean          their mean, weighted with their positions 1, 2, 3, ...
            lasttoken             the vector of the last token

    Returns:
        float `[B, H * number of poolings]`.

    Reference: sentence-transformers, `Pooling`.
    """
    mask = ops.cast(mask > 0, hidden.dtype)[:, :, None]  # [B, S, 1]
    count = ops.maximum(ops.sum(mask, axis=1), 1)  # [B, 1]
    pooled = []
    for name in sorted(poolings, key=POOLINGS.index):
        if name == "cls":
            pooled.append(hidden[:, 0])
        elif name == "max":
            pooled.append(ops.max(ops.where(mask > 0, hidden, ops.cast(_HIDDEN, hidden.dtype)), axis=1))
        elif name == "lasttoken":
            last = ops.cast(count, "int32")[:, :, None] - 1
            pooled.append(ops.take_along_axis(hidden, last, axis=1)[:, 0])
        elif name == "weightedmean":
            weights = mask * ops.cast(ops.arange(1, ops.shape(hidden)[1] + 1), hidden.dtype)[None, :, None]
            pooled.append(ops.sum(hidden * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1))
        else:
            total = ops.sum(hidden * mask, axis=1)
            pooled.append(total / (count if name == "mean" else ops.sqrt(count)))
    return pooled[0] if len(pooled) == 1 else ops.concatenate(pooled, axis=-1)


def unit_length(vectors):
    """Divides vectors `[..., D]` by their lengths. A vector of zeros stays one."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-24))
