"""Parameters of tests: `make test` runs a few of them, `make test-slow` the others."""

import pytest


def slow_except(fast, values) -> list:
    """Marks all values but those in `fast` as slow."""
    return [value if value in fast else _slow(value) for value in values]


def _slow(value):
    """Marks a parameter, or a tuple of parameters, as slow."""
    return pytest.param(*value if isinstance(value, tuple) else (value,), marks=pytest.mark.slow)
