"""Exported models run in the TensorFlow of older servers. Environment variables name Pythons that have it:

KERAS_BERT_TF_2_12_PYTHON    with tensorflow 2.12.1 and tensorflow-text 2.12.1, as TensorFlow Serving 2.12 to 2.19
KERAS_BERT_TF_2_20_PYTHON    with tensorflow 2.20.0 and tensorflow-text 2.20.0, as TensorFlow Serving 2.20
"""

import json
import os
import subprocess

import pytest
import signature_questions
import tensorflow as tf

# Reads questions (folder, signature, inputs) from standard input and prints the answers.
PROGRAM = """
import glob, importlib.util, json, os, sys

import tensorflow as tf

[folder] = importlib.util.find_spec("tensorflow_text").submodule_search_locations
for library in sorted(glob.glob(os.path.join(folder, "python", "ops", "*.so"))):
    tf.load_op_library(library)
loaded, answers = {}, []
for folder, signature, inputs in json.loads(sys.stdin.read()):
    if folder not in loaded:
        loaded[folder] = tf.saved_model.load(folder)

    def flat(values):
        return [item for value in values for item in flat(value)] if isinstance(values, list) else [values]

    def shape(values):
        return [len(values)] + (shape(values[0]) if values else []) if isinstance(values, list) else []

    def tensor(values):
        items = flat(values)
        if items and isinstance(items[0], int):
            return tf.constant(items, tf.int32, shape(values))
        return tf.constant([item.encode("utf-8", "surrogateescape") for item in items], tf.string, shape(values))

    outputs = loaded[folder].signatures[signature](**{name: tensor(values) for name, values in inputs.items()})
    answers.append({
        name: (values.shape.as_list(), [value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
                                        for value in values.numpy().reshape(-1).tolist()])
        for name, values in outputs.items()
    })
print(json.dumps({"version": tf.__version__, "answers": answers}))
"""


def with_its_python(version):
    """A version; if no Python with it is named, the test is skipped before any model is exported."""
    variable = f"KERAS_BERT_TF_{version.replace('.', '_')}_PYTHON"
    skip = pytest.mark.skipif(
        not os.environ.get(variable), reason=f"{variable} names no Python with TensorFlow {version}"
    )
    return pytest.param(version, os.environ.get(variable), id=version, marks=skip)


@pytest.mark.parametrize(("version", "python"), [with_its_python("2.12"), with_its_python("2.20")])
def test_other_versions_of_tensorflow_give_the_same_answers(served, version, python, tmp_path):
    _, folders = served
    questions = signature_questions.questions()
    result = subprocess.run(
        [python, "-I", "-c", PROGRAM],
        input=signature_questions.as_json(questions, folders),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert result["version"].startswith(version)
    loaded = {name: tf.saved_model.load(folder) for name, folder in folders.items()}
    for question, answer in zip(questions, result["answers"], strict=True):
        signature = loaded[question.model].signatures[question.signature]
        expected = signature(**signature_questions.as_tensors(question.inputs))
        expected = signature_questions.as_lists({name: value.numpy() for name, value in expected.items()})
        # In bfloat16, versions round at different places.
        signature_questions.assert_same(answer, expected, 2e-2 if question.model == "bfloat16" else 1e-5)
