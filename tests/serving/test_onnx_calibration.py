"""Int8 ONNX files with ranges from calibration texts are near the Keras model, and bad texts are refused."""

import json

import numpy as np
import onnx
import pytest
from tiny_models import make_model

from keras_bert.program.errors import InputError
from keras_bert.serving import load
from keras_bert.serving.portable.calibration_texts import check_calibration
from keras_bert.serving.portable.folder import read_portable, write_portable
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.onnx_model import write_onnx

TEXTS = [f"the text number {number} is here" for number in range(40)]


def features_of(model, seed: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(seed).integers(0, model.config.vocab_size, (2, 12)).astype("int32")
    found = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    return {name: found[name] for name in model.feature_names}


@pytest.mark.parametrize("family", ["bert", pytest.param("deberta-v2", marks=pytest.mark.slow)])
def test_a_calibrated_file_is_near_the_model_and_needs_no_ranges_in_each_call(family, tmp_path):
    model = make_model("encoder", family)
    write_onnx(model, tmp_path / "model.onnx", "int8", [features_of(model, seed) for seed in range(8)])
    nodes = {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert "QuantizeLinear" in nodes
    assert not {"DynamicQuantizeLinear", "MatMulInteger"} & nodes
    features = features_of(model, 99)
    found = OnnxEngine(tmp_path / "model.onnx").run(features)["sequence_output"]
    expected = np.asarray(model(features)["sequence_output"])
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98


@pytest.mark.parametrize(
    "name", ["sentence encoder", *(pytest.param(n, marks=pytest.mark.slow) for n in ("choice", "masked words"))]
)
def test_an_export_says_that_its_ranges_are_static(name, tmp_path):
    write_portable(make_model(name), tmp_path / "export", "onnx", "int8", calibration=TEXTS)
    assert json.loads((tmp_path / "export/export.json").read_text())["int8"] == "static"
    assert read_portable(tmp_path / "export").int8 == "static"
    model = load(tmp_path / "export", "onnxruntime")
    if name == "sentence encoder":
        expected = make_model(name).encode(TEXTS[:3])
        for vectors in (model.encode(TEXTS[:3]), load(tmp_path / "export", "openvino").encode(TEXTS[:3])):
            assert np.corrcoef(vectors.ravel(), expected.ravel())[0, 1] > 0.98


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["one text"], {}, "calibration has 1 different text. Give 32 or more"),
        ([*TEXTS, " "], {}, "Text 41 of calibration is empty"),
        ([*TEXTS, ("a", "b", "c")], {}, "Text 41 of calibration must be a text or a pair"),
        ("a text", {}, "must be a list of texts"),
        (TEXTS, {"weights": "float16"}, "calibration is for format=onnx with weights=int8"),
        (TEXTS, {"format": "litert"}, "calibration is for format=onnx with weights=int8"),
    ],
)
def test_texts_that_cannot_calibrate_are_refused(texts, options, message):
    with pytest.raises(InputError, match=message):
        check_calibration(**{"format": "onnx", "weights": "int8", "texts": texts, **options})
