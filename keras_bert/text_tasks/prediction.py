"""The outputs of a model for many rows: rows of like length together, the results in the order of the rows."""

import sys
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_bert.tasks.token_rows import RowBatches, TokenRows

# A progress line appears when there is more to wait for than this.
_SECONDS_WITHOUT_PROGRESS = 2.0


def predict_rows(model, rows: TokenRows, batch_size: int = 32):
    """Runs a model over rows.

    Args:
        model: a task model.
        rows: N examples with T tokens together.

    Returns:
        An array (N, ...), or (T, ...), aligned with `rows.tokens`, where the model `has_token_outputs`. A dictionary of
        these where the model gives a dictionary.
    """
    model.warn_if_untrained()
    batches = RowBatches(rows, batch_size)
    forward = forward_function(model)
    result = {}
    with tqdm(
        total=len(rows), unit="example", delay=_SECONDS_WITHOUT_PROGRESS, file=sys.stderr, leave=False
    ) as progress:
        for examples in batches.order():
            batch = rows.batch(examples)
            outputs = forward({name: batch[name] for name in model.feature_names})
            named = outputs if isinstance(outputs, Mapping) else {None: outputs}
            for name, values in named.items():
                _put(result, name, values.numpy(), rows, examples, model.has_token_outputs)
            progress.update(len(examples))
    return result if isinstance(outputs, Mapping) else result[None]


def forward_function(model):
    """Returns the model's forward pass as a compiled function that takes batches of any size and length."""
    if not hasattr(model, "_forward_on_texts"):
        axes = [None] * len(model.feature_axes)
        signature = {name: tf.TensorSpec(axes, tf.int32, name) for name in model.feature_names}
        model._forward_on_texts = tf.function(
            lambda features: model(features, training=False), input_signature=[signature], autograph=False
        )
    return model._forward_on_texts


def _put(result: dict, name, values: np.ndarray, rows: TokenRows, examples: np.ndarray, is_per_token: bool) -> None:
    """Puts the outputs of a batch to their places."""
    if name not in result:
        shape = (rows.splits[-1], *values.shape[2:]) if is_per_token else (len(rows), *values.shape[1:])
        result[name] = np.zeros(shape, values.dtype)
    if not is_per_token:
        result[name][examples] = values
        return
    column = np.arange(values.shape[1])
    is_real = column < (rows.splits[examples + 1] - rows.splits[examples])[:, None]
    result[name][(rows.splits[examples][:, None] + column)[is_real]] = values[is_real]
