"""Converts numpy arrays to TensorProto and back, without TensorFlow.

Arrays are written as `tf.make_tensor_proto` writes them. They are read as TensorFlow's C++ reads them: from
`tensor_content`, or from the field of the type, whose last value is repeated until the tensor is full.
"""

import math

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.stored_numbers import read_varint
from keras_bert.tf_serving.wire import messages
from keras_bert.tf_serving.wire.strings import string_to_bytes

# numpy's type name -> (DataType, field with the values).
_TYPES = {
    "float32": ("DT_FLOAT", "float_val"),
    "float64": ("DT_DOUBLE", "double_val"),
    "int32": ("DT_INT32", "int_val"),
    "uint8": ("DT_UINT8", "int_val"),
    "int16": ("DT_INT16", "int_val"),
    "int8": ("DT_INT8", "int_val"),
    "object": ("DT_STRING", "string_val"),
    "complex64": ("DT_COMPLEX64", "scomplex_val"),
    "int64": ("DT_INT64", "int64_val"),
    "bool": ("DT_BOOL", "bool_val"),
    "bfloat16": ("DT_BFLOAT16", "half_val"),
    "uint16": ("DT_UINT16", "int_val"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val"),
    "float16": ("DT_HALF", "half_val"),
    "uint32": ("DT_UINT32", "uint32_val"),
    "uint64": ("DT_UINT64", "uint64_val"),
}
_DATA_TYPES = messages.TensorProto.DESCRIPTOR.fields_by_name["dtype"].enum_type
NUMBER_OF_TYPE = {name: _DATA_TYPES.values_by_name[data_type].number for name, (data_type, _) in _TYPES.items()}
TYPE_OF_NUMBER = {number: name for name, number in NUMBER_OF_TYPE.items()}
# `tf.make_tensor_proto` never writes these types as tensor_content.
_NEVER_AS_CONTENT = {"object", "bool", "uint16", "complex64", "complex128"}
# Protobuf's limit for a message. It also bounds the memory that a shape of a few bytes can ask for.
MAX_BYTES = 1 << 31
# numpy's limit; TensorFlow's is 254.
_MOST_AXES = 64


def array_to_tensor_proto(array: np.ndarray) -> "messages.TensorProto":
    """Returns `array` as a TensorProto.

    Args:
        array: numbers, booleans or strings of any shape. Strings have numpy's types `S` or `U`, or are `bytes` or `str`
            objects; `str` becomes UTF-8, and surrogates become the bytes that Python decoded as such. Types `S` and
            `U` lose trailing NULs, objects keep them.

    Raises:
        InputError: TF Serving has no such type, an object is not a string, or the array has 2 GB or more.
    """
    array = np.asarray(array)
    if array.dtype.kind in "SUT":
        array = array.astype(object)
    name = array.dtype.name
    if name not in _TYPES:
        raise InputError(f"Arrays of type {name} cannot be sent. TF Serving takes {', '.join(sorted(_TYPES))}.")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    proto = messages.TensorProto(dtype=NUMBER_OF_TYPE[name])
    proto.tensor_shape.SetInParent()
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if name not in _NEVER_AS_CONTENT and array.size > 1:
        if array.nbytes >= MAX_BYTES:
            raise InputError(f"An array of {array.nbytes} bytes is too large for one request; the limit is 2 GB.")
        proto.tensor_content = array.tobytes()
        return proto
    flat = array.ravel()
    if name == "object":
        values = [string_to_bytes(value) for value in flat.tolist()]
    elif name in ("bfloat16", "float16"):
        values = flat.view(np.uint16).tolist()  # the bits
    elif name in ("complex64", "complex128"):
        values = flat.view(flat.real.dtype).tolist()  # real and imaginary parts in turn
    else:
        values = flat.tolist()
    getattr(proto, _TYPES[name][1]).extend(values)
    return proto


def tensor_proto_to_array(proto: "messages.TensorProto", max_bytes: int = MAX_BYTES) -> np.ndarray:
    """Returns the array of a TensorProto; strings as an object array of `bytes`.

    As in TensorFlow's C++, the last value is repeated if there are too few, no values mean zeros or empty strings, and
    surplus values are ignored.

    Args:
        proto: a message of `messages` or of TensorFlow.
        max_bytes: the limit for the memory of the array with its strings: a small message can name a huge shape.

    Raises:
        InputError: the array would need more memory, the type cannot be read, the shape is unknown or too large, or
            the content has another size.
    """
    name = TYPE_OF_NUMBER.get(proto.dtype)
    if name is None:
        raise InputError(f"A tensor has the data type {proto.dtype}, which cannot be read here.")
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if len(shape) > _MOST_AXES:
        raise InputError(f"A tensor has {len(shape)} axes; the most are {_MOST_AXES}.")
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise InputError(f"A tensor has the shape {shape}, which is not fully known.")
    dtype = _bfloat16() if name == "bfloat16" else np.dtype(name)
    count = math.prod(shape)
    if count * dtype.itemsize > max_bytes:
        raise InputError(f"A tensor of shape {shape} takes more than {max_bytes} bytes.")
    if name == "object":
        content = proto.tensor_content
        strings = _split_strings(content, count) if content else list(proto.string_val)
        # The last string is repeated, and a model gets a copy of each.
        num_bytes = sum(map(len, strings[:count])) + max(count - len(strings), 0) * len(strings[-1] if strings else b"")
        if count * dtype.itemsize + num_bytes > max_bytes:
            raise InputError(f"The strings of a tensor of shape {shape} take more than {max_bytes} bytes.")
        flat = _filled(strings, count, dtype, b"")
    elif proto.tensor_content:
        if len(proto.tensor_content) != count * dtype.itemsize:
            raise InputError(
                f"A tensor of shape {shape} and type {name} has {len(proto.tensor_content)} bytes of content, "
                f"not {count * dtype.itemsize}."
            )
        # Via uint8, because numpy keeps booleans with other bytes than 0 and 1.
        stored = np.uint8 if name == "bool" else dtype.newbyteorder("<")
        flat = np.frombuffer(proto.tensor_content, stored).astype(dtype)
    else:
        flat = _filled(_numbers(proto, name, dtype), count, dtype, 0)
    try:
        return flat.reshape(shape)
    except ValueError as error:  # an empty array with an axis beyond numpy's limit
        raise InputError(f"A tensor has the shape {shape}, which is too large.") from error


def _numbers(proto, name: str, dtype: np.dtype) -> np.ndarray:
    """Returns the values of the type's field as an array."""
    values = getattr(proto, _TYPES[name][1])
    if name in ("bfloat16", "float16"):
        return np.array(values, np.int64).astype(np.uint16).view(dtype)
    if name in ("complex64", "complex128"):
        parts = np.array(values, np.float32 if name == "complex64" else np.float64)
        return parts[: len(parts) // 2 * 2].view(dtype)
    # Via 64 bits, because the field may hold larger values than the type; numpy truncates as C++ does.
    return np.array(values, np.uint64 if name == "uint64" else np.int64 if dtype.kind in "iu" else dtype).astype(dtype)


def _filled(values, count: int, dtype: np.dtype, default) -> np.ndarray:
    """Returns `count` values: the given ones, then the last one repeated; `default` if none is given."""
    flat = np.full(count, default, dtype) if not len(values) else np.empty(count, dtype)
    given = min(len(values), count)
    flat[:given] = values[:given]
    if given:
        flat[given:] = values[given - 1]
    return flat


def _split_strings(content: bytes, count: int) -> list[bytes]:
    """Splits strings as `--enable_serialization_as_tensor_content` writes them: lengths as varints, then bytes."""
    lengths, place = [], 0
    try:
        for _ in range(count):
            length, place = read_varint(content, place)
            lengths.append(length)
    except (IndexError, ValueError):
        raise InputError("The content of a tensor of strings is cut off or damaged.") from None
    if place + sum(lengths) != len(content):
        raise InputError("The content of a tensor of strings is cut off or damaged.")
    strings = []
    for length in lengths:
        strings.append(content[place : place + length])
        place += length
    return strings


def _bfloat16() -> np.dtype:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
