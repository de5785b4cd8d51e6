"""Exports a model, and loads exports: texts in, answers out.

answer_batches.py    record batches of Arrow with texts -> with their vectors or answers
export.py            writes a SavedModel, or a folder for another runtime; model.export of Keras
beam.py              exports in Apache Beam: RunInference, MLTransform, RAG
graph/               tools for exported graphs: signatures, words, 8 bits, ONNX operations
portable/            exports for LiteRT and ONNX Runtime, and the loader of all exports
"""


def load(path, runtime: str = "auto", precision: str = "float32", num_threads: int | None = None, callers: int = 1):
    """Returns the model of an export, with `predict(texts)`; see `keras_bert.serving.portable.loading.load`."""
    from keras_bert.serving.portable import loading

    return loading.load(path, runtime, precision, num_threads, callers)
