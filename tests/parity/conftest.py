"""The other implementations. KERAS_BERT_PARITY_PYTHON names a Python that has them; it needs no TensorFlow:

KERAS_BERT_PARITY_PYTHON=/path/to/python pytest tests/parity
"""

import os
import subprocess

import pytest


@pytest.fixture(scope="session")
def transformers_python():
    """Returns the path of a Python with torch and transformers, or skips the test."""
    python = os.environ.get("KERAS_BERT_PARITY_PYTHON")
    if not python:
        pytest.skip("KERAS_BERT_PARITY_PYTHON does not name a Python with torch and transformers")
    return python


@pytest.fixture(scope="session")
def sentence_transformers_python(transformers_python):
    """Returns the path of a Python with sentence-transformers, or skips the test."""
    if subprocess.run([transformers_python, "-c", "import sentence_transformers"], capture_output=True).returncode:
        pytest.skip("KERAS_BERT_PARITY_PYTHON names no Python with sentence-transformers")
    return transformers_python
