"""Fixtures of the tests of data preparation."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Function of a file's name and of its text, bytes or JSON -> the path of the file."""

    def write_file(name, content):
        path = tmp_path / name
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write_file
