"""Which runtime `load` takes: by name, by what is installed, and by a fixed rule."""

import dataclasses
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openvino
import pytest
from portable_answers import TEXTS
from tiny_models import assert_same_answers, make_model

from keras_bert import InputError
from keras_bert.serving import load
from keras_bert.serving.portable import openvino_engine
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.runtimes import RUNTIMES, Runtime


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Exports of a classifier by name: onnx, int8 and litert."""
    path, model = tmp_path_factory.mktemp("runtimes"), make_model("classifier")
    model.export_for_serving(path / "onnx", format="onnx")
    model.export_for_serving(path / "int8", format="onnx", weights="int8")
    model.export_for_serving(path / "litert", format="litert")
    return {name: path / name for name in ("onnx", "int8", "litert")}


def without(monkeypatch, *packages):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("name", "options", "bfloat16", "expected"),
    [
        ("onnx", {}, False, "openvino"),
        ("onnx", {"callers": 2}, False, "onnxruntime"),
        ("onnx", {"callers": 2}, True, "onnxruntime"),
        ("onnx", {"callers": 2, "precision": "auto"}, False, "onnxruntime"),
        ("onnx", {"callers": 2, "precision": "auto"}, True, "openvino"),
        ("onnx", {"callers": 2, "runtime": "openvino"}, False, "openvino"),
        ("onnx", {"precision": "auto"}, False, "openvino"),
        ("int8", {}, False, "onnxruntime"),
        ("litert", {"callers": 2}, False, "litert"),
    ],
)
def test_a_fixed_rule_takes_the_runtime(name, options, bfloat16, expected, folders, monkeypatch):
    monkeypatch.setattr(openvino_engine, "has_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(openvino_engine, "OpenVinoEngine", lambda *arguments, **given: OnnxEngine(arguments[0]))
    assert load(folders[name], **options).runtime.name == expected


def test_the_reason_says_why_a_runtime_was_taken(folders, monkeypatch):
    for name, options, runtime in [
        ("litert", {"num_threads": 1}, Runtime("litert", "float32", 1, "litert is the only runtime")),
        ("onnx", {}, Runtime("openvino", "float32", None, "openvino is installed, and faster")),
        ("onnx", {"callers": 2}, Runtime("onnxruntime", "float32", None, "onnxruntime is faster for several callers")),
        ("int8", {}, Runtime("onnxruntime", "int8", None, "onnxruntime: openvino takes longer")),
    ]:
        found = load(folders[name], **options).runtime
        assert dataclasses.replace(found, reason=found.reason[: len(runtime.reason)]) == runtime
    for package, other in (("openvino", "onnxruntime"), ("onnxruntime", "openvino")):
        with monkeypatch.context() as patch:
            without(patch, package)
            found = load(folders["onnx"], callers=2).runtime
        assert (found.name, "is the only installed runtime" in found.reason) == (other, True)


def test_openvino_warns_of_8_bit_products(folders):
    with pytest.warns(UserWarning, match="takes longer for int8 files .* Use runtime='onnxruntime'") as found:
        loaded = load(folders["int8"], "openvino")
    assert found[0].filename == __file__
    assert (loaded.runtime.name, loaded.runtime.precision) == ("openvino", "int8")


def test_bfloat16_answers_differ_by_less_than_a_hundredth(folders):
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(InputError, match="This processor has no bfloat16; OpenVINO lists .*FP32"):
            load(folders["onnx"], precision="bfloat16")
        return
    expected = [one.probability for one in load(folders["onnx"], "onnxruntime").predict(TEXTS)]
    model = load(folders["onnx"], precision="bfloat16")
    assert model.runtime.reason == "openvino is the only runtime that computes such exports in bfloat16"
    np.testing.assert_allclose([one.probability for one in model.predict(TEXTS)], expected, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("onnx", {"runtime": "torch"}, "runtime must be one of auto, tensorflow, onnxruntime, .* Received: 'torch'"),
        ("onnx", {"precision": "float16"}, "precision must be one of float32, bfloat16, auto. Received: 'float16'"),
        ("onnx", {"num_threads": 0}, "num_threads must be a whole number of at least 1. Received: 0"),
        ("onnx", {"callers": 0}, "callers must be a whole number of at least 1. Received: 0"),
        ("onnx", {"callers": True}, "callers must be a whole number of at least 1. Received: True"),
        ("onnx", {"runtime": "litert"}, "is an export for onnxruntime or openvino. .*export_model --format=litert$"),
        ("litert", {"num_threads": 0}, "num_threads must be a whole number of at least 1. Received: 0"),
        ("litert", {"runtime": "openvino"}, "is an export for litert. .*export_model --format=onnx$"),
        ("litert", {"runtime": "tensorflow"}, "export_model --format=saved_model$"),
        ("onnx", {"runtime": "onnxruntime", "precision": "bfloat16"}, "has no bfloat16 .* use runtime='openvino'"),
        ("litert", {"precision": "bfloat16"}, "litert has no bfloat16 .* export the model with --format=onnx"),
    ],
)
def test_bad_arguments_are_named(name, options, message, folders):
    with pytest.raises(InputError, match=message):
        load(folders[name], **options)


@pytest.mark.parametrize(
    ("runtime", "extra"), [("onnxruntime", "onnx"), ("openvino", "openvino"), ("litert", "litert")]
)
def test_a_runtime_that_is_not_installed_is_named_with_its_extra(runtime, extra, folders, monkeypatch):
    kind = RUNTIMES[runtime]
    without(monkeypatch, kind.package, f"{kind.package}.interpreter")
    with pytest.raises(InputError, match=rf"needs a package that is not installed .* pip install '\.\[{extra}\]'"):
        load(folders[kind.format], runtime)


def test_a_saved_model_needs_tensorflow(served, monkeypatch):
    folder = served[1]["single"]
    without(monkeypatch, "tensorflow")
    with pytest.raises(InputError, match="is a SavedModel, which needs TensorFlow"):
        load(folder)


def test_a_description_has_the_sums_of_all_files_of_network_and_tokenizer(folders):
    description = json.loads((folders["onnx"] / "export.json").read_text())
    assert description["network"].keys() == {"bytes", "sum"}
    assert set(description["files"]) == {"bert_config.json", "packed.onnx", "vocab.txt"}


def test_many_threads_get_the_answers_of_one(folders):
    model = load(folders["litert"], "litert", callers=4)
    requests = [TEXTS[number % len(TEXTS) :] for number in range(10)]
    expected = {len(texts): model.predict(texts) for texts in requests}
    with ThreadPoolExecutor(64) as pool:
        for texts, answers in zip(requests, pool.map(model.predict, requests), strict=True):
            assert_same_answers(answers, expected[len(texts)])
