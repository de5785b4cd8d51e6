"""Registers model classes with Keras, under today's names and those of earlier versions."""

import keras

from keras_bert.program import earlier_names

_PACKAGE = "keras_bert"


def stored_class(model_class: type) -> type:
    """A decorator: registers a model class with Keras under its name and its earlier names."""
    keras.saving.register_keras_serializable(package=_PACKAGE)(model_class)
    for earlier, name in earlier_names.CLASSES.items():
        if name == model_class.__name__:
            keras.saving.get_custom_objects()[f"{_PACKAGE}>{earlier}"] = model_class
    return model_class
