"""What Keras' callbacks and bars need to know of a model."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_bert.program.errors import InputError
from keras_bert.program.long_work import shows_progress

# A metric whose name ends with one of these is better when it is lower.
_LESS_IS_BETTER = ("loss", "error", "perplexity", "entropy")


def callbacks_of(callbacks: Any) -> list:
    """Returns the argument `callbacks` of `fit`, a callback, a list, a `CallbackList` or None, as a list."""
    callbacks = getattr(callbacks, "callbacks", callbacks)
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [] if callbacks is None else [callbacks]


def set_directions(callbacks: Any, names: Iterable[str]) -> None:
    """Tells callbacks without a `mode`, such as `EarlyStopping`, whether less or more of a metric is better.

    Keras knows it of the metrics that were given to `compile` only, and raises an error for others: `names`, which the
    model reports by itself.
    """
    for callback in callbacks_of(callbacks):
        name = str(getattr(callback, "monitor", "")).removeprefix("val_")
        if name in names and getattr(callback, "mode", None) == "auto":
            callback.mode = "min" if name.endswith(_LESS_IS_BETTER) else "max"


def rate_setter(callbacks: Any) -> str | None:
    """Returns the class name of a callback that sets the learning rate, or None."""
    setters = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
    return next((type(one).__name__ for one in callbacks_of(callbacks) if isinstance(one, setters)), None)


def check_rate_setter(callbacks: Any, schedule: Any) -> None:
    """Raises `InputError` if a callback sets the learning rate of an optimizer that has a schedule."""
    setter = rate_setter(callbacks)
    if setter and isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        raise InputError(
            f"{setter} sets the learning rate, but the optimizer has a schedule, {type(schedule).__name__}. Call "
            "compile with an optimizer that has a number, such as AdamW(5e-5), or leave the callback out."
        )


def verbose_of_thread(verbose: Any) -> Any:
    """Returns `verbose`; for "auto" 0 in other threads than the main one, whose bars of Keras would mix."""
    return verbose if verbose != "auto" or shows_progress() else 0
