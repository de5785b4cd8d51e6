"""Products of the tokens of texts with a large table, computed for few texts at a time to save memory.

The product of B texts of S tokens with V rows has B * S * V numbers: 2 GB for 32 texts of 512 tokens and a vocabulary
of 30,522. This module is for Keras on TensorFlow only.
"""

import tensorflow as tf

from keras_bert.accelerate.tensorflow_functions import lengths_may_vary, recomputed

# The largest number of products at once; those of a single text may be more.
PRODUCTS_AT_ONCE = 2**24


def in_groups(compute, vectors, is_token, table, bias, training: bool = False):
    """Returns `compute(vectors, is_token, table, bias)`, computed for groups of texts, in the backward pass again.

    Args:
        compute: a function of the arguments below that returns float `[B, V]`; each row depends on one text only.
        vectors, is_token: float `[B, S, E]` and bool `[B, S]`.
        table, bias: float `[V, E]` and `[V]`.
        training: whether a backward pass follows.
    """

    def again(floats, numbers, weights):
        return compute(floats[0], tf.cast(numbers[0], tf.bool), *weights), []

    def group(vectors, is_token):
        if not training:
            return [compute(vectors, is_token, table, bias)]
        return [recomputed(again)([vectors], [tf.cast(is_token, tf.int32)], [table, bias])[0]]

    table, bias = tf.convert_to_tensor(table), tf.convert_to_tensor(bias)
    return _grouped(group, vectors, is_token, table, [bias.dtype])[0]


def largest_products(vectors, is_token, table, training: bool):
    """Returns the largest product of the tokens of each text with each row of a table.

    The backward pass keeps the token of each of these products instead of all products. Few of their gradients differ
    from 0 if most rows get the weight 0, so its own products are those of a sparse matrix.

    Args:
        vectors: float `[B, S, E]`.
        is_token: bool `[B, S]`; other tokens do not count.
        table: `[V, E]` of that dtype.
        training: whether a backward pass follows.

    Returns:
        `[B, V]` in at least float32; the smallest number for a text without tokens.
    """

    def largest(vectors, is_token):
        length, width = tf.shape(vectors)[1], vectors.shape[2]
        products = tf.matmul(tf.reshape(vectors, [-1, width]), table, transpose_b=True)
        products = tf.reshape(tf.cast(products, dtype), [-1, length, table.shape[0]])
        return tf.where(is_token[:, :, tf.newaxis], products, dtype.min)

    table, dtype = tf.convert_to_tensor(table), tf.float64 if vectors.dtype == tf.float64 else tf.float32
    if not training or not lengths_may_vary():
        return _grouped(lambda *texts: [tf.reduce_max(largest(*texts), axis=1)], vectors, is_token, table, [dtype])[0]

    def with_columns(vectors, is_token):
        products = largest(vectors, is_token)
        return [tf.reduce_max(products, axis=1), tf.argmax(products, axis=1, output_type=tf.int32)]

    @tf.custom_gradient
    def forward(vectors, table):
        found, columns = _grouped(with_columns, vectors, is_token, table, [dtype, tf.int32])

        def gradient(upstream):
            places = tf.where(upstream != 0)  # int64 [N, 2]
            length = tf.shape(vectors, tf.int64)[1]
            tokens = places[:, 0] * length + tf.cast(tf.gather_nd(columns, places), tf.int64)
            flat = tf.reshape(vectors, [-1, vectors.shape[2]])
            shape = tf.stack([tf.shape(flat, tf.int64)[0], tf.shape(table, tf.int64)[0]])
            tokens = tf.stack([tokens, places[:, 1]], axis=1)
            sparse = tf.SparseTensor(tokens, tf.gather_nd(upstream, places), shape)
            to_vectors = tf.sparse.sparse_dense_matmul(sparse, tf.cast(table, dtype))
            to_table = tf.sparse.sparse_dense_matmul(sparse, tf.cast(flat, dtype), adjoint_a=True)
            to_vectors = tf.reshape(to_vectors, tf.shape(vectors))
            return tf.cast(to_vectors, vectors.dtype), tf.cast(to_table, table.dtype)

        return found, gradient

    return forward(vectors, table)


def _grouped(compute, vectors, is_token, table, dtypes) -> list:
    """Returns the tensors `[B, V]` of `compute(vectors, is_token)`, for groups of the B texts one after the other."""
    if not lengths_may_vary():  # XLA
        return compute(vectors, is_token)
    num_texts, num_products = tf.shape(vectors)[0], tf.shape(vectors)[1] * table.shape[0]
    at_once = tf.maximum(PRODUCTS_AT_ONCE // num_products, 1)
    num_groups = tf.maximum(-(-num_texts // at_once), 1)  # zero texts form a group too, which has the right shape
    shape = [None, table.shape[0]]
    arrays = [tf.TensorArray(dtype, num_groups, infer_shape=False, element_shape=shape) for dtype in dtypes]

    def run(number, arrays):
        texts = slice(number * at_once, (number + 1) * at_once)
        results = compute(vectors[texts], is_token[texts])
        return number + 1, [array.write(number, result) for array, result in zip(arrays, results, strict=True)]

    # One group at a time: in parallel, they would need memory for all of them.
    _, arrays = tf.while_loop(lambda number, _: number < num_groups, run, (0, arrays), parallel_iterations=1)
    return [tf.ensure_shape(array.concat(), shape) for array in arrays]
