"""Stands for a full disk: tests limit the size of files instead of filling one."""

import contextlib

import pytest


@contextlib.contextmanager
def file_size_limit(num_bytes: int):
    """Lets every file that grows beyond so many bytes fail, in this process and while the block runs."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
