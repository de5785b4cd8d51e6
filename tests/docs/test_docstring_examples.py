"""Every `>>>` example of a docstring runs and prints the shown output, and lists have their shape."""

import doctest
import importlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import DOCS, PROJECT

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


def test_the_examples_of_the_page_on_tokenizers_run():
    examples = re.sub(r"^```.*$", "", (DOCS / "tokenizer.md").read_text("utf-8"), flags=re.M)
    test = doctest.DocTestParser().get_doctest(examples, {}, "tokenizer.md", None, 0)
    assert doctest.DocTestRunner().run(test) == (0, 3)  # failed, tried


def test_modules_with_examples_are_found():
    assert "keras_bert.program.json_files" in MODULES
