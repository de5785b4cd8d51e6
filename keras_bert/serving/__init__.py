"""From a model to a server that answers. `check` loads what it needs when it is first used."""


def __getattr__(name: str):
    if name == "check":
        from keras_bert.serving.saved_model_check.checking import check

        return check
    raise AttributeError(f"module 'keras_bert.serving' has no attribute {name!r}")
