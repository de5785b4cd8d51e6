"""`fit` of task models on texts, and its recipe: that of the paper, for models that the user has not compiled."""

import contextlib
import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.models.fit_callbacks import rate_setter
from keras_bert.optimization import FOR_ONE_FIT, AdamW, OneFitDecay
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import holds_texts, listed_texts
from keras_bert.records.token_rows import batch_size_of
from keras_bert.tasks.base import Answered, TextTask, check_labels_of_rows, text_task
from keras_bert.tasks.examples import complete_examples, first_held_out, read_examples

# One of the learning rates, and the warm-up, of Devlin et al., 2018, section A.3.
LEARNING_RATE = 5e-5
_WARMUP_PROPORTION = 0.1


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
    **keras_options,
):
    """Trains a model on texts, and returns the `History` of Keras.

    The arguments and errors are those of `TextModel.fit`; `keras_options` are those that `keras.Model.fit` gets. With a
    `teacher`, `tasks.distillation.distill` trains, which gets `keras_options` with its own options.
    """
    batch_size = batch_size_of(batch_size)
    if teacher is not None:
        others = {"validation_data": validation_data, "class_weight": class_weight, "sample_weight": sample_weight}
        others |= {"validation_split": validation_split or None, "steps_per_epoch": steps_per_epoch}
        others |= {"skip_missing": skip_missing or None}
        options = {"batch_size": batch_size, "max_seq_length": max_seq_length, "seed": seed, "epochs": epochs}
        return _fit_to_teacher(model, teacher, x, y, others, **options, **keras_options)
    # Only now, because it imports TensorFlow on every backend.
    from keras_bert.records.datasets import rows_dataset

    task = text_task(model)
    examples, held_out = read_examples(task, x, y, sample_weight, skip_missing), None
    if validation_split and validation_data is None:
        first = first_held_out(len(examples), validation_split)
        examples, held_out = examples.part(0, first), examples.part(first, len(examples))
    if class_weight is not None:
        if sample_weight is not None or examples.weights is not None:
            raise InputError("Give sample_weight or class_weight, not both.")
        examples = dataclasses.replace(examples, weights=task.class_weights(examples, class_weight))
    task.before_training(examples)
    rows = task.taught(task.rows(examples, max_seq_length).print_notes(sys.stderr).rows, examples, batch_size)
    check_labels_of_rows(rows, "to train on: give fit(texts, labels)")
    validation_batch_size = validation_batch_size or batch_size
    if held_out is not None:
        validation_data = _rows_to_validate(task, held_out, validation_batch_size, max_seq_length)
    elif validation_data is not None:
        parts = _validation_parts(task, x, y, validation_data)
        validation_data = _validation_dataset(task, parts, validation_batch_size, max_seq_length, skip_missing)
    num_batches = len(rows.batches(batch_size, seed if shuffle else None))
    make_dataset = functools.partial(rows_dataset, rows, batch_size, shuffle=shuffle, repeat=True, seed=seed)
    keras_options["validation_data"] = validation_data
    return fit_on_batches(model, make_dataset, num_batches, steps_per_epoch, epochs, **keras_options)


def _fit_to_teacher(model, teacher, x, y, others: Mapping[str, Any], **options):
    from keras_bert.tasks.distillation import distill

    if given := [name for name, value in others.items() if value is not None]:
        raise InputError(f"A fit with a teacher has no {', '.join(given)}. Leave it out.")
    return distill(model, teacher, x, y, **options)


def fit_on_batches(
    model, make_dataset: Callable, num_batches: int, steps_per_epoch: int | None, epochs: int, **options
):
    """Compiles a model for one `fit` on texts, see `compile_for_texts`, and trains it. Returns the `History` of Keras.

    `make_dataset` gets the number of the first update as `start_step`. A pass over the texts has `num_batches`.
    """
    steps = num_steps(steps_per_epoch, num_batches)
    first_epoch = options.get("initial_epoch", 0)
    compile_for_texts(model, steps, epochs, first_epoch, options.get("callbacks"))
    dataset = make_dataset(start_step=first_step(model, steps, first_epoch))
    return model.fit(dataset, epochs=epochs, steps_per_epoch=steps, **options)


def outputs_with_labels(model, x, y, batch_size: int | None, max_seq_length: int | None) -> Answered:
    """Returns held-out texts with labels and the outputs of a model for them, without its answers."""
    task = text_task(model)
    examples = complete_examples(task, x, y)
    example_rows = task.rows(examples, max_seq_length)
    outputs = task.outputs(example_rows.rows, batch_size, 0)
    return Answered(model, examples, example_rows, outputs, [])


def first_step(model, steps_per_epoch: int, initial_epoch: int) -> Callable[[], int]:
    """Returns a function of the number of the first update, which `BackupAndRestore` may set when the fit has begun."""
    return lambda: steps_per_epoch * (model._initial_epoch or initial_epoch)


def num_steps(steps_per_epoch: int | None, num_batches: int) -> int:
    """Returns the updates in an epoch, by default `num_batches`. Raises `InputError` for a number below 1."""
    if steps_per_epoch is None:
        return num_batches
    check_whole("steps_per_epoch", steps_per_epoch, at_least=1)
    return steps_per_epoch


def _validation_parts(task: TextTask, x, y, data) -> Any:
    """Returns `validation_data` as (x, y) if it has the columns of texts themselves, as where `fit` has no y."""
    parts = tuple(data) if isinstance(data, (tuple, list)) else ()
    if len(parts) < 2 or not holds_texts(parts[0]) or hasattr(parts[0], "element_spec"):
        return data
    if task.text_columns(x) is None or task.text_columns(parts[0]) is not None:
        return data
    if y is None:
        return (parts, None)
    raise InputError(
        f"validation_data must have the columns of texts in a tuple of their own, as fit has them: ((texts, others), "
        f"labels). Received: {len(parts)} parts, and the first is one column."
    )


def _validation_dataset(task: TextTask, data, batch_size: int, max_seq_length: int | None, skip_missing: bool):
    parts = tuple(data) if isinstance(data, (tuple, list)) else (data,)
    parts = (listed_texts(parts[0]), *parts[1:]) if parts else parts
    if not holds_texts(parts[0] if parts else None):
        return parts if isinstance(data, (tuple, list)) else parts[0]
    if len(parts) > 3:
        raise InputError(
            f"validation_data must be (texts, labels) or (texts, labels, weights). Received: {len(parts)} parts"
        )
    x, y, weight = (*parts, None, None)[:3]
    return _rows_to_validate(task, read_examples(task, x, y, weight, skip_missing), batch_size, max_seq_length)


def _rows_to_validate(task: TextTask, examples, batch_size: int, max_seq_length: int | None):
    from keras_bert.records.datasets import rows_dataset

    rows = task.taught(task.rows(examples, max_seq_length).rows, examples, batch_size)
    check_labels_of_rows(rows, "to validate on: give validation_data=(texts, labels)")
    return rows_dataset(rows, batch_size)


def recipe_optimizer(
    num_batches: int, epochs: int, initial_epoch: int = 0, callbacks: Any = None, learning_rate: float = LEARNING_RATE
):
    """Returns an `AdamW` whose rate rises to its peak for a tenth of the updates of one `fit` and then falls to 0.

    With a callback that sets the rate, such as `ReduceLROnPlateau`, the rate begins at the peak and is constant. The
    arguments are those of `keras.Model.fit`, which trains for `epochs - initial_epoch` epochs of `num_batches` updates.
    """
    if rate_setter(callbacks):
        return AdamW(learning_rate, name=FOR_ONE_FIT)
    num_steps = max(1, num_batches * (epochs - initial_epoch))
    return AdamW(OneFitDecay(learning_rate, num_steps, int(num_steps * _WARMUP_PROPORTION)))


def compile_for_texts(model, num_batches: int, epochs: int, initial_epoch: int = 0, callbacks: Any = None) -> None:
    """Compiles a model for one `fit` on texts; the arguments are those of `recipe_optimizer`.

    A model that the user has compiled keeps its optimizer. Any other model gets a new one in each `fit`, since the rate
    of the previous optimizer has fallen to 0. XLA is disabled, even if `compile` enabled it: it would compile anew for
    each batch length.
    """
    if not model.compiled or model.is_compiled_for_one_fit:
        with model.distribute_strategy.scope() if on_tensorflow() else contextlib.nullcontext():
            model.compile(optimizer=recipe_optimizer(num_batches, epochs, initial_epoch, callbacks))
    if on_tensorflow():  # elsewhere, without compiling, each operation would run by itself
        model.jit_compile = False


def compile_for_features(model, arguments: Mapping[str, Any]) -> None:
    """Compiles a model that the user has not compiled for one `fit` of Keras with these arguments, as for texts.

    Raises `InputError` if nobody knows how many updates an epoch has.
    """
    num_batches = num_batches_of(arguments)
    if num_batches is None:
        raise InputError(
            "The learning rate falls to 0 at the last update, and the number of batches is unknown. Give "
            "steps_per_epoch, or call compile(optimizer=...) first."
        )
    epochs = arguments.get("epochs", 1), arguments.get("initial_epoch", 0)
    compile_for_texts(model, num_batches, *epochs, arguments.get("callbacks"))


def num_batches_of(arguments: Mapping[str, Any]) -> int | None:
    """Returns the updates in an epoch of a `fit` on features; None if nobody knows. `arguments` are those of `fit`."""
    if steps := arguments.get("steps_per_epoch"):
        return steps
    x = arguments["x"]
    if isinstance(x, Mapping):
        num_examples = len(next(iter(x.values()))) * (1 - (arguments.get("validation_split") or 0.0))
        return math.ceil(num_examples / (arguments.get("batch_size") or 32))
    if hasattr(x, "cardinality"):  # a tf.data.Dataset; below 0 if infinite or unknown
        return max(0, int(x.cardinality())) or None
    number = getattr(x, "num_batches", None)  # a PyDataset
    return len(x) if number is None and hasattr(x, "__len__") else number
