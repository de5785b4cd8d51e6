"""Tools around exported models: they work on signatures, not on Keras models.

`check` is imported when it is first used.

versions.py              version folders: path/1, path/2, ...
loading.py               loads a SavedModel, with the operations of TensorFlow Text
saved_model_check/       finds operations that servers lack, and inputs that must not be padded
kit/                     makes a folder that TensorFlow Serving starts from
server/                  development server for exports, with TensorFlow Serving's REST API
client/                  clients for REST and gRPC
"""


def __getattr__(name: str):
    if name == "check":
        from keras_bert.tf_serving.saved_model_check.checking import check

        return check
    raise AttributeError(f"module 'keras_bert.tf_serving' has no attribute {name!r}")
