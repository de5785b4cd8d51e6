"""The signature `explain` of exported models: integrated gradients in the graph.

The signatures of each kind of model choose rows and outputs; here are the scores of the tokens of these rows.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.serving.graph.row_groups import compute_in_groups
from keras_bert.serving.graph.signature_inputs import choose_rows, model_inputs, trim
from keras_bert.tasks.explanation.attributions import quadrature
from keras_bert.tasks.explanation.gradients import baseline_of, gradient_scores, is_kept

_STEPS = 50
# A token needs about this many times the memory of one in a forward pass: the gradient keeps what each layer computed.
_MEMORY_OF_GRADIENT = 4


class ExplainedRows(NamedTuple):
    """B token rows whose outputs are explained.

    Attributes:
        rows: ids, mask and segment numbers, int32 `[B, S]`.
        starts, ends: int32 `[B, S]`, the bytes of each token in its text; any number for [CLS], [SEP] and padding.
        outputs: int32 `[B, K]`, the explained outputs of each row, as for `gradient_scores`.
        labels: strings `[B]`, the names of the explained answers.
    """

    rows: list
    starts: tf.Tensor
    ends: tf.Tensor
    outputs: tf.Tensor
    labels: tf.Tensor


def explain_rows(model, explained: ExplainedRows) -> dict:
    """Returns the outputs of a signature `explain`; its scores are those of `model.explain(texts)`.

    `tokens`, strings `[B, S]`, and their `scores`, float32 `[B, S]`; `starts` and `ends`, int32 `[B, S]`, the bytes of
    each token in its text; `texts`, int32 `[B, S]`, 0 for the first text and 1 for the second; [CLS], [SEP] and padding
    have -1. `label`, strings `[B]`; `output` and `baseline_output`, float32 `[B]`: the explained number for the text,
    and for the baseline of [PAD]s.
    """
    vocabulary, rows = model.vocabulary, explained.rows
    points, weights = quadrature(_STEPS)
    # The ends of the line give the outputs for the baseline and for the row.
    points, num_points = tf.constant([0.0, *points, 1.0], tf.float32), _STEPS + 2
    weights = tf.constant([0.0, *weights, 0.0], tf.float64)
    baseline = baseline_of(rows[0], vocabulary, "pad")

    def at_points(numbers):  # a row at one of its points
        row, point = numbers // num_points, tf.gather(points, numbers % num_points)
        chosen = [tf.gather(values, row) for values in (*rows, baseline, explained.outputs)]
        inputs = {name: value for name, value in model_inputs(*chosen[:3]).items() if name in model.feature_names}
        return gradient_scores(model, inputs, *chosen[3:], point)

    length, size = tf.shape(rows[0])[1], tf.shape(rows[0])[0]
    specs = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.float32)]
    numbers = tf.range(size * num_points)
    products, outputs = compute_in_groups(at_points, [numbers], length * _MEMORY_OF_GRADIENT, specs)
    products = tf.cast(tf.reshape(products, tf.stack([size, num_points, length])), tf.float64)
    outputs = tf.reshape(outputs, [-1, num_points])
    is_piece = tf.logical_not(is_kept(rows[0], vocabulary))
    return {
        "tokens": tf.where(rows[1] > 0, tf.gather(tf.constant(list(vocabulary.tokens)), rows[0]), ""),
        "scores": tf.cast(tf.einsum("bps,p->bs", products, weights), tf.float32),
        "starts": tf.where(is_piece, explained.starts, -1),
        "ends": tf.where(is_piece, explained.ends, -1),
        "texts": tf.where(is_piece, rows[2], -1),
        "label": explained.labels,
        "output": outputs[:, -1],
        "baseline_output": outputs[:, 0],
    }


def rows_with_offsets(tokenizer, pack, texts, may_lack_second: bool = False) -> tuple:
    """Returns the rows of one or two texts, strings `[B]`, and the starts and ends of their tokens, int32 `[B, S]`.

    Args:
        may_lack_second: whether an empty second text means a single text.
    """
    tokens = list(zip(*map(tokenizer.tokenize_with_offsets, texts), strict=True))  # ids, starts, ends

    def packed(values):
        values = [tf.cast(value, tf.int32) for value in values]
        if not may_lack_second:
            return pack(values)
        return choose_rows(tokens[0][1].row_lengths() > 0, pack(values), pack(values[:1]))

    # Offsets take the same way as ids, so they stand in the same columns.
    ids, starts, ends = map(packed, tokens)
    rows = trim(*ids)
    length = tf.shape(rows[0])[1]
    return rows, starts[0][:, :length], ends[0][:, :length]


def first_best(scores, owners, num_owners):
    """Returns the index of the highest score of each owner, int64 `[num_owners]`; the first one of equal scores.

    Owners without a score have the largest int64.

    >>> first_best(tf.constant([1.0, 3.0, 3.0, 2.0]), tf.constant([0, 0, 0, 2]), 3).numpy().tolist()
    [1, 9223372036854775807, 3]
    """
    is_best = tf.equal(scores, tf.gather(tf.math.unsorted_segment_max(scores, owners, num_owners), owners))
    numbers = tf.range(tf.size(scores, tf.int64))
    return tf.math.unsorted_segment_min(tf.where(is_best, numbers, numbers.dtype.max), owners, num_owners)
