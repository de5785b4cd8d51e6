"""Exported models run in the TensorFlow of older servers. Environment variables name Pythons that have it:

KERAS_BERT_TF_2_12_PYTHON    with tensorflow 2.12.1 and tensorflow-text 2.12.1, as TensorFlow Serving 2.12 to 2.19
KERAS_BERT_TF_2_20_PYTHON    with tensorflow 2.20.0 and tensorflow-text 2.20.0, as TensorFlow Serving 2.20
"""

import inspect
import json
import os
import subprocess

import pytest
from signature_questions import as_bytes, as_lists, as_tensors, assert_answers, questions

PROGRAM = """
from __future__ import annotations

import glob, importlib.util, json, os, sys

import numpy as np
import tensorflow as tf

{helpers}
[folder] = importlib.util.find_spec("tensorflow_text").submodule_search_locations
for library in sorted(glob.glob(os.path.join(folder, "python", "ops", "*.so"))):
    tf.load_op_library(library)
loaded, answers = {{}}, []
for folder, signature, inputs in json.loads(sys.stdin.read()):
    if folder not in loaded:
        loaded[folder] = tf.saved_model.load(folder)
    outputs = loaded[folder].signatures[signature](**as_tensors(inputs))
    answers.append(as_lists({{name: values.numpy() for name, values in outputs.items()}}))
print(json.dumps({{"version": tf.__version__, "answers": answers}}))
"""


def with_its_python(version):
    """A version; if no Python with it is named, the test is skipped before any model is exported."""
    variable = f"KERAS_BERT_TF_{version.replace('.', '_')}_PYTHON"
    skip = pytest.mark.skipif(not os.environ.get(variable), reason=f"{variable} names no Python")
    return pytest.param(version, os.environ.get(variable), id=version, marks=skip)


@pytest.mark.parametrize(("version", "python"), [with_its_python("2.12"), with_its_python("2.20")])
def test_other_versions_of_tensorflow_give_the_same_answers(served, version, python, tmp_path):
    _, folders = served
    asked = [[folders[question.model], question.signature, question.inputs] for question in questions()]
    helpers = map(inspect.getsource, (as_bytes, as_tensors, as_lists))
    command = [python, "-I", "-c", PROGRAM.format(helpers="\n".join(helpers))]
    result = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert result["version"].startswith(version)
    assert_answers(questions(), result["answers"], folders)
