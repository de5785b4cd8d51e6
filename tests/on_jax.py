"""Runs programs on Keras' JAX backend: with this Python, or with the one that KERAS_BERT_JAX_PYTHON names."""

import importlib.util
import os
import subprocess
import sys

import pytest
from places import PROJECT, TESTS


def jax_python() -> str | None:
    if "KERAS_BERT_JAX_PYTHON" in os.environ:
        return os.environ["KERAS_BERT_JAX_PYTHON"]
    return sys.executable if importlib.util.find_spec("jax") else None


needs_jax = pytest.mark.skipif(
    jax_python() is None, reason="jax is not installed, and KERAS_BERT_JAX_PYTHON names no Python"
)


def command_on(backend: str, *arguments, **variables: str) -> dict:
    """Returns the arguments of `subprocess.run` for a Python program on a backend.

    Args:
        arguments: those of Python, such as "-c" and a program.
        variables: of the environment. XLA optimises little: its compiler would take longer than the tiny models.
    """
    python = jax_python() if backend == "jax" else sys.executable
    path = f"{PROJECT}{os.pathsep}{TESTS}"
    own = {"KERAS_BACKEND": backend, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return {"args": [python, *map(str, arguments)], "env": {**os.environ, **own, **variables}}


def output_on_jax(program: str, *arguments, input: str | None = None, **variables: str) -> str:
    """Returns what a program prints on JAX."""
    command = command_on("jax", "-c", program, *arguments, **variables)
    result = subprocess.run(**command, input=input, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout
