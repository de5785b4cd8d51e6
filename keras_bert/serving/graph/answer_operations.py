"""The operations that make answers from outputs, on tensors: those of `keras_bert/tasks/answer_operations.py`."""

import tensorflow as tf

where, tanh, exp, relu, sigmoid = tf.where, tf.tanh, tf.exp, tf.nn.relu, tf.sigmoid
softmax, log_softmax, top_k, linear = tf.nn.softmax, tf.nn.log_softmax, tf.math.top_k, tf.identity


def take_along(values, indices, axis):
    return tf.gather(values, indices, axis=axis, batch_dims=1)


def total(values):
    return tf.reduce_sum(tf.cast(values, tf.int32) if values.dtype == tf.bool else values, axis=-1)


def columns_of(values):
    return tf.range(tf.shape(values)[1])


def descending(values):
    return tf.argsort(values, direction="DESCENDING", stable=True)


def largest(values):
    return tf.reduce_max(values, axis=-1)


def argmax(values):
    values = tf.cast(values, tf.int32) if values.dtype == tf.bool else values
    return tf.argmax(values, axis=-1, output_type=tf.int32)


def lookup(names, indices):
    return tf.gather(tf.constant(names), indices)


def in_every_row(names, outputs):
    return tf.tile([names], [tf.shape(outputs)[0], 1])


def as_numbers(numbers, like):
    return tf.constant(numbers, like.dtype)
