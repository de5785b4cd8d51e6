"""All private interfaces of Keras and TensorFlow exist. If a version lacks one, the error names both."""

import ast

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import PROJECT

from keras_bert.program import private_interfaces
from keras_bert.program.errors import InputError
from keras_bert.program.private_interfaces import ATTRIBUTES, FUNCTIONS, private


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_private_function_exists(path):
    assert private(path) is not None


@pytest.fixture(scope="module")
def owners():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(1e-3), loss="mse")
    model.fit(np.ones((2, 3)), np.ones((2, 2)), verbose=0)
    return {
        "keras.Model": model,
        "keras.layers.Dense": model.layers[0],
        "keras.optimizers.Optimizer": model.optimizer,
        "tensorflow.Tensor": tf.constant(1),
        "tensorflow.Variable": tf.Variable(1),
        "tensorflow.compat.v1.Session": tf.compat.v1.Session,
    }


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in ATTRIBUTES.items() for name in names])
def test_a_private_attribute_exists(owners, owner, name):
    assert hasattr(owners[owner], name), (
        f"keras {keras.__version__}, tensorflow {tf.__version__}: {owner} has no {name} any more"
    )


def test_a_missing_interface_is_named_with_its_use(monkeypatch):
    path = "tensorflow.python.ops.control_flow_util.Gone"
    monkeypatch.setitem(private_interfaces.FUNCTIONS, path, "whether XLA compiles")
    with pytest.raises(InputError, match=rf"tensorflow 2\.\S+ has no {path}, .*: whether XLA compiles\. Install"):
        private(path)
    monkeypatch.setitem(private_interfaces.FUNCTIONS, "tensorflow.python.gone.f", "a test")
    with pytest.raises(InputError, match="has no tensorflow.python.gone.f"):
        private("tensorflow.python.gone.f")


def test_private_modules_are_imported_through_the_list_only():
    private_packages = ("tensorflow.python", "keras.src")
    for path in (PROJECT / "keras_bert").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith(private_packages), f"{path.name} imports {name}: take it from `private`"
