"""Draws tokens from a masked LM and puts them into rows, as ELECTRA does."""

import keras
from keras import ops

from keras_bert.layers.choosing import formulas_for

# As in google-research/electra: keeps both logarithms finite.
_EPSILON = 1e-9


def draw_tokens(logits, temperature: float, seed):
    """Draws a token from `softmax(logits / temperature)`, by the largest of the logits plus Gumbel noise.

    Temperature 0 selects the most probable token instead. No gradient flows: float `[B, P, V]` -> int32 `[B, P]`.

    Reference: google-research/electra `pretrain/pretrain_helpers.py`, `sample_from_softmax`.
    """
    logits = ops.stop_gradient(logits)
    if temperature:
        uniform = keras.random.uniform(ops.shape(logits), dtype=logits.dtype, seed=seed)
        logits = logits / temperature - ops.log(_EPSILON - ops.log(uniform + _EPSILON))
    return formulas_for(training=True).argmax(logits)


def put_tokens(ids, columns, tokens, is_used):
    """Returns rows, int32 `[B, S]`, with tokens put into columns, each int32 `[B, P]`, where `is_used`, bool, is true.

    Example:
        ids [[2, 7, 8, 3]], columns [[2, 0]], tokens [[9, 0]], is_used [[True, False]] -> [[2, 7, 9, 3]]
    """
    num_rows, length = ops.shape(ids)[0], ops.shape(ids)[1]
    starts = ops.expand_dims(ops.arange(num_rows, dtype="int32") * length, 1)
    # Entries that are not used go to an additional place at the end.
    places = ops.where(is_used, starts + columns, num_rows * length)
    flat = ops.concatenate([ops.reshape(ids, (-1,)), ops.zeros((1,), ids.dtype)])
    changed = ops.scatter_update(flat, ops.reshape(places, (-1, 1)), ops.reshape(tokens, (-1,)))
    return ops.reshape(changed[:-1], ops.shape(ids))
