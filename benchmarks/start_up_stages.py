"""What `benchmarks.start_up` times, each in a process of its own.

    python -m benchmarks.start_up_stages PROGRAM FOLDER

A program prints one line of JSON: the seconds that each of its stages took, one after the other. Nothing is imported
before the stage that is to pay for it. `FOLDER` holds the models that `benchmarks.start_up` has made.
"""

import json
import os
import sys
import time

TEXTS = ["a short text about nothing", "another one, a little longer than the first"] * 4
LABELS = ["a", "b"]


class Stages:
    """Seconds of each stage, from the end of the one before it."""

    def __init__(self):
        self.seconds = {}
        self._last = time.perf_counter()

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = time.perf_counter()


def import_tensorflow(folder: str, stages: Stages) -> None:
    import tensorflow  # noqa: F401

    stages.end("import tensorflow")


def import_keras(folder: str, stages: Stages) -> None:
    import keras  # noqa: F401

    stages.end("import keras")


def import_keras_bert(folder: str, stages: Stages) -> None:
    import keras_bert

    stages.end("import keras_bert")
    keras_bert.BertConfig, keras_bert.Vocabulary, keras_bert.WordPieceTokenizer  # noqa: B018
    stages.end("its config, vocabulary and Python tokenizer")


def ours_build(folder: str, stages: Stages) -> None:
    import keras_bert

    keras_bert.SequenceClassifier  # noqa: B018
    stages.end("import")
    config = keras_bert.BertConfig.from_json_file(os.path.join(folder, "ours", "bert_config.json"))
    keras_bert.SequenceClassifier(config, labels=LABELS)
    stages.end("build, random weights")


def ours_predict(folder: str, stages: Stages) -> None:
    import keras_bert

    keras_bert.SequenceClassifier  # noqa: B018
    stages.end("import")
    model = keras_bert.SequenceClassifier.from_pretrained(os.path.join(folder, "ours"))
    stages.end("load")
    model.predict(TEXTS)
    stages.end("first call on texts")
    model.predict(TEXTS)
    stages.end("second call")


def ours_hugging_face(folder: str, stages: Stages) -> None:
    _load_other(os.path.join(folder, "hugging_face"), stages)


def ours_google(folder: str, stages: Stages) -> None:
    _load_other(os.path.join(folder, "google"), stages)


def _load_other(path: str, stages: Stages) -> None:
    from keras_bert import BertEncoder

    stages.end("import")
    BertEncoder.from_pretrained(path)
    stages.end("load")


def ours_fit(folder: str, stages: Stages) -> None:
    import keras

    model = _loaded(folder)

    class EndOfStep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            stages.end(("first training step", "second training step")[batch])

    stages.end("before")
    model.fit(TEXTS * 2, LABELS * len(TEXTS), batch_size=len(TEXTS), epochs=1, verbose=0, callbacks=[EndOfStep()])


def ours_export(folder: str, stages: Stages) -> None:
    model = _loaded(folder)
    stages.end("before")
    model.export_for_serving(os.path.join(folder, "new_export"))
    stages.end("export")


def _loaded(folder: str):
    """Returns the model, with what the first call needs loaded, too."""
    import keras_bert

    model = keras_bert.SequenceClassifier.from_pretrained(os.path.join(folder, "ours"))
    model.predict(TEXTS)
    return model


def ours_exported(folder: str, stages: Stages) -> None:
    import numpy as np

    from keras_bert.tf_serving.ask import load_text_operations
    from keras_bert.tf_serving.server.loaded_model import LoadedModel

    load_text_operations()
    stages.end("import")
    model = LoadedModel(os.path.join(folder, "export", "1"))
    stages.end("load")
    for name in ("first call on texts", "second call"):
        model.run("serving_default", {"text": np.array([text.encode() for text in TEXTS], object)})
        stages.end(name)


def transformers_predict(folder: str, stages: Stages) -> None:
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    stages.end("import")
    path = os.path.join(folder, "hugging_face")
    tokenizer, model = AutoTokenizer.from_pretrained(path), BertForSequenceClassification.from_pretrained(path).eval()
    stages.end("load")
    for name in ("first call on texts", "second call"):
        with torch.inference_mode():
            model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits.numpy()
        stages.end(name)


def keras_hub_predict(folder: str, stages: Stages) -> None:
    import keras_hub

    from benchmarks.sides.keras_hub_backbone import backbone_of

    keras_hub.models.BertTextClassifier  # noqa: B018
    stages.end("import")
    with open(os.path.join(folder, "ours", "bert_config.json")) as file:
        backbone = backbone_of(json.load(file), dropout=0.1)
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=os.path.join(folder, "ours", "vocab.txt"))
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=32)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    stages.end("build, random weights")
    for name in ("first call on texts", "second call"):
        model.predict(TEXTS, verbose=0)
        stages.end(name)


PROGRAMS = {
    program.__name__: program
    for program in (
        import_tensorflow,
        import_keras,
        import_keras_bert,
        ours_build,
        ours_predict,
        ours_hugging_face,
        ours_google,
        ours_fit,
        ours_export,
        ours_exported,
        transformers_predict,
        keras_hub_predict,
    )
}

if __name__ == "__main__":
    measured = Stages()
    PROGRAMS[sys.argv[1]](sys.argv[2], measured)
    print(json.dumps(measured.seconds))
