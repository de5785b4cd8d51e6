"""The requests of TensorFlow Serving's page on its REST API get the answers that the page gives."""

import types

import numpy as np
import pytest
import tensorflow as tf
from small_saved_models import HttpClient, wait_until_ready

from keras_bert.tf_serving.server.loaded_model import ServedSignature, TensorSpec
from keras_bert.tf_serving.server.model_config import ModelConfig
from keras_bert.tf_serving.server.run_server import background_server
from keras_bert.tf_serving.server.server_options import ServerOptions

MODEL = "saved_model_half_plus_three"


def parsed(examples, **dtypes):
    return tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([1], dtype) for name, dtype in dtypes.items()})


def save_half_plus_three(folder) -> None:
    """Writes the page's model as it was published: `x` is a column. It has signatures for all requests of the page."""
    v1 = tf.compat.v1

    def signature(inputs, outputs):
        infos = [
            {name: v1.saved_model.build_tensor_info(tensor) for name, tensor in tensors.items()}
            for tensors in (inputs, outputs)
        ]
        return v1.saved_model.build_signature_def(*infos)

    with tf.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None])
        x = parsed(examples, x=tf.float32)["x"]
        assert x.shape.as_list() == [None, 1]
        y = x * 0.5 + 3
        regress = signature({"inputs": examples}, {"outputs": y})
        regress.inputs["inputs"].dtype = tf.float32.as_datatype_enum  # as in the published file
        tag = v1.placeholder(tf.string, [None])
        signal, sensor = v1.placeholder(tf.float32, [None, 5]), v1.placeholder(tf.int32, [None, 2, 2])
        objects = parsed(examples, image=tf.string, caption=tf.string)
        length = tf.cast(tf.strings.length(objects["image"]), tf.float32)
        readings = v1.placeholder(tf.float32, [None, None])
        signatures = {
            "serving_default": signature({"x": x}, {"y": y}),
            "tensorflow/serving/regress": regress,
            "tag": signature({"tag": tag}, {"tag": tf.identity(tag)}),
            "sensors": signature(
                {"tag": tag, "signal": signal, "sensor": sensor},
                {"tag": tf.identity(tag), "total": tf.reduce_sum(signal, 1), "corner": sensor[:, 1, 1]},
            ),
            "sensor_only": signature({"sensor": sensor}, {"sum": tf.reduce_sum(sensor, [1, 2])}),
            "readings": signature({"x": readings}, {"y": tf.identity(readings)}),
            "classify_objects": signature(
                {"inputs": examples}, {"classes": objects["caption"], "scores": length}
            ),
        }  # fmt: skip
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documented")
    save_half_plus_three(folder / "00000123")
    options = ServerOptions(port=0, poll_seconds=0)
    configs = [ModelConfig(MODEL, str(folder))]
    with background_server(configs, options) as address, HttpClient(address.port, MODEL) as client:
        wait_until_ready(address.port)
        yield client


SENSOR_ROWS = [
    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
    {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
]
SENSOR_COLUMNS = {name: [row[name] for row in SENSOR_ROWS] for name in SENSOR_ROWS[0]}


@pytest.mark.parametrize(
    ("signature", "given", "expected"),
    [
        ("", {"instances": [1.0, 2.0, 5.0]}, {"predictions": [3.5, 4.0, 5.5]}),
        ("", {"instances": [1, 2, 5]}, {"predictions": [3.5, 4.0, 5.5]}),
        ("", {"instances": [{"x": 1.0}, {"x": 2.0}]}, {"predictions": [3.5, 4.0]}),
        ("", {"instances": [[1.0], [2.0]]}, {"predictions": [[3.5], [4.0]]}),
        ("", {"instances": [[[1, 2]], [[3, 4]]]}, {"predictions": [[[3.5, 4.0]], [[4.5, 5.0]]]}),
        ("", {"inputs": [1.0, 2.0, 5.0]}, {"outputs": [3.5, 4.0, 5.5]}),
        ("", {"inputs": {"x": [[1.0], [2.0]]}}, {"outputs": [[3.5], [4.0]]}),
        ("", {"inputs": 1.0}, {"outputs": 3.5}),
        ("", {"instances": [1435774380]}, {"predictions": [717887168.0]}),
        ("tag", {"instances": ["foo", "bar", "baz"]}, {"predictions": ["foo", "bar", "baz"]}),
        ("tag", {"instances": [["foo"], ["bar"]]}, {"predictions": [["foo"], ["bar"]]}),
        ("tag", {"inputs": {"b64": "Zm9v"}}, {"outputs": "foo"}),
        (
            "sensors",
            {"instances": SENSOR_ROWS},
            {"predictions": [{"tag": "foo", "total": 15.0, "corner": 4}, {"tag": "bar", "total": 15.0, "corner": 8}]},
        ),
        (
            "sensors",
            {"inputs": SENSOR_COLUMNS},
            {"outputs": {"tag": ["foo", "bar"], "total": [15.0, 15.0], "corner": [4, 8]}},
        ),
        # The columns need not have one length.
        (
            "sensors",
            {"inputs": {**SENSOR_COLUMNS, "tag": ["foo"]}},
            {"outputs": {"tag": ["foo"], "total": [15.0, 15.0], "corner": [4, 8]}},
        ),
        ("sensor_only", {"instances": [[[1, 2], [3, 4], [5, 6]]]}, {"predictions": [21]}),
    ],
)
def test_predict_answers_every_form_of_the_page(client, signature, given, expected):
    assert client.ask({"signature_name": signature, **given}) == (200, expected)


def test_numbers_that_are_not_finite_are_read_and_written(client):
    body = b'{"signature_name": "readings", "instances": [[1.0, -3.14, NaN, Infinity, -Infinity]]}'
    status, answer = client.raw("POST", f"{client.path}:predict", body)
    assert (status, answer) == (200, b'{"predictions": [[1.0, -3.14, NaN, Infinity, -Infinity]]}')


def test_regress_needs_the_published_signature_by_name(client):
    request = {"signature_name": "tensorflow/serving/regress", "examples": [{"x": 1.0}, {"x": 2.0}]}
    assert client.ask(request, "regress") == (200, {"results": [3.5, 4.0]})
    assert client.ask({"examples": request["examples"]}, "regress")[0] == 400
    shared = {**request, "context": {"x": [1.0]}, "examples": [{}, {"x": 2.0}]}
    assert client.ask(shared, "regress") == (200, {"results": [3.5, 4.0]})


def test_classify_takes_binary_values(client):
    examples = [
        {"image": {"b64": "aW1hZ2UgYnl0ZXM="}, "caption": "seaside"},
        {"image": {"b64": "YXdlc29tZSBpbWFnZSBieXRlcw=="}, "caption": "mountains"},
    ]
    answer = client.ask({"signature_name": "classify_objects", "examples": examples}, "classify")
    assert answer == (200, {"results": [[["seaside", 11.0]], [["mountains", 19.0]]]})


@pytest.mark.parametrize(
    ("signature", "body", "error"),
    [
        # TensorFlow's own errors: they come from the operations, not from the shapes of the signature.
        ("sensor_only", {"instances": [1, 2]}, "Invalid reduction dimension"),
        ("sensors", {"inputs": {**SENSOR_COLUMNS, "sensor": [1]}}, ""),
        ("tensorflow/serving/regress", {"instances": [1.0]}, "Expects arg[0] to be string but float is provided"),
    ],
)
def test_a_value_that_the_graph_cannot_take_is_400(client, signature, body, error):
    status, answer = client.ask({"signature_name": signature, **body})
    assert status == 400
    assert error in answer["error"]


def test_more_rows_than_a_fixed_axis_has_are_counted():
    signature = types.SimpleNamespace(inputs={"x": TensorSpec("x:0", "float", (2,))})
    assert (
        ServedSignature.num_rows(signature, {"x": np.zeros(2)})
        == ServedSignature.num_rows(signature, {"x": np.zeros(())})
        == 0
    )
    assert ServedSignature.num_rows(signature, {"x": np.zeros(3)}) == 3
