"""One update of a small model of a family, for processes with any backend of Keras."""

import keras
import numpy as np

from keras_bert.encoders.transformer_xl.model import TransformerXL
from keras_bert.tasks.classification.model import SequenceClassifier


def new_model(config):
    """Returns a classifier, or a language model for Transformer-XL."""
    return TransformerXL(config) if config.is_language_model else SequenceClassifier(config, labels=["a", "b"])


def outputs_before_and_after(model, batch, labels) -> tuple[np.ndarray, np.ndarray]:
    """Returns the outputs for a batch before and after an update on it."""
    config, names = model.config, ["input_ids", "input_mask", "segment_ids"]
    if config.is_language_model:
        batch, labels = {"input_ids": batch["input_ids"], "target_ids": batch["input_ids"][:, ::-1]}, None
        names = ["input_ids"]
    elif config.type_vocab_size < 2:
        names = names[:2]
    features = {name: batch[name] for name in names}

    def outputs():
        found = model(features)
        return np.asarray(found["log_probabilities"] if config.is_language_model else found)

    before = outputs()
    # On TensorFlow without a graph, which would take longer to make than to run once.
    model.compile(optimizer=keras.optimizers.SGD(0.1), run_eagerly=keras.config.backend() == "tensorflow")
    x = batch if config.is_language_model else features
    model.fit(x, labels, batch_size=3, epochs=1, shuffle=False, verbose=0)
    return before, outputs()
