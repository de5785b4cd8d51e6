"""`OnnxEngine` refuses files and features that it cannot run; and Keras' `model.export` needs no further arguments."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from serving.test_onnx_exports import assert_computes_like, features_of
from slow_parameters import slow_except
from tiny_models import make_model

from keras_bert.program.errors import InputError
from keras_bert.serving.portable.litert_engine import LiteRTEngine
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.onnx_model import write_onnx


@pytest.fixture(scope="module")
def encoder_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    write_onnx(make_model("encoder"), path)
    return path


def test_the_engine_imports_neither_tensorflow_nor_keras(encoder_file):
    program = (
        "import sys; from keras_bert.serving.portable.onnx_engine import OnnxEngine; "
        f"print(OnnxEngine({str(encoder_file)!r}).feature_names, "
        "[name for name in sys.modules if name.split('.')[0] in ('keras', 'tensorflow', 'onnx')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "('input_ids', 'input_mask', 'segment_ids') []\n", done.stderr


def test_a_damaged_file_is_named(encoder_file, tmp_path):
    path = tmp_path / "damaged.onnx"
    for content in (encoder_file.read_bytes()[:-1000], b"", b"not a model", b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"damaged.onnx is damaged or of another kind"):
            OnnxEngine(path)


def test_features_that_the_network_cannot_compute_are_refused(encoder_file):
    engine = OnnxEngine(encoder_file, num_threads=1)
    features = features_of(make_model("encoder"), 8)
    with pytest.raises(InputError, match="input_mask of an ONNX model is 1 for tokens .* Received numbers from 1 to 2"):
        engine.run(features | {"input_mask": features["input_mask"] * 0 + [1, 1, 1, 1, 2, 2, 2, 2]})
    with pytest.raises(InputError, match=r"cannot compute these features: input_ids \(3, 8\), .*out of data bounds"):
        engine.run(features | {"input_ids": features["input_ids"] + 1000})
    with pytest.raises(InputError, match=r"cannot compute these features: input_ids \(3, 8\), input_mask \(3, 7\)"):
        engine.run(features | {"input_mask": features["input_mask"][:, :7]})
    long = features_of(make_model("encoder"), make_model("encoder").config.max_sequence_length + 1)
    with pytest.raises(InputError, match="cannot compute these features"):
        engine.run(long)


@pytest.mark.parametrize(("module", "use"), [("onnxruntime", OnnxEngine), ("onnx", None)])
def test_a_missing_package_is_named(module, use, encoder_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        InputError, match=r"format onnx needs a package .* Run in a clone of keras_bert: pip install '\.\[onnx\]'"
    ):
        use(encoder_file) if use else write_onnx(make_model("encoder"), tmp_path / "model.onnx")


@pytest.mark.parametrize(("format", "engine"), [("onnx", OnnxEngine), ("litert", LiteRTEngine)])
@pytest.mark.parametrize("name", slow_except(["choice"], ["choice", "span"]))
def test_export_of_keras_writes_a_file_without_further_arguments(name, format, engine, tmp_path):
    model = make_model(name)
    model.export(tmp_path / "file", format=format)
    assert_computes_like(engine(tmp_path / "file"), model, features_of(model, 9))


@pytest.mark.parametrize("name", slow_except(["masked words"], ["choice", "masked words"]))
def test_export_of_keras_writes_a_saved_model_without_further_arguments(name, tmp_path):
    model = make_model(name)
    model.export(tmp_path / "folder", verbose=False)
    features = features_of(model, 9)
    loaded = tf.saved_model.load(tmp_path / "folder")
    found, expected = loaded.serve(features), model(features)
    if isinstance(expected, dict):
        found, expected = found["masked_lm_logits"], expected["masked_lm_logits"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_export_of_keras_says_what_to_call_for_other_formats(tmp_path):
    with pytest.raises(InputError, match=r"has the formats .* Received: 'openvino'.*input_signature"):
        make_model("encoder").export(tmp_path / "file", format="openvino")
