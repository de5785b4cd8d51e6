"""`fit`, `evaluate` and `predict` of task models on texts."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.records.datasets import rows_dataset
from keras_bert.records.token_rows import RowBatches
from keras_bert.tasks.base import TextTask
from keras_bert.tasks.prediction import predict_rows
from keras_bert.tasks.recipe import compile_for_texts
from keras_bert.tokenization.user_inputs import as_list, collect, holds_texts

# What goes on to `keras.Model.fit`, and what does not.
FIT_OPTIONS = ("callbacks", "initial_epoch", "validation_freq", "validation_steps", "verbose")
_ADVICE = {
    "steps_per_epoch": "An epoch is a pass over all texts: give fewer of them, or another batch_size.",
    "validation_split": "Give validation_data=(texts, labels).",
}


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
        x, y: texts and labels as the task's page in docs/ says: lists, arrays, or columns of pandas, polars, pyarrow
            and Hugging Face datasets, a single string being a list of one; or `x` is a finite `tf.data.Dataset` of
            both.
        batch_size: examples per update.
        epochs: passes over the examples.
        max_seq_length: longer rows are cut, which is said; by default what the model has positions for.
        validation_data: (x, y), (x, y, sample_weight) or a data set, evaluated after each epoch.
        sample_weight: a weight for each example.
        class_weight: label -> weight, or "balanced": every class counts the same in sum.
        seed: that of the order; `keras.utils.set_random_seed` sets that of the dropout.
        **kwargs: `callbacks`, `initial_epoch`, `validation_freq`, `validation_steps`, `verbose` of `keras.Model.fit`.

    Returns:
        The `History` of Keras.

    Raises:
        InputError: texts or labels are empty, missing or do not fit the model, or there is no such option.
    """
    check_options(fit_texts, kwargs, FIT_OPTIONS)
    task = text_task(model)
    examples = _examples(task, x, y, sample_weight, class_weight)
    task.before_training(examples)
    rows = task.encode(examples, max_seq_length).print_notes(sys.stderr).rows
    if not rows.labels:
        raise InputError("There are no labels to train on: give fit(texts, labels).")
    if validation_data is not None:
        validation_data = _validation_dataset(task, validation_data, batch_size, max_seq_length)
    num_batches = len(RowBatches(rows, batch_size))
    compile_for_texts(model, num_batches, epochs, kwargs.get("initial_epoch", 0))
    dataset = rows_dataset(rows, batch_size, shuffle=shuffle, repeat=True, seed=seed)
    return model.fit(dataset, epochs=epochs, steps_per_epoch=num_batches, validation_data=validation_data, **kwargs)


def evaluate_texts(
    model,
    x,
    y=None,
    batch_size: int = 32,
    *,
    max_seq_length: int | None = None,
    sample_weight=None,
    verbose="auto",
    return_dict: bool = True,
    **kwargs,
) -> dict[str, float]:
    """Returns the official scores of a model on texts with labels.

    Args: as for `fit_texts`.
        verbose: 0 shows no progress; else what takes long does.
        return_dict: as Keras names it; scores of texts are a dictionary always.
        **kwargs: nothing; so that an option of Keras that texts do not have is refused by name.

    Raises:
        InputError: as `fit_texts`; or `return_dict` is false.
    """
    check_options(evaluate_texts, kwargs)
    check_return_dict(return_dict)
    task = text_task(model)
    examples = _examples(task, x, y, sample_weight)
    encoded = task.encode(examples, max_seq_length).print_notes(sys.stderr)
    answers = task.answers(examples, encoded, predict_rows(model, encoded.rows, batch_size, verbose))
    return task.scores(examples, answers)


def predict_texts(
    model, x, batch_size: int = 32, *, max_seq_length: int | None = None, verbose="auto", **options
) -> list:
    """Returns a list of the model's answers to texts. A single string gives a list of one.

    Args:
        x: texts, as for `fit_texts`.
        verbose: 0 shows no progress; else what takes long does.
        options: what the task's `answers` takes beyond that.

    Raises:
        InputError: texts are missing or do not fit the model, or there is no such option.
    """
    task = text_task(model)
    check_options(predict_texts, options, option_names(task.answers))
    examples = _examples(task, x)
    encoded = task.encode(examples, max_seq_length).print_notes(sys.stderr)
    return task.answers(examples, encoded, predict_rows(model, encoded.rows, batch_size, verbose), **options)


def check_options(function: Callable, given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raises `InputError` when an option is none of `others`, and so of none that `function` takes."""
    unknown = next((name for name in given if name not in others), None)
    if unknown is not None:
        advice = _ADVICE.get(unknown) or f"It has: {', '.join([*option_names(function), *others])}."
        raise InputError(f"{function.__name__.removesuffix('_texts')} on texts has no option {unknown}. {advice}")


def check_return_dict(return_dict: bool) -> None:
    """Raises `InputError` when a list of scores is asked for."""
    if not return_dict:
        raise InputError("evaluate on texts returns its scores as a dictionary: leave return_dict=False out.")


def option_names(function: Callable) -> list[str]:
    """Returns the names of the arguments of a function that may be left out."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is not parameter.empty]


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
    parts = data if isinstance(data, (tuple, list)) else (data,)
    if not holds_texts(parts[0] if parts else None):
        return data
    if len(parts) > 3:
        raise InputError(
            f"validation_data is (texts, labels) or (texts, labels, weights). Received: {len(parts)} of them"
        )
    encoded = task.encode(_examples(task, *parts), max_seq_length)
    if not encoded.rows.labels:
        raise InputError("There are no labels to validate on: give validation_data=(texts, labels).")
    return rows_dataset(encoded.rows, batch_size)
