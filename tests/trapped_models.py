"""SavedModels with problems: each signature of one model has one problem, and so does each copy of another model."""

import os

import tensorflow as tf

BATCH = [None]
ROWS = [None, None]


def spec(shape, dtype, name):
    return tf.TensorSpec(shape, dtype, name=name)


def graph(*specs, **options):
    return tf.function(input_signature=list(specs), autograph=False, **options)


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

    @graph(text)
    def ragged(text):
        return {"words": tf.strings.split(text)}

    @graph(text)
    def bfloat16(text):
        return {"y": tf.cast(tf.strings.length(text), tf.bfloat16)}

    @graph(spec(BATCH, tf.float16, "x"))
    def half(x):
        return {"y": tf.cast(x, tf.float32)}

    @graph(ids, spec(ROWS, tf.int32, "input_mask"))
    def mask(input_ids, input_mask):
        return {"y": tf.reduce_sum(input_ids * input_mask, axis=1)}

    @graph(ids)
    def only_ids(input_ids):
        return {"y": tf.reduce_sum(input_ids, axis=1)}

    @graph(text)
    def scalar_output(text):
        return {"y": tf.size(text)}

    @graph(text)
    def labels_once(text):
        return {"labels": tf.constant(["a", "b"]), "y": tf.strings.length(text)}

    @graph(text)
    def trimmer(text):
        words = tf.strings.split(text)
        return {"y": tf_text.RoundRobinTrimmer(4).trim([words, words])[0].to_tensor()}

    @graph(text)
    def python(text):
        return {"y": tf.ensure_shape(tf.numpy_function(lambda text: text, [text], tf.string), BATCH)}

    @graph(spec(BATCH, tf.float32, "x"), jit_compile=True)
    def compiled(x):
        return {"y": x + 1.0}

    @graph(text)
    def reads_a_file(text):
        return {"y": tf.fill(tf.shape(text), tf.io.read_file("/home/somebody/models/vocab.txt"))}

    return {
        "composite-output": ("error", ragged),
        "output-type": ("error", bfloat16),
        "input-type": ("error", half),
        "padded-mask": ("warning", mask),
        "padded-ids": ("warning", only_ids),
        "output-without-batch": ("error", scalar_output),
        "other-batch": ("error", labels_once),
        "missing-operation": ("error", trimmer),
        "python-operation": ("error", python),
        "must-compile": ("warning", compiled),
        "absolute-path": ("error", reads_a_file),
    }
