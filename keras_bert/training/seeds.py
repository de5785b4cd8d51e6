"""Checks the random seed of a run."""

from keras_bert.program.errors import InputError

_HIGHEST = 2**32 - 1  # the highest seed of NumPy's global generator, which keras.utils.set_random_seed seeds too


def check_seed(seed: int) -> None:
    """Raises `InputError` if `seed` is not a whole number from 0 to 2**32 - 1."""
    if not isinstance(seed, int) or not 0 <= seed <= _HIGHEST:
        raise InputError(f"The random seed must be a whole number from 0 to {_HIGHEST}. Received: {seed}")
