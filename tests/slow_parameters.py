"""Parameters of tests: `make test` runs a few of them, `make test-slow` the others."""

import pytest


def slow_except(fast, values) -> list:
    """Marks all values but those in `fast` as slow."""
    return [value if value in fast else pytest.param(value, marks=pytest.mark.slow) for value in values]
