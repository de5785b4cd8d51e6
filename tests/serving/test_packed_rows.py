"""`packed.onnx` computes several sequences of a row as single ones; layouts give back the outputs of the given rows."""

import numpy as np
import onnx
import onnxruntime
import pytest
from serving.test_onnx_exports import features_of
from slow_parameters import slow_except
from tiny_models import make_model, new_model

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.serving.portable.checked_engine import CheckedEngine
from keras_bert.serving.portable.folder import PACKED_FILE
from keras_bert.serving.portable.onnx_model import write_onnx, write_onnx_folder
from keras_bert.serving.portable.openvino_engine import OpenVinoEngine
from keras_bert.serving.portable.row_layouts import ArrangedEngine, Layout, fill_rows, pack

# Every family that ONNX files can hold; `deberta-v2` of the tests has no convolution.
FAMILIES = ["roberta", "albert", "distilbert", "electra", "modernbert", "mpnet", "deberta-v2", "nomic_bert", "gte"]
FAMILIES += ["jina_embeddings_v3", "eurobert", "gemma3_text", "neobert", "xlm-roberta", "camembert"]


class PackedEngine:
    """Runs `packed.onnx` with ONNX Runtime, which reads the weights in `model.onnx` itself."""

    def __init__(self, folder, rows: int = 2, width: int = 40):
        self._session = onnxruntime.InferenceSession(folder / PACKED_FILE, providers=["CPUExecutionProvider"])
        self.feature_names = tuple(value.name for value in self._session.get_inputs())
        self.layout = Layout(rows, width)

    def run(self, features):
        names = [value.name for value in self._session.get_outputs()]
        found = self._session.run(names, {name: features[name] for name in self.feature_names})
        return found[0] if names == ["output"] else dict(zip(names, found, strict=True))


def assert_packed_equals_single(model, folder) -> None:
    write_onnx_folder(model, folder / "model.onnx")
    axes = registry.task_of(model).export.outputs(model)
    engine = CheckedEngine(PackedEngine(folder), model.config, outputs=axes)
    assert engine.feature_names == tuple(model.feature_names)
    features = features_of(model, 17, rows=9)
    found, expected = engine.run(features), model(features)
    if not isinstance(expected, dict):
        found, expected = {"": found}, {"": expected}
    for name, values in expected.items():
        is_kept = features["input_mask"] > 0 if "length" in axes[name] else slice(None)
        np.testing.assert_allclose(found[name][is_kept], np.asarray(values)[is_kept], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["classifier", "all poolings", *slow_except([], ["tagger", "span"])])
def test_the_outputs_of_packed_rows_are_those_of_single_ones(name, tmp_path):
    assert_packed_equals_single(make_model(name), tmp_path)


def test_the_axes_of_packed_rows_have_names_of_their_own(tmp_path):
    """ONNX Runtime takes axes of one name for equally long."""
    write_onnx_folder(make_model("classifier"), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / PACKED_FILE, providers=["CPUExecutionProvider"])
    axes = {value.name: value.shape for value in [*session.get_inputs(), *session.get_outputs()]}
    of_tokens = dict.fromkeys(("input_ids", "input_mask", "segment_ids", "position_ids"), ["batch", "length"])
    assert axes == {**of_tokens, "cls_positions": ["batch", "sequences"], "output": ["texts", 3]}


@pytest.mark.slow
def test_packed_rows_of_a_modern_bert_that_pools_the_mean_are_right(tmp_path):
    changes = {"classifier_pooling": "mean", "local_attention": 2, "num_hidden_layers": 3}
    assert_packed_equals_single(new_model("pairs", "modernbert", **changes), tmp_path)


@pytest.mark.parametrize(
    ("name", "family", "changes"),
    [
        ("choice", "bert", {}),
        ("masked words", "bert", {}),
        ("pairs", "deberta-v2", {"conv_kernel_size": 3, "conv_act": "gelu"}),  # it reads the neighbouring columns
    ],
)
def test_models_with_other_rows_have_no_packed_form(name, family, changes, tmp_path):
    write_onnx_folder(new_model(name, family, **changes), tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    write_onnx_folder(make_model("classifier"), folder / "model.onnx")
    return folder


def test_the_large_weights_are_stored_once(folder):
    stored = {tensor.name: tensor.raw_data for tensor in onnx.load(folder / "model.onnx").graph.initializer}
    file = onnx.load(folder / PACKED_FILE, load_external_data=False)
    assert all(len(tensor.raw_data) < 1024 for tensor in file.graph.initializer)
    shared = [tensor for tensor in onnx.load(folder / PACKED_FILE).graph.initializer if len(tensor.raw_data) >= 1024]
    assert shared
    assert all(tensor.raw_data == stored[tensor.name] for tensor in shared)


class CountingEngine:
    """Returns the sum of the ids of each row, and the shapes that it got."""

    feature_names = ("input_ids", "input_mask")
    layout = Layout(rows=2)

    def __init__(self):
        self.shapes = []

    def run(self, features):
        self.shapes.append(features["input_ids"].shape)
        return (features["input_ids"] * features["input_mask"]).sum(axis=1, keepdims=True).astype("float32")


def test_rows_are_computed_in_small_groups_of_similar_length():
    engine = CountingEngine()
    lengths = np.array([1, 5, 2, 4, 3])
    mask = (np.arange(6) < lengths[:, None]).astype("int32")
    found = ArrangedEngine(engine, {"": ("batch", 1)}).run({"input_ids": mask * 7, "input_mask": mask})
    assert found[:, 0].tolist() == (7 * lengths).tolist()
    assert engine.shapes == [(2, 5), (2, 3), (1, 1)]


def test_sequences_of_equal_length_are_computed_beside_each_other():
    engine = CountingEngine()
    engine.feature_names = ("input_ids", "input_mask", "position_ids", "cls_positions")
    engine.layout = Layout(rows=1, width=32, equal_rows=2)
    lengths = np.array([7, 7, 7])
    mask = np.pad(np.ones((3, 7), "int32"), ((0, 0), (0, 2)))
    found = ArrangedEngine(engine, {"": ("batch", 1)}).run({"input_ids": mask * 7, "input_mask": mask})
    assert found[:, 0].tolist() == (7 * lengths).tolist()
    assert engine.shapes == [(2, 16), (1, 16)]
    mask[0, 6] = 0
    ArrangedEngine(engine, {"": ("length", "batch")}).run({"input_ids": mask, "input_mask": mask})
    assert engine.shapes[2:] == [(1, 32)]


def test_sequences_fill_rows_and_long_ones_get_longer_rows():
    lengths = np.array([2, 5, 3, 1])
    rows = fill_rows(lengths, 5)
    assert rows == [[1], [2, 0], [3]]
    ids = np.arange(1, 21, dtype="int32").reshape(4, 5) * (np.arange(5) < lengths[:, None])
    packed = pack({"input_ids": ids, "input_mask": (ids > 0).astype("int32")}, lengths, rows[1:2])
    assert packed["input_ids"][0, :6].tolist() == [11, 12, 13, 1, 2, 0]
    assert packed["input_mask"][0, :6].tolist() == [1, 1, 1, 2, 2, 0]
    assert packed["position_ids"][0, :6].tolist() == [0, 1, 2, 0, 1, 0]
    assert packed["cls_positions"].tolist() == [[0, 3, 0, 0, 0, 0, 0, 0]]
    assert packed["input_ids"].shape == (1, 16)


def test_padding_on_the_left_cannot_be_packed(folder):
    model = make_model("classifier")
    engine = CheckedEngine(PackedEngine(folder), model.config, outputs={"": ("batch", len(model.labels))})
    features = features_of(model, 6)
    with pytest.raises(InputError, match="1 for tokens and 0 for padding, which is on the right"):
        engine.run(features | {"input_mask": np.array([[0, 1, 1, 1, 1, 1]] * 3)})


@pytest.mark.parametrize("family", slow_except(["modernbert"], ["bert", *FAMILIES]))
def test_openvino_computes_packed_and_single_rows(family, tmp_path):
    pytest.importorskip("openvino")
    model = make_model("classifier", family)
    features = features_of(model, 17, rows=9)
    expected = np.asarray(model(features))
    for write, width in ((write_onnx, 0), (write_onnx_folder, 256)):
        write(model, tmp_path / "model.onnx")
        engine = OpenVinoEngine(tmp_path / "model.onnx", num_threads=1)
        assert engine.layout.width == width
        checked = CheckedEngine(engine, model.config, outputs={"": ("batch", len(model.labels))})
        np.testing.assert_allclose(checked.run(features), expected, rtol=1e-5, atol=1e-5)
