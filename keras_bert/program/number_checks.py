"""Refuses outputs of models that are not numbers: NaN and infinite values."""

import numpy as np

from keras_bert.program.errors import InputError


def check_numbers(values: np.ndarray, unit: str = "text", splits: np.ndarray | None = None) -> None:
    """Raises `InputError` if an output of a model is NaN or infinite: no score, answer or search is made from it.

    Args:
        values: `(N, ...)`; other types than floats pass.
        unit: the name of an entry of the first axis in the message, such as "row".
        splits: int `(rows + 1,)`: the entries `splits[r]:splits[r + 1]` belong to row r. None: each is a row.
    """
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    wrong = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if splits is not None:
        wrong = np.unique(np.searchsorted(splits, wrong, side="right") - 1)
    raise InputError(
        f"The model's outputs for {len(wrong)} of {len(values) if splits is None else len(splits) - 1} {unit}s are not "
        f"numbers, the first is {unit} {int(wrong[0]) + 1}. The training has diverged (use a lower learning_rate), or "
        "the weights are damaged."
    )
