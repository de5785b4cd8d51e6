"""A SavedModel with loops and branches runs, and its bytes do not depend on what the process did before."""

import pathlib

import tensorflow as tf

from keras_bert.serving.graph.canonical_graph import make_canonical


def export(folder, name):
    """Writes a module whose loop receives tensors that it does not change, and some that it does not use."""
    module = tf.Module()
    module.weight = tf.Variable(3.0)

    @tf.function(input_signature=[tf.TensorSpec([None], name="x")], autograph=False)
    def call(x):
        outside = tf.reduce_sum(x)

        def body(number, total):
            return number + 1, tf.cond(total < 100.0, lambda: total + outside * module.weight, lambda: total)

        _, total = tf.while_loop(lambda number, _: number < tf.size(x), body, (0, 0.0))
        return {"total": tf.fill(tf.shape(x), total)}

    path = folder / name
    tf.saved_model.save(module, path, signatures=call)
    make_canonical(path)
    return path


def test_loops_are_numbered_as_functions_are(tmp_path):
    first = export(tmp_path, "first")
    for number in range(7):
        tf.function(lambda x: x + 1)(tf.constant(number))
    second = export(tmp_path, "second")
    one, other = (pathlib.Path(path, "saved_model.pb").read_bytes() for path in (first, second))
    assert one == other
    loaded = tf.saved_model.load(second)
    assert loaded.signatures["serving_default"](x=tf.constant([1.0, 2.0]))["total"].numpy().tolist() == [18.0, 18.0]
