"""`fit`, `evaluate` and `predict` of task models on texts."""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.records.token_rows import RowBatches
from keras_bert.tasks.base import TextTask
from keras_bert.tasks.held_out import first_held_out
from keras_bert.tasks.missing_examples import complete_examples
from keras_bert.tasks.prediction import Calls
from keras_bert.tokenization.user_inputs import as_list, collect, holds_texts

# Options that are passed on to `keras.Model.fit`.
FIT_OPTIONS = ("callbacks", "initial_epoch", "validation_freq", "validation_steps", "verbose")
_BATCH_SIZE = 32


def text_task(model) -> TextTask:
    """Returns the task of a model as it is now: its vocabulary, casing and labels may change.

    Raises:
        InputError: the model has no vocabulary, or has no task on texts.
    """
    task = registry.task_of(model)
    if task is None or task.text_task is None:
        raise InputError(f"{type(model).__name__} takes features, not texts. Received: texts.")
    return registry.imported(task.text_task)(model)


def fit_texts(
    model,
    x,
    y=None,
    batch_size: int | None = None,
    epochs: int = 1,
    *,
    max_seq_length: int | None = None,
    validation_split: float = 0.0,
    validation_data=None,
    validation_batch_size: int | None = None,
    shuffle: bool = True,
    sample_weight=None,
    class_weight=None,
    steps_per_epoch: int | None = None,
    seed: int = 12345,
    skip_missing: bool = False,
    teacher=None,
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
        batch_size: examples per update, 32 by default.
        epochs: passes over the examples, or numbers of `steps_per_epoch` updates.
        max_seq_length: longer rows are cut, and a note reports it; by default the number of the model's positions.
        validation_split: the share of the examples, the last ones before shuffling, to evaluate after each epoch
            instead of training on them. Ignored if there is `validation_data`.
        validation_data: (x, y), (x, y, sample_weight) or a data set, evaluated after each epoch.
        validation_batch_size: examples evaluated at once; by default `batch_size`.
        sample_weight: N weights, one for each example.
        class_weight: label -> weight, or "balanced", which gives every class the same total weight. It does not count
            in validation.
        steps_per_epoch: updates in an epoch. The next epoch continues the pass over the examples, and a new pass begins
            when all have been seen. By default an epoch is one pass.
        seed: the seed of the order of examples; `keras.utils.set_random_seed` sets that of dropout.
        skip_missing: whether examples, of validation too, whose text, label or weight is None, NaN or an empty text are
            left out; a note says how many. By default they are an error.
        teacher: for a `SequenceClassifier`, a teacher or its folder: then `tasks.distillation.distill` trains, which
            takes the remaining arguments.
        **kwargs: `callbacks`, `initial_epoch`, `validation_freq`, `validation_steps`, `verbose` of `keras.Model.fit`.

    Returns:
        The `History` of Keras.

    Raises:
        InputError: texts or labels are empty, missing or do not fit the model, or an option is unknown.
    """
    if teacher is not None:
        from keras_bert.tasks.distillation import distill

        others = {"validation_data": validation_data, "class_weight": class_weight, "sample_weight": sample_weight}
        others |= {"validation_split": validation_split or None, "steps_per_epoch": steps_per_epoch}
        others |= {"skip_missing": skip_missing or None}
        if given := [name for name, value in others.items() if value is not None]:
            raise InputError(f"A fit with a teacher has no {', '.join(given)}. Leave it out.")
        options = {"max_seq_length": max_seq_length, "seed": seed, "epochs": epochs}
        return distill(model, teacher, x, y, batch_size=batch_size_of(batch_size), **options, **kwargs)
    # Only now, because these take seconds, and predictions of loaded exports do without them.
    from keras_bert.records.datasets import rows_dataset
    from keras_bert.tasks.recipe import compile_for_texts

    check_options(fit_texts, kwargs, FIT_OPTIONS)
    batch_size, task = batch_size_of(batch_size), text_task(model)
    examples, held_out = _examples(task, x, y, sample_weight, skip_missing), None
    if validation_split and validation_data is None:
        first = first_held_out(len(examples), validation_split)
        examples, held_out = examples.part(0, first), examples.part(first, len(examples))
    if class_weight is not None:
        if sample_weight is not None or examples.weights is not None:
            raise InputError("Give sample_weight or class_weight, not both.")
        examples = dataclasses.replace(examples, weights=task.class_weights(examples, class_weight))
    task.before_training(examples)
    rows = task.rows(examples, max_seq_length).print_notes(sys.stderr).rows
    if not rows.labels:
        raise InputError("There are no labels to train on: give fit(texts, labels).")
    if held_out is not None:
        validation_data = rows_dataset(task.rows(held_out, max_seq_length).rows, validation_batch_size or batch_size)
    elif validation_data is not None:
        validation_data = _validation_dataset(
            task, validation_data, validation_batch_size or batch_size, max_seq_length, skip_missing
        )
    steps_per_epoch = num_steps(steps_per_epoch, len(RowBatches(rows, batch_size)))
    compile_for_texts(model, steps_per_epoch, epochs, kwargs.get("initial_epoch", 0), kwargs.get("callbacks"))
    dataset = rows_dataset(rows, batch_size, shuffle=shuffle, repeat=True, seed=seed)
    return model.fit(dataset, epochs=epochs, steps_per_epoch=steps_per_epoch, validation_data=validation_data, **kwargs)


def evaluate_texts(
    model,
    x,
    y=None,
    batch_size: int | None = None,
    *,
    max_seq_length: int | None = None,
    sample_weight=None,
    skip_missing: bool = False,
    verbose="auto",
    callbacks=None,
    return_dict: bool = True,
    **kwargs,
) -> dict[str, float] | list[float]:
    """Returns the official scores of a model on texts with labels.

    Args:
        verbose: 0 shows no progress; otherwise a long evaluation shows a progress line.
        callbacks: Keras callbacks; their `on_test_...` methods are called. Batches have texts of similar length.
        return_dict: whether to return a dictionary name -> score. Otherwise it is a list of the values, the loss first
            if there is one.
        **kwargs: none are valid; options of Keras that do not apply to texts are rejected by name.

    The other arguments are those of `fit_texts`.

    Raises:
        InputError: as `fit_texts`.
    """
    check_options(evaluate_texts, kwargs)
    task = text_task(model)
    examples = _examples(task, x, y, sample_weight, skip_missing)
    example_rows = task.rows(examples, max_seq_length).print_notes(sys.stderr)
    calls = Calls(model, callbacks, "test")
    outputs = task.outputs(example_rows.rows, batch_size_of(batch_size), verbose, calls)
    scores = task.scores(examples, task.answers(examples, example_rows, outputs))
    calls.end(scores)
    return as_returned(scores, return_dict)


def predict_texts(
    model,
    x,
    batch_size: int | None = None,
    *,
    max_seq_length: int | None = None,
    verbose="auto",
    callbacks=None,
    **options,
) -> list:
    """Returns a list of answers of a model, one for each text. A single string counts as a list of one.

    Args:
        x: texts, as for `fit_texts`.
        batch_size: texts computed at once, 32 by default.
        verbose: 0 shows no progress; otherwise a long prediction shows a progress line.
        callbacks: Keras callbacks; their `on_predict_...` methods are called. Batches have texts of similar length.
        options: keyword arguments of the task's `answers`, and its `output_options`.

    Raises:
        InputError: texts are missing or do not fit the model, or an option is unknown.
    """
    task = text_task(model)
    check_options(predict_texts, options, [*option_names(task.answers), *task.output_options])
    output_options = {name: options.pop(name) for name in task.output_options if name in options}
    examples = _examples(task, x)
    example_rows = task.rows(examples, max_seq_length).print_notes(sys.stderr)
    calls = Calls(model, callbacks, "predict")
    outputs = task.outputs(example_rows.rows, batch_size_of(batch_size), verbose, calls, **output_options)
    calls.end()
    return task.answers(examples, example_rows, outputs, **options)


def check_options(function: Callable, given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raises `InputError` if an option is neither a keyword argument of `function` nor one of `others`."""
    unknown = next((name for name in given if name not in others), None)
    if unknown is not None:
        raise InputError(
            f"{function.__name__.removesuffix('_texts')} on texts has no option {unknown}. It has: "
            f"{', '.join([*option_names(function), *others])}."
        )


def batch_size_of(batch_size: int | None) -> int:
    """Returns `batch_size`; None is 32, as in Keras."""
    return _BATCH_SIZE if batch_size is None else batch_size


def num_steps(steps_per_epoch: int | None, num_batches: int) -> int:
    """Returns the updates in an epoch, by default `num_batches`. Raises `InputError` for a number below 1."""
    if steps_per_epoch is None:
        return num_batches
    if not isinstance(steps_per_epoch, (int, np.integer)) or steps_per_epoch < 1:
        raise InputError(f"steps_per_epoch must be a whole number from 1. Received: {steps_per_epoch!r}")
    return steps_per_epoch


def as_returned(scores: dict[str, float], return_dict: bool) -> dict[str, float] | list[float]:
    """Returns scores as `evaluate` does.

    >>> as_returned({"accuracy": 0.5, "loss": 2.0}, return_dict=False)
    [2.0, 0.5]
    """
    return scores if return_dict else [scores[name] for name in sorted(scores, key=lambda name: name != "loss")]


def option_names(function: Callable) -> list[str]:
    """Returns the names of a function's optional arguments."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is not parameter.empty]


def _examples(task: TextTask, x, y=None, sample_weight=None, skip_missing: bool | None = None) -> Any:
    if hasattr(x, "element_spec"):
        if y is not None:
            raise InputError("A data set must hold texts and labels together. Received: a data set and y. Leave y out.")
        x, y, sample_weight = collect(x, task.example_rank)
    if sample_weight is not None:
        sample_weight = as_list(sample_weight, "sample_weight")
    return complete_examples(task, x, y, sample_weight, skip_missing)


def _validation_dataset(task: TextTask, data, batch_size: int, max_seq_length: int | None, skip_missing: bool):
    parts = data if isinstance(data, (tuple, list)) else (data,)
    if not holds_texts(parts[0] if parts else None):
        return data
    if len(parts) > 3:
        raise InputError(
            f"validation_data must be (texts, labels) or (texts, labels, weights). Received: {len(parts)} parts"
        )
    from keras_bert.records.datasets import rows_dataset

    x, y, weight = (*parts, None, None)[:3]
    example_rows = task.rows(_examples(task, x, y, weight, skip_missing), max_seq_length)
    if not example_rows.rows.labels:
        raise InputError("There are no labels to validate on: give validation_data=(texts, labels).")
    return rows_dataset(example_rows.rows, batch_size)
