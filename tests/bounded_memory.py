"""Bounds the memory that a part of a test takes."""

import contextlib
import tracemalloc


@contextlib.contextmanager
def memory_below(num_bytes: int):
    """Fails if the block takes this much memory of Python."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < num_bytes
    finally:
        tracemalloc.stop()
