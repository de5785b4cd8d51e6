"""`OnnxEngine` and `OpenVinoEngine` give the numbers of Keras, refuse what they cannot run, and send nothing.

Keras' `model.export` writes the files of these engines without further arguments.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from serving.test_onnx_exports import assert_computes_like, features_of
from slow_parameters import slow_except
from tiny_models import make_model

from keras_bert.program.errors import InputError
from keras_bert.serving.portable import openvino_engine
from keras_bert.serving.portable.litert_engine import LiteRTEngine
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.onnx_model import write_onnx
from keras_bert.serving.portable.openvino_engine import OpenVinoEngine


@pytest.fixture(scope="module")
def encoder_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("openvino") / "model.onnx"
    write_onnx(make_model("encoder"), path)
    return path


@pytest.mark.parametrize("name", slow_except(["span", "choice"], ["span", "choice", "masked words", "tagger"]))
def test_openvino_computes_what_keras_computes(name, tmp_path):
    model = make_model(name)
    write_onnx(model, tmp_path / "model.onnx")
    engine = OpenVinoEngine(tmp_path / "model.onnx", num_threads=1)
    assert engine.precision == "float32"
    for length in (2, 7, model.config.max_sequence_length):
        assert_computes_like(engine, model, features_of(model, length))


@pytest.mark.parametrize("callers", [1, 4])
def test_threads_share_an_engine(callers, encoder_file):
    engine, other = OpenVinoEngine(encoder_file, callers=callers), OnnxEngine(encoder_file, num_threads=1)
    batches = [features_of(make_model("encoder"), 2 + number % 7, seed=number) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(engine.run, batches))
    for outputs, batch in zip(found, batches, strict=True):
        for name, values in other.run(batch).items():
            np.testing.assert_allclose(outputs[name], values, atol=1e-5)


@pytest.mark.parametrize("engine", [OnnxEngine, OpenVinoEngine])
def test_a_damaged_file_is_named(engine, encoder_file, tmp_path):
    path = tmp_path / "damaged.onnx"
    others = [b"", b"not a model", b"\xff" * 100] if engine is OnnxEngine else []
    for content in (encoder_file.read_bytes()[:-1000], *others):
        path.write_bytes(content)
        with pytest.raises(InputError, match="damaged.onnx is damaged or of another kind"):
            engine(path)


OTHER_MASK, SHORT_MASK, OTHER_IDS, LONG = (
    lambda x: x | {"input_mask": x["input_mask"] * 0 + np.repeat([1, 2], 4)},
    lambda x: x | {"input_mask": x["input_mask"][:, :7]},
    lambda x: x | {"input_ids": x["input_ids"] + 1000},
    lambda x: {name: np.repeat(values, 9, axis=1) for name, values in x.items()},
)


@pytest.mark.parametrize(
    ("engine", "change", "message"),
    [
        (OnnxEngine, OTHER_MASK, "input_mask of an ONNX model is 1 for tokens .* Received numbers from 1 to 2"),
        (OpenVinoEngine, OTHER_MASK, "input_mask of an ONNX model is 1 for tokens .* Received numbers from 1 to 2"),
        (OnnxEngine, SHORT_MASK, r"cannot compute these features: input_ids \(3, 8\), input_mask \(3, 7\)"),
        (OpenVinoEngine, SHORT_MASK, r"cannot compute these features: input_ids \(3, 8\), input_mask \(3, 7\)"),
        (OnnxEngine, OTHER_IDS, r"cannot compute these features: input_ids \(3, 8\), .*out of data bounds"),
        (OnnxEngine, LONG, "cannot compute these features"),
    ],
)
def test_features_that_the_network_cannot_compute_are_refused(engine, change, message, encoder_file):
    with pytest.raises(InputError, match=message):
        engine(encoder_file).run(change(features_of(make_model("encoder"), 8)))


@pytest.mark.parametrize(("module", "use"), [("onnxruntime", OnnxEngine), ("onnx", None)])
def test_a_missing_package_is_named(module, use, encoder_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"format onnx needs a package .* pip install '\.\[onnx\]'"):
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
    loaded = tf.saved_model.load(tmp_path / "folder")  # its variables live as long as it does
    found, expected = loaded.serve(features), model(features)
    if isinstance(expected, dict):
        found, expected = found["masked_lm_logits"], expected["masked_lm_logits"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_export_of_keras_says_what_to_call_for_other_formats(tmp_path):
    with pytest.raises(InputError, match="has the formats .* Received: 'openvino'.*input_signature"):
        make_model("encoder").export(tmp_path / "file", format="openvino")


def test_bfloat16_is_refused_or_left_out_where_the_processor_lacks_it():
    class Core:
        capabilities = ["FP32", "INT8"]

        def get_property(self, device, name):
            assert (device, name) == ("CPU", "OPTIMIZATION_CAPABILITIES")
            return self.capabilities

    core = Core()
    assert openvino_engine._checked_precision(core, "auto") == "float32"
    with pytest.raises(InputError, match="This processor has no bfloat16; OpenVINO lists FP32, INT8. Use precision="):
        openvino_engine._checked_precision(core, "bfloat16")
    core.capabilities = ["BF16", "FP32"]
    assert openvino_engine._checked_precision(core, "auto") == "bfloat16"
    assert openvino_engine._checked_precision(core, "float32") == "float32"


def test_a_signal_is_handled_after_another_thread_has_freed_an_engine(encoder_file):
    program = (
        "import os, signal, threading\n"
        "from keras_bert.serving.portable.openvino_engine import OpenVinoEngine\n"
        f"engines = [OpenVinoEngine({str(encoder_file)!r}, num_threads=1)]\n"
        "thread = threading.Thread(target=engines.clear)\n"
        "thread.start()\n"
        "thread.join()\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('handled'))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr


@pytest.mark.parametrize("engine", ["onnx_engine.OnnxEngine", "openvino_engine.OpenVinoEngine"])
def test_an_engine_imports_no_tensorflow_and_sends_nothing(engine, encoder_file, tmp_path):
    module, name = engine.split(".")
    program = (
        "import socket, sys\n"
        "def refuse(*arguments): print('looks up', arguments)\n"
        "socket.getaddrinfo = socket.socket.connect = refuse\n"
        f"from keras_bert.serving.portable.{module} import {name} as Engine\n"
        f"assert 'input_mask' in Engine({str(encoder_file)!r}, num_threads=1).feature_names\n"
        "unwanted = ('keras', 'tensorflow', 'onnx', 'openvino_telemetry')\n"
        "print([name for name in sys.modules if name.split('.')[0] in unwanted])\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n", done.stderr
    # Both packages keep the number of the user there before they send it.
    assert not list(tmp_path.iterdir())
