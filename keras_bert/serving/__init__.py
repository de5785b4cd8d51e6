"""Exports a model, and loads exports: texts in, answers out.

export.py               writes a SavedModel, or a folder for another runtime
signatures/             the signatures of SavedModels, one file per kind of model
portable/               exports for LiteRT and ONNX Runtime, and the loader of all exports
eight_bit_weights.py    8-bit weights on disk: a quarter of the size
eight_bit_products.py   dense layers with 8-bit matrix products
keras_export.py         model.export of Keras: features in, outputs out
canonical_graph.py      makes repeated exports of a model byte-identical
"""


def load(path, num_threads: int | None = None):
    """Returns the model of an export, with `predict(texts)`; see `keras_bert.serving.portable.loading.load`."""
    from keras_bert.serving.portable import loading

    return loading.load(path, num_threads)
