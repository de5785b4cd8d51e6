"""What losses over the vectors of a whole batch are made of."""

from keras import ops

from keras_bert.layers.text_pooling import unit_length

FAR = -1e12  # the score of what a softmax must not select, or what is added to it


def cosines(vectors):
    """Returns the cosines of the first two texts of each example: `[B, C, D]` -> `[B]`."""
    units = unit_length(vectors)
    return ops.sum(units[:, 0] * units[:, 1], axis=-1)


def cross_entropy(scores, right):
    """Returns the cross-entropy `[B]` of the columns `right`, int `[B]`, of scores `[B, columns]`."""
    return ops.logsumexp(scores, axis=-1) - ops.take_along_axis(scores, right[:, None], axis=-1)[:, 0]


def stacked_candidates(vectors):
    """Returns all positives, then all first hard negatives, and so on: `[B * (C - 1), D]` of `[B, C, D]`."""
    return ops.reshape(ops.swapaxes(vectors[:, 1:], 0, 1), (-1, ops.shape(vectors)[-1]))


def equal_texts(numbers):
    """Returns which candidates are no negatives of an example, bool `[B, B * (C - 1)]`; its own positive is one."""
    num_examples = ops.shape(numbers)[0]
    candidates = ops.reshape(ops.transpose(numbers[:, 1:]), (-1,))  # in the order of the scores
    equals = ops.logical_or(numbers[:, :1] == candidates, numbers[:, 1:2] == candidates)
    same_anchor = numbers[:, :1] == numbers[:, 0]  # [B, B]: positives of equal anchors
    others = ops.zeros((num_examples, ops.shape(candidates)[0] - num_examples), "bool")
    equals = ops.logical_or(equals, ops.concatenate([same_anchor, others], axis=1))
    own = ops.arange(num_examples)[:, None] == ops.arange(ops.shape(candidates)[0])
    return ops.logical_and(equals, ops.logical_not(own))


def weighted_mean(losses, weights):
    """Returns the mean of losses `[B]`, weighted by `[B]` if there are weights."""
    if weights is None:
        return ops.mean(losses)
    return ops.divide_no_nan(ops.sum(losses * weights), ops.sum(weights))
