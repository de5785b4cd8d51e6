"""The paper's recipe for fine-tuning, the default for models that the user has not compiled."""

import contextlib
import math
from collections.abc import Mapping
from typing import Any

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.models.fit_callbacks import rate_setter
from keras_bert.optimization import FOR_ONE_FIT, AdamW, OneFitDecay
from keras_bert.program.errors import InputError

# One of the learning rates, and the warm-up, of Devlin et al., 2018, section A.3.
LEARNING_RATE = 5e-5
_WARMUP_PROPORTION = 0.1


def recipe_optimizer(
    num_batches: int,
    epochs: int,
    initial_epoch: int = 0,
    callbacks: Any = None,
    learning_rate: float = LEARNING_RATE,
):
    """Returns an `AdamW` whose rate rises for a tenth of the updates of one `fit` and then falls to 0.

    With a callback that sets the rate, such as `ReduceLROnPlateau`, the rate begins at the peak and is constant.

    Args:
        num_batches: updates in an epoch.
        epochs, initial_epoch: as in `keras.Model.fit`, which trains for `epochs - initial_epoch` epochs.
        callbacks: those of `fit`.
        learning_rate: the peak rate.
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
    """Compiles a model that the user has not compiled for one `fit` on features, as for texts.

    Args:
        arguments: those of `keras.Model.fit`, by name.

    Raises:
        InputError: nobody knows how many updates an epoch has.
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
