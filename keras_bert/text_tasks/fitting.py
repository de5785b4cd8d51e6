"""`fit`, `evaluate` and `predict` of task models on texts."""

import importlib
import sys
from typing import Any

from keras_bert.errors import InputError
from keras_bert.input_pipeline import rows_dataset
from keras_bert.tasks.given_texts import as_list, collect, holds_texts
from keras_bert.tasks.token_rows import RowBatches
from keras_bert.text_tasks.base import TextTask
from keras_bert.text_tasks.prediction import predict_rows
from keras_bert.text_tasks.recipe import compile_for_texts


def text_task(model) -> TextTask:
    """Returns the task of a model, the same one each time while the vocabulary stays.

    Raises:
        InputError: the model has no vocabulary, or takes no texts.
    """
    if not model.text_task:
        raise InputError(f"{type(model).__name__} takes features and no texts.")
    made = getattr(model, "_made_text_task", None)
    if made is None or model.vocabulary is None or made.tokenizer.vocabulary.sha256 != model.vocabulary.sha256:
        module, name = model.text_task.rsplit(".", 1)
        made = getattr(importlib.import_module(module), name)(model)
        model._made_text_task = made
    return made


def fit_texts(
    model,
    x,
    y=None,
    batch_size: int = 32,
    epochs: int = 1,
    *,
    max_seq_length: int | None = None,
    validation_data=None,
    shuffle: bool = True,
    sample_weight=None,
    class_weight=None,
    seed: int = 12345,
    **kwargs,
):
    """Trains a model on texts.

    Rows of like length make a batch, which is padded to its longest only. A model that was not compiled gets `AdamW`
    with the paper's learning rate, 5e-5, which rises for a tenth of the updates of this call and then falls to 0; the
    next `fit` on texts makes a new one. What the user has compiled stays.
    XLA is switched off, whatever `compile` was told: it would compile anew for each of the many lengths.

    Args:
        x, y: texts and labels as the task's page in docs/ says; or `x` is a finite `tf.data.Dataset` of both.
        batch_size: examples per update.
        epochs: passes over the examples.
        max_seq_length: longer rows are cut, which is said; by default what the model has positions for.
        validation_data: (x, y) or a data set, evaluated after each epoch.
        sample_weight: a weight for each example.
        class_weight: label -> weight, or "balanced": every class counts the same in sum.
        seed: that of the order; `keras.utils.set_random_seed` sets that of the dropout.
        **kwargs: `callbacks`, `verbose`, `validation_freq`, ... of `keras.Model.fit`.

    Returns:
        The `History` of Keras.

    Raises:
        InputError: texts or labels are empty, missing or do not fit the model.
    """
    task = text_task(model)
    examples = _examples(task, x, y, sample_weight, class_weight)
    task.before_training(examples)
    rows = said(task.encode(examples, max_seq_length)).rows
    if not rows.labels:
        raise InputError("There are no labels to train on: give fit(texts, labels).")
    if validation_data is not None:
        validation_data = _validation_dataset(task, validation_data, batch_size, max_seq_length)
    num_batches = len(RowBatches(rows, batch_size))
    compile_for_texts(model, num_batches, epochs, kwargs.get("initial_epoch", 0))
    dataset = rows_dataset(rows, batch_size, shuffle=shuffle, repeat=True, seed=seed)
    return model.fit(dataset, epochs=epochs, steps_per_epoch=num_batches, validation_data=validation_data, **kwargs)


def evaluate_texts(
    model, x, y=None, batch_size: int = 32, *, max_seq_length: int | None = None, sample_weight=None
) -> dict[str, float]:
    """Returns the official scores of a model on texts with labels.

    Args: as for `fit_texts`.
    """
    task = text_task(model)
    examples = _examples(task, x, y, sample_weight)
    encoded = said(task.encode(examples, max_seq_length))
    answers = task.answers(examples, encoded, predict_rows(model, encoded.rows, batch_size))
    return task.scores(examples, answers)


def predict_texts(model, x, batch_size: int = 32, *, max_seq_length: int | None = None, **options) -> list:
    """Returns what a model says about texts, an answer for each.

    Args:
        x: texts, as for `fit_texts`.
        options: what the task's `answers` takes beyond that.
    """
    task = text_task(model)
    examples = _examples(task, x)
    encoded = said(task.encode(examples, max_seq_length))
    return task.answers(examples, encoded, predict_rows(model, encoded.rows, batch_size), **options)


def _examples(task: TextTask, x, y=None, sample_weight=None, class_weight=None) -> Any:
    if hasattr(x, "element_spec"):
        if y is not None:
            raise InputError("A data set holds texts and labels together: give no y beside it.")
        x, y, sample_weight = collect(x, task.example_rank)
    if class_weight is not None:
        if sample_weight is not None:
            raise InputError("Give sample_weight or class_weight, not both.")
        sample_weight = task.class_weights(task.examples(x, y), class_weight)
    elif sample_weight is not None:
        sample_weight = as_list(sample_weight, "sample_weight")
    return task.examples(x, y, sample_weight)


def _validation_dataset(task: TextTask, data, batch_size: int, max_seq_length: int | None):
    if not holds_texts(data):
        return data
    x, y = (data, None) if hasattr(data, "element_spec") else data
    encoded = task.encode(_examples(task, x, y), max_seq_length)
    return rows_dataset(encoded.rows, batch_size)


def said(encoded):
    """Returns what was encoded, and says on standard error what was cut or left out."""
    for note in encoded.notes:
        print(note, file=sys.stderr)
    return encoded
