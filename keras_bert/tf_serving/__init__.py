"""Everything around a served model: it knows signatures, not models.

`check` loads what it needs when it is first used.
"""


def __getattr__(name: str):
    if name == "check":
        from keras_bert.tf_serving.saved_model_check.checking import check

        return check
    raise AttributeError(f"module 'keras_bert.tf_serving' has no attribute {name!r}")
