"""The bounds of random seeds."""

from keras_bert.program.options import check_whole

HIGHEST_SEED = 2**32 - 1  # of NumPy's global generator, which keras.utils.set_random_seed seeds too


def check_seed(seed: int) -> None:
    """Raises `InputError` if `seed` is not a whole number from 0 to 2**32 - 1."""
    check_whole("seed", seed, at_least=0, at_most=HIGHEST_SEED)
