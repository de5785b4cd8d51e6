"""The names of model classes in model folders and `.keras` files, today's and those of earlier versions."""

import keras

# Earlier name -> today's name. The version of commit 314faad saved models under the earlier names.
EARLIER_NAMES = {
    "BertMaskedLM": "MaskedLM",
    "BertMultipleChoice": "MultipleChoice",
    "BertSequenceClassifier": "SequenceClassifier",
    "BertSpanClassifier": "SpanClassifier",
    "BertTokenClassifier": "TokenClassifier",
}
_PACKAGE = "keras_bert"


def stored_class(model_class: type) -> type:
    """A decorator: registers a model class with Keras under its name and its earlier names."""
    keras.saving.register_keras_serializable(package=_PACKAGE)(model_class)
    for earlier, name in EARLIER_NAMES.items():
        if name == model_class.__name__:
            keras.saving.get_custom_objects()[f"{_PACKAGE}>{earlier}"] = model_class
    return model_class
