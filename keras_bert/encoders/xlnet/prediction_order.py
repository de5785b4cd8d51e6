"""The order in which tokens are predicted: who knows whom."""

from keras import ops

from keras_bert.layers.numbered_mask import MASKED


def order_bias(order, is_target):
    """Returns the bias of attention scores that hides tokens from those that are predicted before them.

    Every token knows the tokens without a rank. A target knows those of lower ranks, so not itself; another token with
    a rank knows itself and those of lower ranks.

    Args:
        order: int `[B, S]`, the rank of each token; -1: it is not predicted, and all others know it.
        is_target: bool `[B, S]`, whether a token is to be predicted.

    Returns:
        float32 `[B, 1, S, S]`: 0 where token f may know token s, a large negative number elsewhere.

    Example:
        order [1, 0, -1], all of them targets -> known (x) and hidden (.)
            [[., x, x],
             [., ., x],
             [., ., x]]

    Reference: Yang et al., 2019, section 2.3; zihangdai/xlnet `data_utils.py`, `_local_perm`.
    """
    ranks = ops.where(is_target, order, order + 1)
    is_hidden = ops.expand_dims(ranks, 2) <= ops.expand_dims(order, 1)
    is_hidden = ops.logical_and(is_hidden, ops.expand_dims(order >= 0, 1))
    return ops.expand_dims(ops.cast(is_hidden, "float32") * MASKED, 1)


def with_own_token(bias):
    """Returns a bias `[B, 1, S, S]` of `order_bias` with which every token knows itself too."""
    length = ops.shape(bias)[3]
    return bias * (1.0 - ops.eye(length, dtype=bias.dtype))
