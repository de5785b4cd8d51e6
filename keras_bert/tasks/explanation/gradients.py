"""Integrated gradients and attention rollout of token rows, as TensorFlow functions.

Integrated gradients: the score of a token is the product of two things, summed over the dimensions of its embedding:
the difference between its word embedding and that of the baseline, and the gradient of the output, averaged over the
straight line between both. The scores add up to the difference between the outputs for the row and for its baseline.

Reference: Sundararajan et al., 2017, arXiv 1703.01365; captum's `LayerIntegratedGradients` on the word embeddings.
"""

import contextlib

import tensorflow as tf
from keras import ops

from keras_bert.models.encoder_base import Encoder, encoder_of
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice
from keras_bert.records import features

BASELINES = ("pad", "mask")


def gradient_scores(model, inputs: dict, baseline_ids, outputs, points):
    """Returns the products of difference and gradient at one point of the line of each row, and the outputs there.

    These are float32 `[R, S]` and `[R]`.

    Args:
        inputs: the features of the model, int32 `[R, S]`.
        baseline_ids: int32 `[R, S]`.
        outputs: int32 `[R, K]`: the indices of the flattened outputs of a row that are added up; -1 fills up.
        points: float32 `[R]`: 0 for the baseline, 1 for the row.
    """
    look_up = encoder_of(model).embeddings.look_up
    baseline = look_up(baseline_ids)
    difference = look_up(inputs[features.INPUT_IDS]) - baseline
    vectors = baseline + difference * tf.cast(points, baseline.dtype)[:, tf.newaxis, tf.newaxis]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(vectors)
        found = _selected_outputs(model, {**inputs, features.TOKEN_VECTORS: vectors}, outputs)
    products = tape.gradient(found, vectors) * difference
    return tf.cast(tf.reduce_sum(products, axis=-1), tf.float32), found


def _selected_outputs(model, inputs: dict, outputs):
    if len(model.feature_axes) == 3:  # one choice in each row
        inputs = {name: values[:, tf.newaxis] for name, values in inputs.items()}
    found = model(inputs, training=False)
    if isinstance(found, dict):
        names = ("start_logits", "end_logits", "masked_lm_logits")
        found = tf.concat([found[name] for name in names if name in found], axis=1)
    rows = tf.shape(outputs)[0]
    found = tf.reshape(tf.cast(found, tf.float32), tf.stack([rows, -1]))
    values = tf.gather(found, tf.maximum(outputs, 0), batch_dims=1)
    return tf.reduce_sum(tf.where(outputs >= 0, values, 0.0), axis=1)


def rollout_scores(model, inputs: dict, columns):
    """Returns the attention rollout from selected tokens, float32 `[R, S]`: the mean over `columns`, int32 `[R, K]`."""
    with returning_attentions(model) as encoder:
        rollout = attention_rollout(encoder(inputs, training=False)["attentions"])
    return tf.reduce_mean(tf.gather(rollout, columns, batch_dims=1), axis=1)


def attention_rollout(attentions):
    """Returns how much of each token's input reaches each token's output, `[B, S, S]`; rows add up to 1.

    Half of a layer's output comes from its residual connection. Heads are averaged, and layers multiplied.

    Args:
        attentions: L tensors `[B, N, S, S]`, the probabilities of each layer, the first layer first.

    Reference: Abnar and Zuidema, 2020, arXiv 2005.00928, section 3.
    """
    result = None
    for attention in attentions:
        mean = ops.mean(ops.cast(attention, "float32"), axis=1)
        mixed = (mean + ops.eye(ops.shape(mean)[-1], dtype=mean.dtype)) / 2
        mixed = mixed / ops.sum(mixed, axis=-1, keepdims=True)
        result = mixed if result is None else ops.matmul(mixed, result)
    return result


@contextlib.contextmanager
def returning_attentions(model):
    """Makes the encoder of a model return its attentions. Raises `InputError` if it cannot."""
    encoder = encoder_of(model)
    if not isinstance(encoder, Encoder) or encoder.no_attentions:
        raise InputError(
            f"Attention rollout needs an attention probability for each pair of tokens, and {type(encoder).__name__} "
            'has none. Use method="integrated_gradients".'
        )
    before = encoder.unpadded, encoder.output_attentions
    encoder.unpadded, encoder.output_attentions = False, True
    try:
        yield encoder
    finally:
        encoder.output_attentions, encoder.unpadded = before[1], before[0]


def baseline_of(input_ids, vocabulary, baseline: str):
    """Returns the ids of the baseline: every token but [CLS], [SEP] and padding becomes [PAD] or [MASK]."""
    check_choice("baseline", baseline, BASELINES)
    other = vocabulary.pad_id if baseline == "pad" else vocabulary.mask_id
    kept = (vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id)
    is_kept = tf.reduce_any([tf.equal(input_ids, id_) for id_ in kept], axis=0)
    return tf.where(is_kept, input_ids, other)
