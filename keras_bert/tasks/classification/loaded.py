"""What a loaded export of a `SequenceClassifier` can do beside answering texts: probabilities, and other answers."""

from typing import Any

import numpy as np

from keras_bert.program.label_types import label_value
from keras_bert.tasks.classification.thresholds import as_thresholds, check_answer_options


class LoadedSequenceClassifier:
    """Methods of loaded exports of a `SequenceClassifier`."""

    def __init__(self, folder, engine):
        super().__init__(folder, engine)
        as_thresholds(self.thresholds, self.labels, name="thresholds")
        self.label_values = tuple(label_value(label, self.label_type) for label in self.labels)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        callbacks: Any = None,
        max_seq_length: int | None = None,
        top_k: int | None = None,
        threshold: Any = None,
        **unknown: Any,
    ) -> list:
        """Returns an answer for each text; the arguments are those of `SequenceClassifier.predict`."""
        check_answer_options(self, top_k, threshold)
        arguments = {"batch_size": batch_size, "verbose": verbose, "callbacks": callbacks, "top_k": top_k}
        return self._predict(x, {**arguments, "max_seq_length": max_seq_length, "threshold": threshold}, unknown)

    def predict_proba(
        self, x: Any, batch_size: int | None = None, verbose: Any = "auto", *, max_seq_length: int | None = None
    ) -> np.ndarray:
        """Returns probabilities, float32 `[N, labels]`; see `SequenceClassifier.predict_proba`."""
        from keras_bert.tasks.classification.task import predict_proba

        return predict_proba(self, x, batch_size=batch_size, verbose=verbose, max_seq_length=max_seq_length)
