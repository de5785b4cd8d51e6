"""Computes the outputs of a model for many rows, in batches of rows of similar length, and shows how far it is."""

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.program.long_work import progress_bar
from keras_bert.program.number_checks import check_numbers
from keras_bert.records.token_rows import RowBatches, TokenRows, batch_size_of

# A progress line appears if prediction takes longer than this.
_SECONDS_WITHOUT_PROGRESS = 2.0
# A bar of texts appears after this time, and moves this often.
_SECONDS_WITHOUT_BAR, _SECONDS_BETWEEN_LINES = 10, 1
# Other backends than TensorFlow compile the model for every length, so batches are padded to multiples of this.
_STEP = 16


class Calls:
    """Calls the user's Keras callbacks around prediction in batches, as `evaluate` and `predict` of Keras do.

    `kind`, "test" or "predict", is part of the names of the called methods, such as `on_test_batch_end`.
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


def predict_rows(
    model,
    rows: TokenRows,
    batch_size: int | None = None,
    verbose="auto",
    calls: Calls | None = None,
    forward: Callable | None = None,
):
    """Runs a model, or a loaded export, over N examples with T tokens in total.

    Args:
        batch_size: examples per batch; None for 32.
        verbose: 0 shows no progress; otherwise a progress line appears after 2 seconds, if there are several batches.
        calls: the callbacks to call when prediction begins and around each batch; `end` is left to the caller.
        forward: computes something else than the model's outputs; see `forward_function`.

    Returns:
        An array (N, ...), in the order of `rows`; for models with `has_token_outputs` an array (T, ...), aligned with
        `rows.tokens`. A dictionary of such arrays if the model returns a dictionary.

    Raises `InputError` if an output is not a number.
    """
    model.warn_if_untrained()
    forward = forward or forward_function(model, num_axes=3 if rows.rows_per_example > 1 else 2)
    if not verbose or len(rows) <= batch_size_of(batch_size):
        return outputs_of_rows(run_batches(forward, rows, batch_size, calls), rows, model.has_token_outputs)
    with progress_bar(
        total=len(rows), unit="example", delay=_SECONDS_WITHOUT_PROGRESS, file=sys.stderr, leave=False
    ) as progress:
        batches = run_batches(forward, rows, batch_size, calls, progress.update)
        return outputs_of_rows(batches, rows, model.has_token_outputs)


def run_batches(
    forward: Callable,
    rows: TokenRows,
    batch_size: int | None,
    calls: Calls | None = None,
    on_progress: Callable[[int], Any] = lambda num_examples: None,
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields the numbers of the examples of each batch, int (B,), and the result of `forward` for their features.

    The rows of a batch have similar length. The longest rows come first. A loaded export may take more examples at
    once than `batch_size`: it computes few of them at a time.
    """
    calls = calls or Calls(None, None, "predict")
    batches = RowBatches(rows, batch_size)
    at_once = getattr(forward, "examples_at_once", 1)
    if at_once > batches.batch_size:
        batches = RowBatches(rows, at_once)
    calls.begin()
    for number, examples in enumerate(batches.order()):
        calls.batch_begin(number)
        outputs = forward(rows.batch(examples))
        yield examples, outputs
        calls.batch_end(number, outputs)
        on_progress(len(examples))


def outputs_of_rows(batches: Iterable[tuple[np.ndarray, Any]], rows: TokenRows, has_token_outputs: bool = False):
    """Returns the outputs of all batches of `run_batches` in the order of `rows`; see `predict_rows`."""
    result, outputs = {}, None
    for examples, outputs in batches:
        for name, values in (outputs if isinstance(outputs, Mapping) else {None: outputs}).items():
            _put(result, name, np.asarray(values), rows, examples, has_token_outputs)
    for values in result.values():
        check_numbers(values, "row", rows.splits if has_token_outputs else None)
    return result if isinstance(outputs, Mapping) else result[None]


def forward_function(model, num_axes: int = 2, key: Hashable = "outputs", choose: Callable | None = None) -> Callable:
    """Returns the forward pass of a model as a function of a batch, whatever the model runs on.

    On TensorFlow it is traced once for batches of any size and length. The features have `num_axes` axes.

    Args:
        model: a Keras model; or a loaded export, whose `engine` is run.
        choose: called with the outputs and the features; its result is returned instead of the outputs.
        key: tells functions `choose` of one model apart; it holds everything that `choose` reads besides the model.
    """
    names = model.feature_names
    choose = choose or (lambda outputs, features: outputs)
    if hasattr(model, "engine"):

        def run(batch):
            return choose(model.engine.run({name: batch[name] for name in names}), batch)

        run.examples_at_once = model.engine.examples_at_once
        return run
    # Only now, because it takes seconds.
    from keras_bert.accelerate.backend import tensorflow_functions

    if tensorflow_functions:
        return traced_on_features(
            model, key, lambda features: choose(model(features, training=False), features), names, num_axes
        )

    def forward(batch):
        features = _padded({name: batch[name] for name in names}, model.config.max_sequence_length)
        return choose(model.predict_on_batch(features), features)

    return forward


def traced_on_features(model, key: Hashable, function: Callable, names: Sequence[str], num_axes: int = 2) -> Callable:
    """Returns a function of a batch that calls `function` with the features `names`; on TensorFlow, it is traced."""
    # Only now, because these take seconds, and loaded exports do without them.
    from keras_bert.accelerate.backend import tensorflow_functions
    from keras_bert.accelerate.traced_functions import traced

    signature = None
    if tensorflow_functions:
        import tensorflow as tf

        signature = [{name: tf.TensorSpec([None] * num_axes, tf.int32, name) for name in names}]
    compute = traced(model, (key, *names, num_axes), function, signature)
    return lambda batch: compute({name: batch[name] for name in names})


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


@contextlib.contextmanager
def text_progress(texts: Any, on_progress: Callable[[int], Any] | None) -> Iterator[Callable[[int], Any]]:
    """Yields `on_progress` or, for None, a function that moves a bar of the texts, which appears after ten seconds."""
    if on_progress is not None:
        yield on_progress
        return
    total = len(texts) if hasattr(texts, "__len__") and not isinstance(texts, str) else None
    with progress_bar(
        total=total, unit=" texts", mininterval=_SECONDS_BETWEEN_LINES, delay=_SECONDS_WITHOUT_BAR
    ) as bar:
        yield bar.update
