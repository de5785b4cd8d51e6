"""Which runtime `load` takes: by name, by what is installed, and by a short test whose result is kept."""

import json
import os
import pathlib
import shutil
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openvino
import pytest
from portable_answers import TEXTS
from tiny_models import assert_same_answers, make_model

from keras_bert import InputError
from keras_bert.program.user_cache import cache_folder, remove_oldest
from keras_bert.serving import load
from keras_bert.serving.portable import openvino_engine, runtime_timing, runtimes
from keras_bert.serving.portable.folder import read_portable
from keras_bert.serving.portable.runtime_timing import fastest
from keras_bert.serving.portable.runtimes import RUNTIMES, Runtime


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Exports of a classifier by name: onnx, int8 and litert."""
    path, model = tmp_path_factory.mktemp("runtimes"), make_model("classifier")
    options = {"onnx": {"format": "onnx"}, "int8": {"format": "onnx", "weights": "int8"}, "litert": {}}
    return {
        name: pathlib.Path(model.export_for_serving(path / name, **{"format": "litert", **given}))
        for name, given in options.items()
    }


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of kept choices, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "keras_bert" / "runtimes"


def without(monkeypatch, *packages):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


class Clock:
    """A clock that moves when an `Engine` computes, whatever else the machine does."""

    def __init__(self):
        self.seconds = 0.0

    def perf_counter(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(runtime_timing, "time", clock)
    return clock


class Engine:
    """Takes this many milliseconds for a batch."""

    input_axes = {"input_ids": ["batch", "length"], "input_mask": ["batch", "length"], "segment_ids": [2, "choices"]}

    def __init__(self, milliseconds, clock):
        self.milliseconds, self.clock, self.shapes = milliseconds, clock, []

    def run(self, features):
        assert features["input_ids"].dtype == "int32"
        assert features["segment_ids"].shape == (2, 2)
        self.shapes.append(features["input_mask"].shape)
        self.clock.seconds += self.milliseconds / 1000


def test_the_engine_that_takes_less_time_is_the_fastest(clock):
    engines = {"slow": Engine(8, clock), "fast": Engine(2, clock)}
    name, reason = fastest(engines, longest=40, callers=1)
    assert name == "fast"
    assert reason == "fast in float32: 2, 2, 2 ms for 1 x 16, 1 x 40, 8 x 40 tokens; slow 8, 8, 8"
    assert set(engines["slow"].shapes) == {(1, 16), (1, 40), (8, 40)}


def test_a_slow_network_is_timed_with_short_texts_only(clock):
    engines = {"slow": Engine(120, clock), "fast": Engine(60, clock)}
    assert fastest(engines, 64, callers=1)[1].startswith("fast in float32: 60 ms for 1 x 16 tokens")
    assert set(engines["fast"].shapes) == {(1, 16)}


def test_callers_call_at_the_same_time(clock):
    engine, all_call = Engine(30, clock), threading.Barrier(4, timeout=60)
    engine.run = lambda features: all_call.wait()
    assert "tokens for each of 4 callers" in fastest({"one": engine}, 64, callers=4)[1]


def test_a_choice_is_kept_until_something_changes_and_measured_again_if_damaged(folders, cache, monkeypatch):
    calls = []
    monkeypatch.setattr(runtimes, "fastest", lambda *arguments: calls.append(1) or ("openvino", "it was faster"))
    for _ in range(2):
        assert load(folders["onnx"]).runtime == Runtime("openvino", "float32", None, "it was faster")
    assert len(calls) == 1
    (kept,) = cache.iterdir()
    for damaged in ("{", "[]", json.dumps({"name": "litert", "reason": "x"}), json.dumps({"name": "openvino"})):
        calls.clear()
        kept.write_text(damaged)
        assert load(folders["onnx"]).runtime.name == "openvino"
        assert (len(calls), json.loads(kept.read_text())["name"]) == (1, "openvino")
    load(folders["onnx"], callers=2)
    load(folders["onnx"], num_threads=1)
    for name in ("model.onnx", "packed.onnx"):
        os.utime(folders["onnx"] / name, (1, 1))
        load(folders["onnx"])
    assert len(calls) == 5


def test_without_a_cache_folder_loading_works(folders, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load(folders["onnx"]).runtime.reason.startswith(("onnxruntime in float32: ", "openvino in float32: "))


def test_a_cache_folder_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder("openvino")
    assert folder == str(tmp_path / "keras_bert" / "openvino")
    os.chmod(folder, 0o777)
    assert cache_folder("openvino") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("x") == str(tmp_path / ".cache" / "keras_bert" / "x")


def test_a_cache_keeps_the_files_that_were_used_last(tmp_path):
    for age in range(4):
        (tmp_path / f"{age}").write_bytes(b"x" * 10)
        os.utime(tmp_path / f"{age}", (1e9 - age, 1e9 - age))
    remove_oldest(str(tmp_path), 25)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    remove_oldest(str(tmp_path / "absent"), 25)


def test_with_one_runtime_nothing_is_timed(folders, cache, monkeypatch):
    monkeypatch.setattr(runtimes, "fastest", None)
    assert load(folders["litert"], num_threads=1).runtime == Runtime(
        "litert", "float32", 1, "litert is the only runtime of exports with --format=litert"
    )
    assert load(folders["int8"]).runtime.reason.startswith("onnxruntime: openvino takes twice the time")
    reason = "is the only installed runtime of exports with --format=onnx"
    for package, other in (("openvino", "onnxruntime"), ("onnxruntime", "openvino")):
        with monkeypatch.context() as patch:
            without(patch, package)
            assert load(folders["onnx"]).runtime == Runtime(other, "float32", None, f"{other} {reason}")
    assert not cache.exists()


def test_a_runtime_that_cannot_open_the_file_is_left_out(folders, cache, monkeypatch):
    def fail(*arguments, **options):
        raise InputError("no")

    monkeypatch.setattr(openvino_engine, "OpenVinoEngine", fail)
    assert load(folders["onnx"]).runtime.name == "onnxruntime"


def test_openvino_warns_of_8_bit_products(folders):
    with pytest.warns(UserWarning, match="takes twice the time of float32 .* Use runtime='onnxruntime'") as found:
        loaded = load(folders["int8"], "openvino")
    assert found[0].filename == __file__
    assert (loaded.runtime.name, loaded.runtime.precision) == ("openvino", "int8")


def test_bfloat16_answers_differ_by_less_than_a_hundredth(folders):
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(InputError, match="This processor has no bfloat16; OpenVINO lists FP32"):
            load(folders["onnx"], precision="bfloat16")
        return
    expected = [one.probability for one in load(folders["onnx"], "onnxruntime").predict(TEXTS)]
    model = load(folders["onnx"], precision="bfloat16")
    assert model.runtime.reason == "openvino is the only runtime that computes such exports in bfloat16"
    np.testing.assert_allclose([one.probability for one in model.predict(TEXTS)], expected, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "onnx",
            {"runtime": "torch"},
            "runtime must be auto, tensorflow, onnxruntime, openvino or litert. Rec.*'torch'",
        ),
        ("onnx", {"precision": "float16"}, "precision must be float32, bfloat16 or auto. Received: 'float16'"),
        ("onnx", {"num_threads": 0}, "num_threads must be a whole number from 1, or None. Received: 0"),
        ("onnx", {"callers": 0}, "callers must be a whole number from 1. Received: 0"),
        ("onnx", {"callers": True}, "callers must be a whole number from 1. Received: True"),
        (
            "onnx",
            {"runtime": "litert"},
            r"is an export for onnxruntime or openvino. Received: runtime='litert'.* export the model again: "
            r"python -m run_scripts.export_model --format=litert$",
        ),
        ("litert", {"runtime": "openvino"}, "is an export for litert. .*export_model --format=onnx$"),
        ("litert", {"runtime": "tensorflow"}, "export_model --format=saved_model$"),
        (
            "onnx",
            {"runtime": "onnxruntime", "precision": "bfloat16"},
            "onnxruntime has no bfloat16 for .* Use precision='float32', or .* use runtime='openvino'",
        ),
        ("litert", {"precision": "bfloat16"}, "litert has no bfloat16 .* export the model with --format=onnx"),
    ],
)
def test_bad_arguments_are_named(name, options, message, folders):
    with pytest.raises(InputError, match=message):
        load(folders[name], **options)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "litert"])
def test_a_runtime_that_is_not_installed_is_named_with_its_extra(runtime, folders, monkeypatch):
    kind = RUNTIMES[runtime]
    without(monkeypatch, kind.package, f"{kind.package}.interpreter")
    with pytest.raises(InputError, match=rf"needs a package that is not installed .* pip install '\.\[{kind.extra}\]'"):
        load(folders[kind.format], runtime)


def test_a_saved_model_needs_tensorflow(served, monkeypatch):
    folder = served[1]["single"]
    without(monkeypatch, "tensorflow")
    with pytest.raises(InputError, match="is a SavedModel, which needs TensorFlow. Install it, or export with"):
        load(folder)


def test_an_export_of_an_earlier_version_loads(folders, tmp_path):
    folder = shutil.copytree(folders["onnx"], tmp_path / "old")
    description = json.loads((folder / "export.json").read_text())
    assert description.pop("network").keys() == {"bytes", "sum"}
    assert set(description.pop("files")) == {"bert_config.json", "packed.onnx", "vocab.txt"}
    (folder / "export.json").write_text(json.dumps(description))
    assert read_portable(folder).network is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(folder, "onnxruntime").predict(["the fox"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "runtime", "callers"),
    [("onnx", "onnxruntime", 64), ("onnx", "openvino", 1), ("onnx", "openvino", 64), ("litert", "litert", 64)],
)
def test_many_threads_get_the_answers_of_one(name, runtime, callers, folders):
    model = load(folders[name], runtime, callers=callers)
    requests = [TEXTS[number % len(TEXTS) :] for number in range(640)]
    expected = {len(texts): model.predict(texts) for texts in requests}
    with ThreadPoolExecutor(64) as pool:
        for texts, answers in zip(requests, pool.map(model.predict, requests), strict=True):
            assert_same_answers(answers, expected[len(texts)])
