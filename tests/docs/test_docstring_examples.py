"""Every `>>>` example of a docstring runs and prints the shown output, and lists have their shape."""

import ast
import doctest
import importlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import PROJECT

import keras_bert


def files_in(folder):
    return sorted((PROJECT / folder).rglob("*.py"))


FILES = [path for folder in ("keras_bert", "data_prep", "run_scripts", "benchmarks") for path in files_in(folder)]
MODULES = [
    ".".join(path.relative_to(PROJECT).with_suffix("").parts)
    for path in FILES
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    public = {name: getattr(keras_bert, name) for name in keras_bert.__all__}
    names = {"keras": keras, "np": np, "tf": tf, **public, **vars(module)}
    result = doctest.testmod(module, globs=names, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.attempted
    assert not result.failed


def test_modules_with_examples_are_found():
    assert "keras_bert.program.json_files" in MODULES


@pytest.mark.parametrize("folder", ["keras_bert", "data_prep", "run_scripts"])
def test_the_lines_of_a_list_item_begin_in_one_column(folder):
    """Tools that wrap lines move them, and join an argument with the end of the one before."""
    for path in files_in(folder):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                continue
            column = None  # where the text of the current item continues
            for line in (ast.get_docstring(node) or "").splitlines():
                if item := re.match(r" *(\d+\. +|[*-] )", line):
                    column = len(item[0])
                elif not line.strip():
                    column = None
                elif column is not None:
                    assert len(line) - len(line.lstrip()) == column, f"{path.name}, {line!r}"
                assert not re.search(r"[a-z`]\. [a-z]+_[a-z_]+:$", line), f"{path.name}, {line!r}"
