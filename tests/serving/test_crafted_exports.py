"""Exports from strangers, which ask for memory, time or other files, are rejected with one clear line."""

import json
import shutil

import flatbuffers
import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper
from tiny_models import make_model

from keras_bert.program.errors import InputError
from keras_bert.serving import load
from keras_bert.serving.graph.onnx_graph import OnnxGraph
from keras_bert.serving.graph.onnx_operations import OPERATIONS
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.onnx_model import write_onnx

# The activation of no published model, and what other families may need: operations on each number alone.
UNUSED = {"And", "Floor", "Less", "Log", "Min", "Neg", "Not", "Or", "Relu", "Sigmoid", "Sign", "Softplus"}


def crafted(path, nodes, weights=None, inputs=None, outputs=("output",), opset=12, values=(), **parts):
    """Writes an ONNX file; `weights` are name -> array, `inputs` name -> axes of int32 features."""
    weights = {"big": np.array([200_000, 2_500], np.int64), "one": np.float32(1), **(weights or {})}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.INT32, axes) for name, axes in (inputs or {}).items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
        value_info=values,
    )
    for output in graph.output:
        output.type.tensor_type.shape.SetInParent()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7, **parts)
    path.write_bytes(model.SerializeToString())
    return path


def node(operation, *inputs, outputs=("output",), **attributes):
    return helper.make_node(operation, inputs, outputs, **attributes)


BODY = helper.make_graph([], "body", [], [])
ROWS = {"rows": np.ones((30_000, 1), np.float32), "columns": np.ones((1, 30_000), np.float32)}
IDS = {"input_ids": ["batch", "length"]}
HUGE = {"input_ids": [100_000, 100_000]}
LIMITS = {name: np.int64(number) for name, number in {"zero": 0, "end": 10**9, "step": 1}.items()}


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ([node("ConstantOfShape", "big")], {}, "has the operation 'ConstantOfShape', which exports of keras_bert"),
        ([node("Tile", "one", "big")], {}, "has the operation 'Tile'"),
        ([node("Loop", "one", "one", body=BODY)], {}, "has the operation 'Loop'"),
        ([node("If", "one", then_branch=BODY, else_branch=BODY)], {}, "has the operation 'If'"),
        ([node("Cast", "one", to=1, body=BODY)], {}, "has the field 6 in an attribute of Cast"),
        ([node("Add", "one", "one", domain="com.example")], {}, "has the field 7 in a node"),
        ([node("Expand", "one", "big")], {}, r"would grow .* shape \[200000, 2500\]"),
        ([node("MatMul", "rows", "columns")], {"weights": ROWS}, r"would grow .* shape \[30000, 30000\]"),
        ([node("Add", "rows", "columns")], {"weights": ROWS}, r"would grow .* shape \[30000, 30000\]"),
        ([node("Range", "zero", "end", "step")], {"weights": LIMITS}, r"would grow .* shape \[1000000000\]"),
        (
            [node("Concat", *["big"] * 30, outputs=["a"], axis=0), node("Concat", *["a"] * 30, axis=0)]
            + [
                node("Concat", *["output"] * 300, outputs=["b"], axis=0),
                node("Concat", *["b"] * 99, outputs=["c"], axis=0),
            ],
            {},
            r"would grow",
        ),
        ([node("Shape", "input_ids", outputs=["a"]), node("Expand", "one", "a")], {"inputs": HUGE}, "would grow"),
        ([node("Reshape", "input_ids", "big")], {"inputs": IDS}, "operation Reshape has impossible inputs"),
        (
            [node("Cast", "input_ids", to=7, outputs=["a"]), node("Expand", "one", "a")],
            {"inputs": IDS},
            "Expand has imp",
        ),
        ([node("Identity", "absent")], {}, "is damaged or of another kind"),
        ([node("Identity", "one")], {"opset": 14}, "operations of another kind than ONNX opset 12 or 13"),
        (
            [node("Identity", "one")],
            {"functions": [helper.make_function("example", "f", [], [], [], [])]},
            "has the field 25 in the file",
        ),
        (
            [node("Identity", "one"), node("Cast", "input_ids", to=1, outputs=["a"])],
            {"inputs": IDS, "values": [helper.make_tensor_value_info("a", TensorProto.FLOAT, [10**6, 10**6])]},
            r"the declared shape of a is \[1000000, 1000000\]",
        ),
    ],
)
def test_an_onnx_file_that_exports_do_not_have_is_refused_before_it_is_loaded(nodes, options, message, tmp_path):
    path = crafted(tmp_path / "model.onnx", nodes, **options)
    with pytest.raises(InputError, match=f"^[^\n]*model.onnx [^\n]*{message}[^\n]*$"):
        OnnxEngine(path)


def test_many_constants_of_one_weight_are_refused(tmp_path):
    weights = {"weight": np.zeros((1000, 100), np.int8)}
    casts = [node("Cast", "weight", to=kind, outputs=[f"cast {kind} {n}"]) for n in range(5) for kind in (1, 6, 7, 10)]
    with pytest.raises(InputError, match=r"would grow when it is loaded or run: a result has the shape \[1000, 100\]"):
        OnnxEngine(crafted(tmp_path / "model.onnx", [*casts, node("Identity", "one")], weights))


def test_a_value_that_is_described_twice_is_refused(tmp_path):
    """Readers of protocol buffers join the two."""
    small = helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch"]).SerializeToString()
    large = helper.make_tensor_value_info("input_ids", TensorProto.INT32, [10**5]).SerializeToString()
    path = crafted(tmp_path / "model.onnx", [node("Identity", "one")])
    joined = b"\x5a" + bytes([len(small + large)]) + small + large  # field 11 of the graph, which is field 7
    path.write_bytes(path.read_bytes() + b"\x3a" + bytes([len(joined)]) + joined)
    with pytest.raises(InputError, match="is damaged or of another kind: a field is there twice"):
        OnnxEngine(path)


def test_the_allowed_operations_are_those_that_models_write(tmp_path):
    found = set()
    for name, family, weights in (
        ("all poolings", "bert", None),
        ("span", "bert", "int8"),
        ("choice", "roberta", None),
        ("masked words", "bert", "int8"),
        ("pretrainer", "modernbert", "float16"),
        ("sentence encoder", "modernbert", "int8"),
    ):
        write_onnx(make_model(name, family), tmp_path / "model.onnx", weights)
        OnnxEngine(tmp_path / "model.onnx")
        found |= {"QuantizeLinear", "DequantizeLinear"}
        found |= {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert set(OPERATIONS) - found <= UNUSED
    with pytest.raises(ValueError, match="Loop must be added to OPERATIONS"):
        OnnxGraph().node("Loop")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    for format in ("litert", "onnx"):
        make_model("classifier").export_for_serving(folder / format, format=format)
        description = json.loads((folder / format / "export.json").read_text())
        del description["network"]  # the tests change the network
        (folder / format / "export.json").write_text(json.dumps(description))
    return folder


@pytest.fixture
def copied(exported, tmp_path):
    return lambda format: shutil.copytree(exported / format, tmp_path / format)


def with_operation(name, **inputs):
    """Returns a change of a LiteRT file: its first operation of the kind `name` gets constants as inputs."""

    def change(model):
        code = getattr(schema.BuiltinOperator, name)
        graph = model.subgraphs[0]
        operator = graph.operators[0]
        kind = schema.OperatorCodeT()
        kind.builtinCode, kind.deprecatedBuiltinCode = code, min(code, 127)
        kind.version = max([one.version for one in model.operatorCodes if one.builtinCode == code], default=1)
        model.operatorCodes.append(kind)
        operator.opcodeIndex = len(model.operatorCodes) - 1
        operator.inputs = [add_constant(model, graph, numbers) for numbers in inputs.values()]

    return change


def add_constant(model, graph, numbers):
    buffer, tensor = schema.BufferT(), schema.TensorT()
    buffer.data = np.array(numbers, np.int32).view(np.uint8)
    model.buffers.append(buffer)
    tensor.shape, tensor.type, tensor.buffer = (
        np.array([len(numbers)], np.int32),
        schema.TensorType.INT32,
        len(model.buffers) - 1,
    )
    tensor.name = "crafted"
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def larger_value(model):
    graph = model.subgraphs[0]
    graph.tensors[graph.operators[-1].outputs[0]].shape = np.array([50_000, 50_000], np.int32)


def result_in_weights(model):
    graph = model.subgraphs[0]
    weights = next(tensor for tensor in graph.tensors if model.buffers[tensor.buffer].data is not None)
    graph.tensors[graph.operators[0].outputs[0]].buffer = weights.buffer


def result_in_the_inputs(model):
    graph = model.subgraphs[0]
    graph.operators[-1].outputs = [graph.inputs[0]]


def no_network(model):
    model.subgraphs = []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (result_in_weights, "computes a value that it also stores"),
        (result_in_the_inputs, "computes a value twice"),
        (no_network, "has no network"),
        (with_operation("WHILE"), "has the operation WHILE"),
        (with_operation("CALL_ONCE"), "has the operation CALL_ONCE"),
        (with_operation("FILL", dims=[30_000, 40_000], value=[1]), "has a value of 1,200,000,000 numbers"),
        (with_operation("BROADCAST_TO", value=[1], dims=[30_000, 40_000]), "has a value of 1,200,000,000 numbers"),
        (with_operation("TILE", value=[1], dims=[30_000, 40_000]), "has a value of 1,200,000,000 numbers"),
        (with_operation("RANGE", start=[0], end=[2 * 10**9], step=[1]), "has a value of 2,000,000,000 numbers"),
        (larger_value, "has a value of 2,500,000,000 numbers"),
    ],
)
def test_a_litert_file_that_would_harm_the_process_is_refused(change, message, copied):
    path = copied("litert") / "model.tflite"
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    change(model)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    with pytest.raises(
        InputError, match=f"^[^\n]*model.tflite {message}, which exports of keras_bert do not have[^\n]*$"
    ):
        load(path.parent)


def test_every_damage_of_a_litert_file_gives_one_line(copied):
    path = copied("litert") / "model.tflite"
    content = path.read_bytes()
    draw = np.random.default_rng(3)
    messages = []
    for _ in range(60):
        damaged = bytearray(content)
        for place in draw.integers(8, len(content), 4):
            damaged[place] = draw.integers(256)
        path.write_bytes(damaged)
        try:
            load(path.parent)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert "\n" not in "".join(messages)


@pytest.mark.parametrize("format", ["litert", "onnx"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "TokenClassifier"}, r"returns \[1, 3\], but export.json describes a model that returns \[1, 3, 3\]"),
        ({"model": "SpanClassifier"}, r"describes a model that returns start_logits \[1, 3\], end_logits \[1, 3\]"),
        ({"model": "MaskedLM"}, "describes a model that returns masked_lm_logits"),
        ({"model": "MultipleChoice"}, "cannot compute these features|describes a model that returns"),
        ({"model": "CrossEncoder"}, r"describes a model that returns \[1, 1\]"),
        ({"model": "SentenceEncoder", "settings": {"embedding_size": 5}}, r"describes a model that returns \[1, 5\]"),
        ({"model": "TextToText"}, "the format of a TextToText is saved_model only"),
        ({"model": 3}, "model must be a string"),
        ({"settings": {"labels": ["a", "b", "c"], "doc_stride": 10**400}}, "the setting doc_stride is not valid"),
        ({"max_seq_length": 10**400}, "max_seq_length must be between 3"),
    ],
)
def test_an_export_that_says_it_is_another_model_is_refused_when_it_is_loaded(format, changes, message, copied):
    folder = copied(format)
    values = json.loads((folder / "export.json").read_text())
    (folder / "export.json").write_text(json.dumps(values | changes))
    with pytest.raises(InputError, match=f"^[^\n]*({message})[^\n]*$"):
        load(folder)
