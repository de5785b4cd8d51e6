"""Requests and answers in JSON are read, written and refused as in TensorFlow Serving."""

import json

import numpy as np
import pytest

from keras_bert.tf_serving.server.json_examples import classification_body, examples_from_request, regression_body
from keras_bert.tf_serving.server.json_tensors import arrays_from_request, decimals, response_body
from keras_bert.tf_serving.server.json_text import parse_object, shown
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
        (b"", "Expecting value at byte 0"),
        (b"instances = [1]", "Expecting value at byte 0"),
        (b'{"\xc3\xa9": [1 2]}', "Expecting ',' delimiter at byte 10"),
        (b'{"a" 1}', "at byte 5"),
        (b"{a: 1}", "at byte 1"),
        (b'{"a": "', "Unterminated string"),
        (b'{"a": "\x01"}', "Invalid control character"),
        (b'{"a": "\\x"}', "escape"),
        (b'{"a": "\\u12"}', "escape"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\\udc80"}', "half of a surrogate pair"),
        (b'{"a": "\\ud83d\\ud83d"}', "half of a surrogate pair"),
        (b'{"a": 1e999}', "too large for 64 bits"),
        (b'{"a": ' + b"9" * 6000 + b"}", "too large for 64 bits"),
        (b'{"a": ' + b"[" * 100_000, "deeper than 256 levels"),
        # Python 3.12 parses deeper nesting than it can process.
        (b'{"inputs": ' + b"[" * 300 + b"]" * 300 + b"}", "deeper than 256 levels"),
        (b'{"inputs": ' + b'{"a": ' * 300 + b"1" + b"}" * 301, "deeper than 256 levels"),
        (b"[1]", "must be a JSON object. Received: [1]"),
        (b"{}", 'Give either "instances" or "inputs". Received: neither'),
    ],
)
def test_a_body_that_is_no_request_is_refused(body, error):
    assert error in refused(body)


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
    assert "Received: []" in refused('{"instances": []}')


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"instances": [1], "inputs": [1]}', "Received: instances, inputs"),
        ('{"instances": 1}', '"instances" must be a list with one value per row. Received: 1'),
        ('{"instances": [[1, 2], [3]]}', "instances[1]: All rows must have the shape of the first, [2]. Received: [1]"),
        ('{"instances": [[1], 2]}', "the shape of the first, [1]. Received: []"),
        ('{"instances": [[[1, 2]], [[1], [2]]]}', "the shape of the first, [1, 2]. Received: [2, 1]"),
        ('{"instances": [1, "x"]}', "instances[1]: Expected a value of type float. Received the string 'x'"),
        ('{"instances": [true]}', "Expected a value of type float. Received the boolean True"),
        ('{"instances": [null]}', "Expected a value of type float. Received the null None"),
        ('{"instances": [{"x": 1}, [2]]}', "instances[1] must be an object like the first row. Received: [2]"),
        ('{"instances": [[1], {"x": 1}]}', "instances[1] must be a value or a list like the first row"),
        ('{"instances": [{"y": 1}]}', "instances[0] must have the keys x. Received: {'y': 1}"),
        ('{"instances": [{"x": 1}, {}]}', "instances[1] must have the keys x. Received: {}"),
        ('{"inputs": {"y": [1]}}', '"inputs" must have the key x. Received: y'),
        ('{"inputs": [[1], [2, 3]]}', "inputs.x: Expected a list of 1 on axis 1. Received a list of 2"),
        ('{"inputs": [1, [2]]}', "inputs.x: Expected a single value on axis 1. Received: [2]"),
        ('{"inputs": [[1], 2]}', "inputs.x: Expected a list of 1 on axis 1. Received: 2"),
        ('{"inputs": {"x": ' + "[" * 40 + "]" * 40 + "}}", "The input x must have at most 32 axes. Received: 40"),
    ],
)
def test_wrong_forms_are_refused(body, error):
    assert error in refused(body)


def test_several_inputs_need_names():
    names = '{"a": ..., "b": ...}'
    assert names in refused('{"instances": [1]}', a="float", b="float")
    assert names in refused('{"inputs": [1]}', a="float", b="float")


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [("int32", "-2147483648", "2147483648"), ("int64", "9223372036854775807", "9223372036854775808"),
     ("uint32", "4294967295", "-1"), ("uint64", "18446744073709551615", "18446744073709551616"), ("int32", "1", "1.0"),
     ("bool", "false", "0"), ("string", '""', "1"), ("double", "1", '"1"')],
)  # fmt: skip
def test_each_type_has_its_range(dtype, good, bad):
    array = read(f'{{"instances": [{good}]}}', x=dtype)[0]["x"]
    assert array.tolist() == [b"" if dtype == "string" else json.loads(good)]
    assert f"Expected a value of type {dtype}" in refused(f'{{"instances": [{bad}]}}', x=dtype)


def test_small_integers_wrap_as_in_tensorflow_serving():
    assert read('{"instances": [300, -1]}', x="uint8")[0]["x"].tolist() == [44, 255]


def test_half_cannot_be_sent():
    with pytest.raises(StatusError, match="JSON cannot carry values of type half: use gRPC") as error:
        read('{"inputs": [1]}', x="half")
    assert error.value.code == Code.UNIMPLEMENTED
    assert "JSON cannot carry values of type half" in refused('{"instances": [1]}', x="half")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("++//", b"\xfb\xef\xff"), ("YQ==", b"a"), ("YQ", b"a"), ("YWI=", b"ab"), ("YWI", b"ab"), ("YQ..", b"a"),
     ("YQ=.", b"a"), (" Y\tQ\n=\r\x0b\x0c= ", b"a"), ("YW Jj\n", b"abc"), ("YR==", b"a"), ("", b""), (" ", b"")],
)  # fmt: skip
def test_base64_is_read_as_by_abseil(text, expected):
    body = json.dumps({"instances": [{"b64": text}]})
    assert read(body, x="string")[0]["x"].tolist() == [expected]
    (example,) = examples_from_request({"examples": [{"f": {"b64": text}}]})
    assert messages.Example.FromString(example).features.feature["f"].bytes_list.value == [expected]


@pytest.mark.parametrize(
    "text",
    ["%%%", "--__", "YWJj-_", "Y", "Y===", "YQ=", "YWI==", "YWJj=", "YWJj====", "=", "====", "YQ==YQ==", "YQ=Q", "Y=Q=",
     "YQ\xa0", "YQ\x1c", "YQ\x00", "YQ.Q", "\xe9"],
)  # fmt: skip
def test_bad_base64_is_refused(text):
    assert "is not base64" in refused(json.dumps({"instances": [{"b64": text}]}), x="string")


def test_bytes_need_the_key_b64():
    assert "A string of bytes must be" in refused('{"inputs": {"x": [{"b": "YQ=="}]}}', x="string")


def test_values_in_errors_are_cut():
    assert shown({"a": [1, {"b": "c"}]}) == "{'a': [1, {'b': 'c'}]}"
    assert len(shown([["x" * 10_000] * 10_000] * 100)) < 2000


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


def test_rows_are_values_or_objects():
    y = np.array([2.5, 3, 4.5], np.float32)
    assert response_body({"y": y}, True) == b'{"predictions": [2.5, 3.0, 4.5]}'
    body = response_body({"b": np.array([[1, 2]], np.int32), "a": np.array([b'"\n\x1f/'], object)}, True)
    assert json.loads(body) == {"predictions": [{"a": '"\n\x1f/', "b": [1, 2]}]}
    assert response_body({"y": y[:0]}, True) == b'{"predictions": []}'


def test_columns_are_a_value_or_an_object():
    assert response_body({"y": np.float32([2.5, 3])}, False) == b'{"outputs": [2.5, 3.0]}'
    outputs = {"y": np.zeros((2, 0), np.float32), "z": np.array(True)}
    assert json.loads(response_body(outputs, False)) == {"outputs": {"y": [[], []], "z": True}}


def test_outputs_named_bytes_are_base64_and_others_are_text_as_it_is():
    array = np.array([b"\xff"], object)
    assert json.loads(response_body({"y_bytes": array}, True)) == {"predictions": [{"b64": "/w=="}]}
    assert b'["\xff"]' in response_body({"y": array}, True)


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ({}, "The model returned no output"),
        ({"y": np.zeros((), np.float32)}, "Rows need outputs of one batch.* y \\[\\]"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "Rows need outputs of one batch.* a \\[2\\], b \\[3\\]"),
        ({"y": np.zeros(2, np.complex64)}, "JSON cannot carry an output of type complex64"),
        ({"y": np.zeros(2, np.float16)}, "JSON cannot carry an output of type float16"),
    ],
)
def test_outputs_that_json_cannot_have_are_refused(outputs, error):
    with pytest.raises(StatusError, match=error) as caught:
        response_body(outputs, True)
    assert caught.value.code == Code.INVALID_ARGUMENT


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
        ({}, '"examples" must be a list of at least one object. Received: None'),
        ({"examples": 5}, '"examples" must be a list of at least one object. Received: 5'),
        ({"examples": []}, '"examples" must be a list of at least one object. Received: []'),
        ({"examples": [5]}, "An example must be an object. Received: 5"),
        ({"examples": [{}], "context": []}, "An example must be an object. Received: []"),
        ({"examples": [{"names": None}]}, "The feature names must hold strings or numbers. Received: None"),
        ({"examples": [{"names": [[1]]}]}, "The feature names must hold strings or numbers. Received: [1]"),
        ({"examples": [{"names": {"a": 1}}]}, "The feature names must hold strings or numbers. Received: {'a': 1}"),
        ({"examples": [{"names": [1, "a"]}]}, "All values of the feature names must have one type. Received: b'a'"),
        ({"examples": [{"names": 2**63}]}, "The feature names must hold whole numbers below 2**63"),
        ({"examples": [{"\udcff": 1}]}, "The name of a feature must be UTF-8. Received: '\\udcff'"),
    ],
)
def test_examples_of_wrong_form_are_refused(request_, error):
    with pytest.raises(StatusError) as caught:
        examples_from_request(request_)
    assert error in caught.value.message


def test_results_are_rows_of_classes_or_numbers():
    rows = [[(b"a", 0.75), (b"", np.inf)], [(b"b", 1.0)]]
    assert classification_body(rows) == b'{"results": [[["a", 0.75], ["", Infinity]], [["b", 1.0]]]}'
    assert regression_body([42, 0.5]) == b'{"results": [42.0, 0.5]}'
