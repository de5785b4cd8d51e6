"""The cases of TensorFlow Serving's json_tensor_test, expressed anew: what is read, printed and refused."""

import json

import numpy as np
import pytest

from keras_bert.tf_serving.server.json_examples import classification_body, examples_from_request, regression_body
from keras_bert.tf_serving.server.json_tensors import arrays_from_request, decimals, response_body
from keras_bert.tf_serving.server.json_text import debug_text, parse_object
from keras_bert.tf_serving.server.status import Code, StatusError
from keras_bert.tf_serving.wire import messages

pytest.importorskip("google.protobuf")


def read(body, **dtypes):
    body = body if isinstance(body, bytes) else body.encode()
    return arrays_from_request(parse_object(body), dtypes or {"x": "float"})


def refused(body, **dtypes) -> str:
    with pytest.raises(StatusError) as error:
        read(body, **dtypes)
    assert error.value.code == Code.INVALID_ARGUMENT
    return error.value.message


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"instances = [1]", "JSON Parse error: Invalid value. at offset: 0"),
        (b'{"a": [1 2]}', "JSON Parse error: Missing a comma or ] after an array element. at offset: 9"),
        (
            b'{"a": [1], "b": {"c": 1 2}}',
            "JSON Parse error: Missing a comma or } after an object member. at offset: 24",
        ),
        (b'{"a" 1}', "JSON Parse error: Missing a colon after a name of object member. at offset: 5"),
        (b"{a: 1}", "JSON Parse error: Missing a name for object member. at offset: 1"),
        (b'{"a": "', "JSON Parse error: Missing a closing quotation mark in string. at offset: 6"),
        (b'{"\xc3\xa9": "\x01"}', "JSON Parse error: Invalid encoding in string. at offset: 8"),
        (b'{"a": "\\x"}', "JSON Parse error: Invalid escape character in string. at offset: 7"),
        (b'{"a": "\\u12"}', "JSON Parse error: Incorrect hex digit after \\u escape in string."),
        (b'{"a": "\\ud800"}', "JSON Parse error: The surrogate pair in string is invalid."),
        (b'{"a": "\\udc80"}', "JSON Parse error: The surrogate pair in string is invalid."),
        (b'{"a": "\\ud83d\\ud83d"}', "JSON Parse error: The surrogate pair in string is invalid."),
        (b'{"a": 1e999}', "JSON Parse error: Number too big to be stored in double."),
        (b'{"a": ' + b"9" * 6000 + b"}", "JSON Parse error: Number too big to be stored in double."),
        (b'{"a": ' + b"[" * 100_000, "JSON Parse error: "),
        # Python 3.12 parses more than it can then walk through.
        (b'{"inputs": ' + b"[" * 300 + b"]" * 300 + b"}", "JSON Parse error: Terminate parsing due to Handler error."),
        (b'{"inputs": ' + b'{"a": ' * 300 + b"1" + b"}" * 301, "JSON Parse error: Terminate parsing due to Handler"),
        (b"[1]", "JSON Value: [1] Is not object"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
    ],
)
def test_what_is_no_request_is_refused_in_rapidjsons_words(body, error):
    assert refused(body).startswith(error)


def test_what_stands_behind_the_object_is_ignored_and_the_first_of_two_members_counts():
    assert parse_object(b'\xef\xbb\xbf {"a": 1, "b": 2, "a": 3} and more') == {"a": 1, "b": 2}


def test_strings_keep_their_bytes():
    arrays, _ = read(b'{"instances": ["\xff\xc3\xa9", "a\\u0000b", "\\ud83d\\ude00", {"b64": "/wA="}]}', x="string")
    assert arrays["x"].tolist() == [b"\xff\xc3\xa9", b"a\0b", "😀".encode(), b"\xff\0"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("[1, 2.5]", [1, 2.5]), ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]), ("[[[]]]", [[[]]]),
     ("[1e39, -1e39]", [np.inf, -np.inf]),
     ("[1e-50]", [0]), ("[NaN]", [np.nan]), ("[Infinity, -Infinity]", [np.inf, -np.inf]),
     ("[12345678901234567890]", [12345678901234567890])],
)  # fmt: skip
@pytest.mark.parametrize("form", ["instances", "inputs"])
def test_numbers_become_floats(form, value, expected):
    arrays, as_rows = read(f'{{"{form}": {value}}}')
    assert as_rows == (form == "instances")
    assert arrays["x"].dtype == np.float32
    np.testing.assert_array_equal(arrays["x"], np.array(expected, np.float32))


def test_named_inputs_may_come_as_rows_or_as_columns():
    dtypes = {"a": "int32", "b": "string"}
    rows = '{"instances": [{"a": [1, 2], "b": "x"}, {"b": {"b64": "eQ"}, "a": [3, 4]}]}'
    columns = '{"inputs": {"a": [[1, 2], [3, 4]], "b": ["x", "y"], "more": 1}}'
    for body in (rows, columns):
        arrays, _ = read(body, **dtypes)
        assert arrays["a"].tolist() == [[1, 2], [3, 4]]
        assert arrays["b"].tolist() == [b"x", b"y"]


def test_columns_may_be_a_scalar_or_have_no_rows_and_instances_may_not():
    assert read('{"inputs": 5}')[0]["x"].shape == ()
    assert read('{"inputs": []}')[0]["x"].shape == (0,)
    assert "No values in 'instances' array" in refused('{"instances": []}')


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"instances": [1], "inputs": [1]}', "Not formatted correctly expecting only one of 'inputs' or 'instances'"),
        ('{"instances": 1}', "Expecting 'instances' to be an list/array"),
        ('{"instances": [[1, 2], [3]]}', "Error: INVALID_ARGUMENT: Expecting tensor size: 2 but got: 1"),
        ('{"instances": [[1], 2]}', "Expecting shape [1] but got: []"),
        ('{"instances": [[[1, 2]], [[1], [2]]]}', "Expecting shape [1,2] but got: [2,1]"),
        ('{"instances": [1, "x"]}', 'JSON Value: "x" Type: String is not of expected type: float'),
        ('{"instances": [true]}', "JSON Value: true Type: True is not of expected type: float"),
        ('{"instances": [null]}', "Type: Null is not of expected type: float"),
        ('{"instances": [{"x": 1}, [2]]}', "Expecting object but got list at item 1 of input list"),
        ('{"instances": [[1], {"x": 1}]}', "Expecting value/list but got object at item 1 of input list"),
        ('{"instances": [{"y": 1}]}', "key: y of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not"),
        ('{"instances": [{"x": 1}, {}]}', "element: 1 of 'instances' list. JSON object: {} keys must be equal to: x"),
        ('{"inputs": {"y": [1]}}', "Missing named input: x in 'inputs' object."),
        ('{"inputs": [[1], [2, 3]]}', "Encountered list at unexpected size: 2 at level: 1 expected size: 1"),
        ('{"inputs": [1, [2]]}', "Encountered list at unexpected level: 1 expected < 1"),
        ('{"inputs": [[1], 2]}', "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        ('{"inputs": {"x": ' + "[" * 40 + "]" * 40 + "}}", "tensor parsing error: x"),
    ],
)  # fmt: skip
def test_wrong_forms_are_refused(body, error):
    assert error in refused(body)


def test_several_inputs_need_names():
    assert "instances is a plain list" in refused('{"instances": [1]}', a="float", b="float")
    assert "inputs is a plain value/list" in refused('{"inputs": [1]}', a="float", b="float")


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [("int32", "-2147483648", "2147483648"), ("int64", "9223372036854775807", "9223372036854775808"),
     ("uint32", "4294967295", "-1"), ("uint64", "18446744073709551615", "18446744073709551616"), ("int32", "1", "1.0"),
     ("bool", "false", "0"), ("string", '""', "1"), ("double", "1", '"1"')],
)  # fmt: skip
def test_each_type_has_its_range(dtype, good, bad):
    array = read(f'{{"instances": [{good}]}}', x=dtype)[0]["x"]
    assert array.tolist() == [b"" if dtype == "string" else json.loads(good)]
    assert f"is not of expected type: {dtype}" in refused(f'{{"instances": [{bad}]}}', x=dtype)


def test_small_integers_wrap_as_in_tensorflow_serving():
    assert read('{"instances": [300, -1]}', x="uint8")[0]["x"].tolist() == [44, 255]


def test_half_cannot_be_sent():
    with pytest.raises(StatusError, match="Conversion of JSON Value: 1 to type: half") as error:
        read('{"inputs": [1]}', x="half")
    assert error.value.code == Code.UNIMPLEMENTED
    assert "UNIMPLEMENTED: Conversion of JSON Value" in refused('{"instances": [1]}', x="half")


def test_base64_may_be_in_the_alphabet_of_the_web():
    arrays, _ = read(b'{"instances": [{"b64": "--__"}, {"b64": "++//"}]}', x="string")
    assert arrays["x"].tolist() == [b"\xfb\xef\xff"] * 2


def test_bad_base64_is_refused():
    assert "Unable to base64 decode" in refused('{"instances": [{"b64": "%%%"}]}', x="string")
    assert "not formatted correctly for base64 data" in refused('{"inputs": {"x": [{"b": "YQ=="}]}}', x="string")


def test_quoted_values_are_cut():
    text = debug_text({"a": [1, {"b": "c"}]})
    assert text == '{\n    "a": [1, {\n            "b": "c"\n        }]\n}'
    assert len(debug_text([[0] * 10_000] * 100)) < 400


def test_numbers_are_printed_in_six_digits_or_exactly():
    numbers = [0.1, 1, 9e6, 999999, 1 / 3, 123456789, 1e-7, -0.0, np.nan, np.inf, -np.inf]
    texts = [
        "0.1",
        "1.0",
        "9e+06",
        "999999.0",
        "0.333333343",
        "123456792.0",
        "1e-07",
        "-0.0",
        "NaN",
        "Infinity",
        "-Infinity",
    ]
    assert decimals(np.array(numbers, np.float32)) == texts
    assert decimals(np.array([1 / 3, 0.1], np.float64)) == ["0.33333333333333331", "0.1"]


def test_every_printed_number_is_the_number():
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    assert np.array(decimals(numbers), np.float64).astype(np.float32).tobytes() == numbers.tobytes()


def test_rows_are_printed_as_tensorflow_serving_prints_them():
    y = np.array([2.5, 3, 4.5], np.float32)
    assert response_body({"y": y}, True).decode() == '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}'
    body = response_body({"b": np.array([[1, 2]], np.int32), "a": np.array([b'"\n\x1f/'], object)}, True).decode()
    rows = '        {\n            "a": "\\"\\n\\u001F/",\n            "b": [1, 2]\n        }\n'
    assert body == f'{{\n    "predictions": [\n{rows}    ]\n}}'


def test_columns_are_printed_as_tensorflow_serving_prints_them():
    assert (
        response_body({"y": np.float32([2.5, 3])}, False).decode()
        == '{\n    "outputs": [\n        2.5,\n        3.0\n    ]\n}'
    )
    outputs = {"y": np.zeros((2, 0), np.float32), "z": np.array(True)}
    assert json.loads(response_body(outputs, False)) == {"outputs": {"y": [[], []], "z": True}}


def test_outputs_named_bytes_are_base64_and_others_are_text_as_it_is():
    array = np.array([b"\xff"], object)
    assert json.loads(response_body({"y_bytes": array}, True)) == {"predictions": [{"b64": "/w=="}]}
    assert b'["\xff"\n' in response_body({"y": array}, True)


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ({}, "Cannot convert empty tensor map to JSON"),
        ({"y": np.zeros((), np.float32)}, "Tensor name: y has no shape information "),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "Tensor name: b has inconsistent batch size: 3 expecting: 2"),
        ({"y": np.zeros(2, np.complex64)}, "Failed to write JSON value for tensor type: complex64"),
        ({"y": np.zeros(2, np.float16)}, "Failed to write JSON value for tensor type: half"),
    ],
)
def test_outputs_that_json_cannot_have_are_refused(outputs, error):
    with pytest.raises(StatusError) as caught:
        response_body(outputs, True)
    assert caught.value.message == error


def test_examples_are_read_and_the_context_is_in_each():
    request = {"context": {"year": 1999, "who": "c"}, "examples": [{"who": "a", "n": [1, True]}, {"f": [1.5, 1e39]}]}
    first, second = map(messages.Example.FromString, examples_from_request(request))
    features = first.features.feature
    assert features["who"].bytes_list.value == [b"a"]
    assert features["n"].int64_list.value == [1, 1]
    assert features["year"].int64_list.value == [1999]
    assert second.features.feature["f"].float_list.value == [1.5, np.inf]
    assert second.features.feature["who"].bytes_list.value == [b"c"]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({}, "When method is classify, key 'examples' is expected and was not found"),
        ({"examples": 5}, "Expecting 'examples' value to be an list/array"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": [5]}, "Example must be JSON object but got JSON Number"),
        ({"examples": [{}], "context": []}, "Example must be JSON object but got JSON Array"),
        ({"examples": [{"names": None}]}, "Feature: names has element with unexpected JSON type: Null"),
        ({"examples": [{"names": [[1]]}]}, "Feature: names has element with unexpected JSON type: Array"),
        ({"examples": [{"names": {"a": 1}}]}, "Feature: names has element with unexpected JSON type: Object"),
        ({"examples": [{"names": [1, "a"]}]}, "Unexpected element type in feature: names expecting type: int64"),
        ({"examples": [{"names": 2**63}]}, "Feature: names has uint64_t element. Only int64_t is supported."),
        ({"examples": [{"\udcff": 1}]}, "The name of a feature is not UTF-8: '\\udcff'"),
    ],
)
def test_examples_of_wrong_form_are_refused(request_, error):
    with pytest.raises(StatusError) as caught:
        examples_from_request(request_)
    assert error in caught.value.message


def test_results_are_printed_as_tensorflow_serving_prints_them():
    rows = [[(b"a", 0.75), (b"", np.inf)], [(b"b", 1.0)]]
    body = classification_body(rows).decode()
    assert body == '{\n    "results": [[["a", 0.75], ["", Infinity]], [["b", 1.0]]\n    ]\n}'
    assert regression_body([42, 0.5]).decode() == '{\n    "results": [42.0, 0.5]\n}'
