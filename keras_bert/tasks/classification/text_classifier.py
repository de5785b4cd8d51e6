"""`TextClassifier`: a classifier of texts as an estimator of scikit-learn."""

import contextlib
import io
import os
import random
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from keras_bert.program.errors import InputError
from keras_bert.program.label_types import label_strings


class TextClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of texts for scikit-learn's `Pipeline`, `cross_val_score`, `GridSearchCV` and the like.

        classifier = TextClassifier("checkpoint", epochs=3)
        classifier.fit(texts, labels)
        classifier.predict(["a lovely film"])

    Args:
        model: a model folder, or a checkpoint of any other format. Each `fit` starts from it.
        epochs: passes over the texts.
        learning_rate: the peak rate. It rises for a tenth of the updates and then falls to 0.
        batch_size: texts per update, and texts computed at once.
        max_seq_length: longer texts are cut to this many tokens; None for the number of the model's positions.
        class_weight: label -> factor of the loss, or "balanced"; None for equal weights.
        loss: `focal` or a `FocalLoss` of `tasks/classification/losses.py`; None for the cross-entropy.
        seed: the seed of the new weights, of the dropout and of the order of the texts.
        verbose: 0 shows no progress.

    Attributes:
        classes_: the labels in order: strings, whole numbers, truth values or floats, `[classes]`.
        model_: the trained `SequenceClassifier`, to save or to export.
    """

    def __init__(
        self,
        model: str | os.PathLike,
        *,
        epochs: int = 3,
        learning_rate: float = 5e-5,
        batch_size: int = 32,
        max_seq_length: int | None = None,
        class_weight: Any = None,
        loss: Any = None,
        seed: int = 12345,
        verbose: int = 0,
    ):
        self.model = model
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_seq_length = max_seq_length
        self.class_weight = class_weight
        self.loss = loss
        self.seed = seed
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains on texts, and returns itself.

        Args:
            X: N texts; N pairs of texts, `[N, 2]`; or a tuple of two columns of N texts, as for `SequenceClassifier`.
            y: a label for each text, `[N]`; a column `[N, 1]` gets scikit-learn's `DataConversionWarning`.
            sample_weight: a weight for each text; None for 1.

        Raises:
            InputError: texts or labels are missing, labels are of several types or fewer than two, or the checkpoint
                cannot be read.
        """
        # Only now, because these take seconds.
        from keras_bert.optimization import AdamW, WarmupLinearDecay
        from keras_bert.tasks.classification.model import SequenceClassifier

        labels = _labels(y)
        self.classes_ = np.unique(labels)
        printed = contextlib.nullcontext() if self.verbose else contextlib.redirect_stdout(io.StringIO())
        with printed, _seeded(self.seed):
            self.model_ = SequenceClassifier.from_pretrained(self.model, labels=self.classes_.tolist())
        num_steps = self.epochs * -(-len(labels) // self.batch_size)
        self.model_.compile(AdamW(WarmupLinearDecay(self.learning_rate, num_steps, num_steps // 10)), jit_compile=False)
        weights: dict[str, Any] = {"sample_weight": sample_weight, "class_weight": self.class_weight}
        how: dict[str, Any] = {"epochs": self.epochs, "loss": self.loss, "seed": self.seed, **self._options()}
        self.model_.fit(_texts(X), labels.tolist(), **weights, **how)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the most probable label of each text, of the type of `classes_`: `[N]`."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probabilities of the labels in the order of `classes_`, float32 `[N, classes]`."""
        check_is_fitted(self)
        return self.model_.predict_proba(_texts(X), **self._options())

    def _options(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "max_seq_length": self.max_seq_length, "verbose": self.verbose}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array = True, True
        return tags


def _labels(y: Any) -> np.ndarray:
    """Returns one label for each text, `[N]`. Raises `InputError` for labels that are missing, or of several types."""
    values = np.asarray(y, dtype=object)  # of [1, "a"], NumPy would else make strings, and of [True, 2] numbers
    if values.ndim != 1 and values.shape[1:] != (1,):
        raise InputError(
            f"TextClassifier learns one label for each text. Received labels of the shape {values.shape}. For "
            "several labels, use SequenceClassifier with problem_type='multi_label'."
        )
    label_strings(values.ravel().tolist())
    return column_or_1d(np.asarray(y), warn=True)


def _texts(x: Any) -> Any:
    """Returns texts, or two columns of texts, as models take them."""
    if isinstance(x, tuple) and len(x) == 2 and not any(isinstance(column, str) for column in x):
        if all(isinstance(column, tuple) and len(column) == 2 for column in x):
            raise InputError(
                "X may be two pairs or two columns of two texts. Received a tuple of two tuples of two. Give lists: "
                "(texts, second_texts), or list(zip(texts, second_texts))."
            )
        return x
    values = np.asarray(x, dtype=object)
    if values.ndim != 2:
        return values.tolist() if values.ndim == 1 else x
    columns = [column.tolist() for column in values.T]
    if len(columns) > 2:
        raise InputError(f"X must be N texts, or pairs [N, 2]. Received the shape {values.shape}")
    return tuple(columns) if len(columns) == 2 else columns[0]


@contextlib.contextmanager
def _seeded(seed: int):
    """Draws the same new weights and seeds of dropout each time. They come from Python's generator."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
