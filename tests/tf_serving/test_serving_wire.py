"""TF Serving's messages and tensors equal those of TensorFlow and TF Serving."""

import importlib
import random
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.wire import message_fields, messages
from keras_bert.tf_serving.wire.methods import HTTP_STATUS, METHODS, http_status
from keras_bert.tf_serving.wire.tensors import (
    NUMBER_OF_TYPE,
    array_to_tensor_proto,
    tensor_proto_to_array,
)

# Messages that tensorflow-serving-api 2.21.0 does not have; read in TF Serving's .proto files.
NOT_IN_THE_WHEEL = {"BatchingParameters"}


# tensorflow-serving-api 2.21.0, SerializeToString(deterministic=True).
GOLDEN_PREDICT = (
    "0a1a0a03746f79120208031a0f73657276696e675f64656661756c74121a0a04746578741212080712041202080242066120"
    "66696c6d42001a056c6162656c"
)
GOLDEN_LOG = (
    "32410a3f0a1a0a03746f79120208031a0f73657276696e675f64656661756c74121a0a047465787412120807120412020802"
    "4206612066696c6d42001a056c6162656c"
)


def described(field) -> tuple:
    kind = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return (
        field.number,
        field.type,
        field.is_repeated,
        field.is_packed if field.is_repeated else None,
        kind.full_name if kind else None,
        oneof.name if oneof else None,
    )


def assert_agrees(ours, theirs):
    assert ours.full_name == theirs.full_name
    assert bool(ours.GetOptions().map_entry) == bool(theirs.GetOptions().map_entry)
    for field in ours.fields:
        assert described(field) == described(theirs.fields_by_name[field.name]), f"{ours.full_name}.{field.name}"
    for enum in [field.enum_type for field in ours.fields if field.enum_type]:
        values = theirs.fields_by_name[[f.name for f in ours.fields if f.enum_type is enum][0]].enum_type.values_by_name
        assert all(values[value.name].number == value.number for value in enum.values), enum.full_name
    for nested in ours.nested_types:
        assert_agrees(nested, theirs.nested_types_by_name[nested.name])


def test_tensorflows_messages_are_as_in_tensorflow():
    from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

    theirs = {
        "TensorProto": tf.compat.v1.make_tensor_proto(1),
        "TensorShapeProto": tf.TensorShape([1]).as_proto(),
        "SignatureDef": SignatureDef(),
        "TensorInfo": TensorInfo(),
        "Example": tf.train.Example(),
        "Features": tf.train.Features(),
        "Feature": tf.train.Feature(),
        "BytesList": tf.train.BytesList(),
        "FloatList": tf.train.FloatList(),
        "Int64List": tf.train.Int64List(),
    }
    assert theirs.keys() == {name for name in message_fields.TENSORFLOW if "." not in name}
    for name, message in theirs.items():
        assert_agrees(getattr(messages, name).DESCRIPTOR, message.DESCRIPTOR)


def test_tf_servings_messages_and_methods_are_as_in_its_own_package():
    names = "classification get_model_metadata get_model_status inference input logging model_management model predict"
    names = [f"apis.{name}_pb2" for name in f"{names} prediction_log regression status".split()]
    for name in ["file_system_storage_path_source", "log_collector_config", "logging_config", "model_server_config"]:
        names.append(f"config.{name}_pb2")
    theirs = {}
    for name in names:
        theirs |= importlib.import_module(f"tensorflow_serving.{name}").DESCRIPTOR.message_types_by_name
    names = {name for name in message_fields.TENSORFLOW_SERVING if "." not in name} - NOT_IN_THE_WHEEL
    assert len(names) > 30
    for name in names:
        assert_agrees(getattr(messages, name).DESCRIPTOR, theirs[name])
    found = {}
    for name in ("prediction_service", "model_service"):
        module = importlib.import_module(f"tensorflow_serving.apis.{name}_pb2")
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                found[method.name] = (path, method.input_type.name, method.output_type.name)
    assert METHODS.items() <= found.items()


def test_a_request_has_the_bytes_that_tf_servings_own_package_writes():
    request = messages.PredictRequest(
        model_spec=messages.ModelSpec(
            name="toy", version=messages.Int64Value(value=3), signature_name="serving_default"
        ),
        inputs={"text": array_to_tensor_proto(np.array([b"a film", b""], object))},
        output_filter=["label"],
    )
    assert request.SerializeToString(deterministic=True).hex() == GOLDEN_PREDICT
    log = messages.PredictionLog(predict_log=messages.PredictLog(request=request))
    assert log.SerializeToString(deterministic=True).hex() == GOLDEN_LOG


def test_the_configurations_of_a_server_are_text_and_bytes_as_tf_serving_reads_them():
    text = (
        "max_batch_size { value: 8 } batch_timeout_micros { value: 1 } max_enqueued_batches { value: 2 } "
        "num_batch_threads { value: 3 } thread_pool_name { value: 'p' } allowed_batch_sizes: 1 "
        "allowed_batch_sizes: 8 pad_variable_length_inputs: true enable_large_batch_splitting { value: true } "
        "max_execution_batch_size { value: 4 }"
    )
    parsed = text_format.Parse(text, messages.BatchingParameters(), descriptor_pool=messages.POOL)
    # The numbers of the fields in TF Serving's .proto files, written by hand.
    data = "0a020808 12020801 1a020802 22020803 2a030a0170 32020108 3801 42020801 4a020804"
    assert parsed.SerializeToString(deterministic=True) == bytes.fromhex(data)
    config = messages.ModelServerConfig()
    model = config.model_config_list.config.add(name="toy", base_path="/models/toy", model_platform="tensorflow")
    model.model_version_policy.specific.versions.extend([1, 2])
    model.version_labels["stable"] = 1
    again = text_format.Parse(str(config), messages.ModelServerConfig(), descriptor_pool=messages.POOL)
    assert again == config


def test_metadata_is_packed_and_unpacked_as_any():
    signatures = messages.SignatureDefMap()
    signatures.signature_def["serving_default"].inputs["text"].dtype = NUMBER_OF_TYPE["object"]
    response = messages.GetModelMetadataResponse()
    response.metadata["signature_def"].Pack(signatures)
    assert response.metadata["signature_def"].type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    read = messages.GetModelMetadataResponse.FromString(response.SerializeToString())
    unpacked = messages.SignatureDefMap()
    assert read.metadata["signature_def"].Unpack(unpacked)
    assert unpacked == signatures


SHAPES = [(), (0,), (1,), (1, 1), (5,), (2, 3), (2, 0, 3)]
NUMBERS = [name for name in NUMBER_OF_TYPE if name not in ("object", "bfloat16")]


def numbers(dtype: np.dtype, shape: tuple) -> np.ndarray:
    count = int(np.prod(shape))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.array([limits.max, limits.min, 1, 7, 0, 3][:count], dtype)
    elif dtype.kind == "b":
        values = np.array([1, 0, 0, 1, 1, 0][:count], bool)
    else:
        values = np.array([-0.5, np.inf, 1.5, np.nan, 3, 0][:count]).astype(dtype)
        if dtype.kind == "c":
            values = values + dtype.type(2j)
    return values.reshape(shape)


@pytest.mark.parametrize("name", [*NUMBERS, "bfloat16"])
def test_numbers_are_written_byte_for_byte_as_tensorflow_writes_them(name):
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    for shape in SHAPES:
        array = numbers(dtype, shape)
        theirs = tf.make_tensor_proto(array, shape=shape)
        ours = array_to_tensor_proto(array)
        assert ours.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True), shape
        read = tensor_proto_to_array(ours)
        assert read.dtype == dtype
        assert read.shape == shape
        assert read.tobytes() == array.tobytes() == tf.make_ndarray(theirs).tobytes()
        if array.size > 1:  # arrays with other memory layouts
            for other in (array.T, array[::-1], array.astype(array.dtype.newbyteorder(">"))):
                expected = tf.make_tensor_proto(np.ascontiguousarray(other).astype(dtype))
                assert array_to_tensor_proto(other).SerializeToString() == expected.SerializeToString()


def test_strings_are_written_byte_for_byte_as_tensorflow_writes_them():
    for shape in SHAPES:
        values = ["", "a\0", "caf\u00e9", b"\xff\0", "x" * 300, "b"][: int(np.prod(shape))]
        array = np.array(values, object).reshape(shape)
        data = [value.encode() if isinstance(value, str) else value for value in values]
        theirs = tf.make_tensor_proto(np.array(data, object).reshape(shape), tf.string, shape=shape)
        ours = array_to_tensor_proto(array)
        assert ours.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True)
        read = tensor_proto_to_array(ours)
        assert read.dtype == object
        assert read.shape == shape
        assert read.ravel().tolist() == data
    assert tensor_proto_to_array(array_to_tensor_proto(np.array(["ab", "c"]))).tolist() == [b"ab", b"c"]
    assert tensor_proto_to_array(array_to_tensor_proto(np.array([b"ab"]))).tolist() == [b"ab"]
    assert tensor_proto_to_array(array_to_tensor_proto(np.array(["\udcff"], object))).tolist() == [b"\xff"]


FIELDS = {
    "half_val": ["DT_HALF", "DT_BFLOAT16"],
    "float_val": ["DT_FLOAT"],
    "double_val": ["DT_DOUBLE"],
    "int_val": ["DT_INT32", "DT_INT16", "DT_INT8", "DT_UINT8", "DT_UINT16"],
    "int64_val": ["DT_INT64"],
    "uint32_val": ["DT_UINT32"],
    "uint64_val": ["DT_UINT64"],
    "bool_val": ["DT_BOOL"],
    "scomplex_val": ["DT_COMPLEX64"],
    "dcomplex_val": ["DT_COMPLEX128"],
    "string_val": ["DT_STRING"],
}


def test_too_few_values_are_filled_up_with_the_last_as_tensorflow_does():
    for field, types in FIELDS.items():
        for data_type in types:
            for count in (0, 1, 2, 5, 6, 8):
                value = "b" if field == "string_val" else "1"
                first = '"a"' if field == "string_val" else "0"
                values = [first if place == 0 else f'"{value}"' if value == "b" else value for place in range(count)]
                if "complex" in field:
                    values *= 2
                text = f"dtype: {data_type} tensor_shape {{ dim {{ size: 2 }} dim {{ size: 3 }} }} "
                text += " ".join(f"{field}: {value}" for value in values)
                proto = text_format.Parse(text, messages.TensorProto(), descriptor_pool=messages.POOL)
                # TensorFlow's C++, which reads what is sent to a server.
                theirs = tf.io.parse_tensor(proto.SerializeToString(), tf.dtypes.as_dtype(proto.dtype)).numpy()
                ours = tensor_proto_to_array(proto)
                assert ours.dtype == theirs.dtype
                assert ours.tolist() == theirs.tolist(), (data_type, count)


def test_booleans_that_are_neither_0_nor_1_are_true():
    proto = messages.TensorProto(dtype=NUMBER_OF_TYPE["bool"], tensor_content=b"\x02\x00\xff")
    proto.tensor_shape.dim.add(size=3)
    assert tensor_proto_to_array(proto).view(np.uint8).tolist() == [1, 0, 1]


def test_strings_as_content_are_read_as_tensorflow_reads_them():
    values = [b"", b"a", b"x" * 300, b"\xff\0"]
    lengths = bytes([0, 1, 0xAC, 0x02, 2])
    proto = messages.TensorProto(dtype=7, tensor_content=lengths + b"".join(values))
    proto.tensor_shape.dim.add(size=4)
    assert tensor_proto_to_array(proto).tolist() == values
    assert tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy().tolist() == values
    for damaged in (proto.tensor_content[:-1], lengths[:3], b"\xff" * 12):
        proto.tensor_content = damaged
        with pytest.raises(InputError, match="cut off or damaged"):
            tensor_proto_to_array(proto)


def test_tensors_that_cannot_be_are_one_clear_error():
    def proto(text):
        return text_format.Parse(text, messages.TensorProto(), descriptor_pool=messages.POOL)

    for text, message in [
        ("dtype: DT_INVALID", "has the data type 0, which cannot be read here"),
        ("dtype: DT_RESOURCE", "has the data type 20"),
        ("dtype: 999", "has the data type 999"),
        ("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }", r"has the shape \[-1\], which is not fully known"),
        ("dtype: DT_FLOAT tensor_shape { unknown_rank: true }", "which is not fully known"),
        ("dtype: DT_FLOAT tensor_shape { dim { size: 3 } } tensor_content: 'abcd'", "has 4 bytes of content, not 12"),
        (
            "dtype: DT_FLOAT tensor_shape { dim { size: 4611686018427387904 } dim { size: 8 } } float_val: 1",
            "takes more than 2147483648 bytes",
        ),
        ("dtype: DT_STRING tensor_shape { dim { size: 1000000000 } }", "takes more than 2147483648 bytes"),
        ("dtype: DT_FLOAT tensor_shape {" + "dim { size: 1 }" * 65 + "}", "has 65 axes; the most are 64"),
        ("dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 4611686018427387904 } }", "which is too large"),
    ]:
        with pytest.raises(InputError, match=message):
            tensor_proto_to_array(proto(text))
    for array, message in [
        (np.array([None], object), "holds None, which is neither str nor bytes"),
        (np.array(["\ud800"], object), "half a surrogate pair"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"Arrays of type datetime64\[D\] cannot be sent"),
    ]:
        with pytest.raises(InputError, match=message):
            array_to_tensor_proto(array)


def test_every_repetition_of_a_string_counts_towards_the_limit():
    proto = messages.TensorProto(dtype=NUMBER_OF_TYPE["object"], string_val=[b"ten bytes."])
    proto.tensor_shape.dim.add(size=1000)
    with pytest.raises(InputError, match="The strings of a tensor of shape .1000. take more than 17999 bytes"):
        tensor_proto_to_array(proto, max_bytes=17_999)
    assert tensor_proto_to_array(proto, max_bytes=18_000).tolist() == [b"ten bytes."] * 1000


def test_codes_have_the_http_status_of_tf_serving():
    assert set(HTTP_STATUS) < set(message_fields.ENUMS["tensorflow.error.Code"])
    assert http_status("NOT_FOUND") == 404
    assert http_status("INTERNAL") == http_status("DATA_LOSS") == http_status("UNKNOWN") == 500


def test_messages_need_no_tensorflow_and_live_beside_it():
    program = (
        "import sys\n"
        "from keras_bert.tf_serving.wire import messages, methods, tensors\n"
        "print([name for name in ('tensorflow', 'keras', 'grpc') if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
    with pytest.raises(AttributeError, match="no message 'Predict' here"):
        messages.Predict  # noqa: B018
    assert {"PredictRequest", "TensorProto", "POOL"} <= set(dir(messages))


def test_damaged_tensors_are_an_input_error_or_an_array():
    chance = random.Random(1)
    arrays = [np.arange(6).reshape(2, 3).astype(name) for name in ("float32", "int8", "bool", "complex64", "uint16")]
    arrays.append(np.array([b"a", b"bb"], object))
    sound = [array_to_tensor_proto(array).SerializeToString() for array in arrays]
    read = refused = 0
    for _ in range(4000):
        data = bytearray(chance.choice(sound))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            proto = messages.TensorProto.FromString(bytes(data))
        except DecodeError:
            continue
        try:
            array = tensor_proto_to_array(proto, max_bytes=1 << 16)
        except InputError:
            refused += 1
            continue
        read += 1
        assert list(array.shape) == [dim.size for dim in proto.tensor_shape.dim]
    assert read > 200
    assert refused > 100
