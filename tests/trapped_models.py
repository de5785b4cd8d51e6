"""SavedModels with problems: each signature of one model has one problem."""

import os

import tensorflow as tf

BATCH = [None]
ROWS = [None, None]


def spec(shape, dtype, name):
    return tf.TensorSpec(shape, dtype, name=name)


def graph(*specs):
    return tf.function(input_signature=list(specs), autograph=False)


def save(folder, signatures, **attributes):
    """Saves functions and the objects that they use, and returns the folder."""
    module = tf.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    module.functions = list(signatures.values())
    tf.saved_model.save(module, os.fspath(folder), signatures=signatures)
    return os.fspath(folder)


def sound_signature(weights):
    """A sound signature: text as input, numbers as output, both with names."""

    @graph(spec(BATCH, tf.string, "text"))
    def score(text):
        lengths = tf.cast(tf.strings.length(text), tf.float32)
        return {"score": lengths[:, tf.newaxis] * tf.reduce_sum(weights, axis=1)}

    return score


def trapped_signatures() -> dict:
    """Returns trap -> (severity, signature). Each signature has that trap and no other."""
    import tensorflow_text as tf_text

    text, ids = spec(BATCH, tf.string, "text"), spec(ROWS, tf.int32, "input_ids")

    @graph(ids, spec(ROWS, tf.int32, "input_mask"))
    def mask(input_ids, input_mask):
        return {"y": tf.reduce_sum(input_ids * input_mask, axis=1)}

    @graph(ids)
    def only_ids(input_ids):
        return {"y": tf.reduce_sum(input_ids, axis=1)}

    @graph(text)
    def trimmer(text):
        words = tf.strings.split(text)
        return {"y": tf_text.RoundRobinTrimmer(4).trim([words, words])[0].to_tensor()}

    @graph(text)
    def python(text):
        return {"y": tf.ensure_shape(tf.numpy_function(lambda text: text, [text], tf.string), BATCH)}

    return {
        "padded-mask": ("warning", mask),
        "padded-ids": ("warning", only_ids),
        "missing-operation": ("error", trimmer),
        "python-operation": ("error", python),
    }
