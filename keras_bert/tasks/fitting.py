"""`fit`, `evaluate` and `predict` of task models on texts."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.records.token_rows import RowBatches
from keras_bert.tasks.base import TextTask
from keras_bert.tasks.prediction import predict_rows
from keras_bert.tokenization.user_inputs import as_list, collect, holds_texts

# Options that are passed on to `keras.Model.fit`, and advice for options that are not.
FIT_OPTIONS = ("callbacks", "initial_epoch", "validation_freq", "validation_steps", "verbose")
_ADVICE = {
    "steps_per_epoch": "An epoch is a pass over all texts: give fewer of them, or another batch_size.",
    "validation_split": "Give validation_data=(texts, labels).",
}


def text_task(model) -> TextTask:
    """Returns the task of a model. It is cached until the vocabulary changes.

    Raises:
        InputError: the model has no vocabulary, or has no task on texts.
    """
    if not model.text_task:
        raise InputError(f"{type(model).__name__} takes features, not texts. Received: texts.")
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

    Rows of similar length form a batch, which is padded to its longest row. A model that the user has compiled keeps
    its optimizer. Any other model gets a new `AdamW` in each call, with the paper's learning rate of 5e-5: the rate
    rises for a tenth of the updates of this call and then falls to 0.

    XLA is disabled, even if `compile` enabled it: it would compile anew for each batch length.

    Args:
        x, y: texts and labels as described on the task's page in docs/: lists, arrays, or columns of pandas, polars,
            pyarrow and Hugging Face datasets; a single string counts as a list of one. Or `x` is a finite
            `tf.data.Dataset` of texts and labels.
        batch_size: examples per update.
        epochs: passes over the examples.
        max_seq_length: longer rows are cut, and a note reports it; by default the number of the model's positions.
        validation_data: (x, y), (x, y, sample_weight) or a data set, evaluated after each epoch.
        sample_weight: N weights, one for each example.
        class_weight: label -> weight, or "balanced", which gives every class the same total weight.
        seed: the seed of the order of examples; `keras.utils.set_random_seed` sets that of dropout.
        **kwargs: `callbacks`, `initial_epoch`, `validation_freq`, `validation_steps`, `verbose` of `keras.Model.fit`.

    Returns:
        The `History` of Keras.

    Raises:
        InputError: texts or labels are empty, missing or do not fit the model, or an option is unknown.
    """
    # Only now, because these take seconds, and predictions of loaded exports do without them.
    from keras_bert.records.datasets import rows_dataset
    from keras_bert.tasks.recipe import compile_for_texts

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

    Args:
        verbose: 0 shows no progress; otherwise a long evaluation shows a progress line.
        return_dict: must be true; the scores of texts are always returned as a dictionary.
        **kwargs: none are valid; options of Keras that do not apply to texts are rejected by name.

    The other arguments are those of `fit_texts`.

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
    """Returns a list of answers of a model, one for each text. A single string counts as a list of one.

    Args:
        x: texts, as for `fit_texts`.
        verbose: 0 shows no progress; otherwise a long prediction shows a progress line.
        options: keyword arguments of the task's `answers`.

    Raises:
        InputError: texts are missing or do not fit the model, or an option is unknown.
    """
    task = text_task(model)
    check_options(predict_texts, options, option_names(task.answers))
    examples = _examples(task, x)
    encoded = task.encode(examples, max_seq_length).print_notes(sys.stderr)
    return task.answers(examples, encoded, predict_rows(model, encoded.rows, batch_size, verbose), **options)


def check_options(function: Callable, given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raises `InputError` if an option is neither a keyword argument of `function` nor one of `others`."""
    unknown = next((name for name in given if name not in others), None)
    if unknown is not None:
        advice = _ADVICE.get(unknown) or f"It has: {', '.join([*option_names(function), *others])}."
        raise InputError(f"{function.__name__.removesuffix('_texts')} on texts has no option {unknown}. {advice}")


def check_return_dict(return_dict: bool) -> None:
    """Raises `InputError` if `return_dict` is false."""
    if not return_dict:
        raise InputError(
            "evaluate on texts returns its scores as a dictionary. Received: return_dict=False. Leave it out."
        )


def option_names(function: Callable) -> list[str]:
    """Returns the names of a function's optional arguments."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is not parameter.empty]


def _examples(task: TextTask, x, y=None, sample_weight=None, class_weight=None) -> Any:
    if hasattr(x, "element_spec"):
        if y is not None:
            raise InputError("A data set must hold texts and labels together. Received: a data set and y. Leave y out.")
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
            f"validation_data must be (texts, labels) or (texts, labels, weights). Received: {len(parts)} parts"
        )
    from keras_bert.records.datasets import rows_dataset

    encoded = task.encode(_examples(task, *parts), max_seq_length)
    if not encoded.rows.labels:
        raise InputError("There are no labels to validate on: give validation_data=(texts, labels).")
    return rows_dataset(encoded.rows, batch_size)
