"""Computes the outputs of a model for many rows, in batches of rows of similar length."""

import sys
from collections.abc import Mapping

import numpy as np
from tqdm import tqdm

from keras_bert.program.number_checks import check_numbers
from keras_bert.records.token_rows import RowBatches, TokenRows

# A progress line appears if prediction takes longer than this.
_SECONDS_WITHOUT_PROGRESS = 2.0
# Other backends than TensorFlow compile the model for every length, so batches are padded to multiples of this.
_STEP = 16


class Calls:
    """Calls the user's Keras callbacks around prediction in batches, as `evaluate` and `predict` of Keras do.

    Args:
        model: the model.
        callbacks: a list of callbacks, a single one, or None.
        kind: "test" or "predict", part of the names of the called methods, such as `on_test_batch_end`.
    """

    def __init__(self, model, callbacks, kind: str):
        self._list = None
        self._kind = kind
        if callbacks:
            import keras  # only now: loaded exports predict without it

            self._list = keras.callbacks.CallbackList(callbacks, model=model)

    def begin(self) -> None:
        self._call("begin")

    def batch_begin(self, batch: int) -> None:
        self._call("batch_begin", batch)

    def batch_end(self, batch: int, outputs) -> None:
        self._call("batch_end", batch, {"outputs": outputs} if self._kind == "predict" else None)

    def end(self, logs: Mapping[str, float] | None = None) -> None:
        self._call("end", dict(logs or {}))

    def _call(self, moment: str, *arguments) -> None:
        if self._list is not None:
            getattr(self._list, f"on_{self._kind}_{moment}")(*arguments)


def predict_rows(model, rows: TokenRows, batch_size: int = 32, verbose="auto", calls: Calls | None = None):
    """Runs a model over rows.

    Args:
        model: a task model; or a loaded export, whose `engine` is run instead of a Keras model.
        rows: N examples, T tokens in total.
        batch_size: examples per batch.
        verbose: 0 shows no progress; otherwise a progress line appears after 2 seconds.
        calls: the callbacks to call when prediction begins and around each batch; `end` is left to the caller.

    Returns:
        An array (N, ...), in the order of `rows`; for models with `has_token_outputs` an array (T, ...), aligned with
        `rows.tokens`. A dictionary of such arrays if the model returns a dictionary.

    Raises:
        InputError: an output is not a number.
    """
    model.warn_if_untrained()
    batches = RowBatches(rows, batch_size)
    calls = calls or Calls(model, None, "predict")
    if hasattr(model, "engine"):
        forward = model.engine.run
    else:
        forward = forward_function(model, num_axes=3 if rows.rows_per_example > 1 else 2)
    result = {}
    calls.begin()
    with tqdm(
        total=len(rows),
        unit="example",
        delay=_SECONDS_WITHOUT_PROGRESS,
        file=sys.stderr,
        leave=False,
        disable=not verbose,
    ) as progress:
        for number, examples in enumerate(batches.order()):
            calls.batch_begin(number)
            batch = rows.batch(examples)
            outputs = forward({name: batch[name] for name in model.feature_names})
            named = outputs if isinstance(outputs, Mapping) else {None: outputs}
            for name, values in named.items():
                _put(result, name, np.asarray(values), rows, examples, model.has_token_outputs)
            calls.batch_end(number, outputs)
            progress.update(len(examples))
    for values in result.values():
        check_numbers(values, "row", rows.splits if model.has_token_outputs else None)
    return result if isinstance(outputs, Mapping) else result[None]


def forward_function(model, num_axes: int | None = None):
    """Returns the model's forward pass as a compiled function that takes batches of any size and length.

    `num_axes` is the number of axes of the features, by default that of `model.feature_axes`.
    """
    # Only now, because these take seconds.
    from keras_bert.accelerate.backend import on_tensorflow
    from keras_bert.accelerate.traced_functions import traced

    if not on_tensorflow():
        return lambda features: model.predict_on_batch(_padded(features, model.config.max_sequence_length))
    import tensorflow as tf

    axes = [None] * (num_axes or len(model.feature_axes))
    signature = {name: tf.TensorSpec(axes, tf.int32, name) for name in model.feature_names}
    return traced(model, ("features", len(axes)), lambda features: model(features, training=False), [signature])


def _padded(batch: Mapping[str, np.ndarray], longest: int) -> dict[str, np.ndarray]:
    """Pads the rows of a batch with zeros to a multiple of `_STEP`, at most to `longest`. The mask hides the zeros."""
    width = next(iter(batch.values())).shape[-1]
    missing = min(-(-width // _STEP) * _STEP, longest) - width
    return {name: np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)]) for name, values in batch.items()}


def _put(result: dict, name, values: np.ndarray, rows: TokenRows, examples: np.ndarray, is_per_token: bool) -> None:
    """Writes the outputs of a batch to their positions in `result`."""
    if name not in result:
        shape = (rows.splits[-1], *values.shape[2:]) if is_per_token else (len(rows), *values.shape[1:])
        result[name] = np.zeros(shape, values.dtype)
    if not is_per_token:
        result[name][examples] = values
        return
    column = np.arange(values.shape[1])
    is_real = column < (rows.splits[examples + 1] - rows.splits[examples])[:, None]
    result[name][(rows.splits[examples][:, None] + column)[is_real]] = values[is_real]
