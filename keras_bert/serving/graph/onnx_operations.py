"""The operations that our ONNX files may have, and the shapes of their results.

`OnnxGraph` writes these operations only, and `check_onnx` allows no others. The shapes show how much memory a file from
a stranger takes before a runtime gets it.

Reference: onnx, `docs/Operators.md`, opset 12, and opset 13 for files with static ranges of 8 bits.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

# ONNX Runtime knows attention up to opset 12. Opset 13 has scales for each column.
OPSET, OPSET_OF_COLUMN_SCALES = 12, 13
# From opset 13 on, these attributes are inputs.
MOVED_TO_INPUTS = {"ReduceSum": "axes", "Split": "split", "Squeeze": "axes", "Unsqueeze": "axes"}
Shape = tuple[int, ...]


class Value(NamedTuple):
    """What is known of a value of a graph before it runs.

    Attributes:
        shape: its shape.
        numbers: the numbers of a short vector of integers, such as a shape, or None if they are not known.
        is_constant: whether it does not depend on the features, so that runtimes compute it when they load the file.
    """

    shape: Shape
    numbers: tuple[int, ...] | None = None
    is_constant: bool = False


def results(operation: str, attributes: Mapping, inputs: list[Value]) -> list[tuple[Shape, tuple[int, ...] | None]]:
    """Returns shape and known numbers of each result of an operation.

    Raises:
        KeyError: the operation is not in `OPERATIONS`, or an attribute is missing.
        ValueError, IndexError, TypeError: inputs or attributes have impossible shapes or numbers.
    """
    if operation in MOVED_TO_INPUTS and len(inputs) == 2:
        *inputs, moved = inputs
        attributes = {**attributes, MOVED_TO_INPUTS[operation]: moved.numbers}
    found = OPERATIONS[operation](attributes, *inputs)
    if operation in ("Split", "DynamicQuantizeLinear"):
        return [(shape, None) for shape in found]
    return [(found, _numbers(operation, attributes, inputs, found))]


def _numbers(operation: str, attributes: Mapping, inputs: list[Value], shape: Shape) -> tuple[int, ...] | None:
    """Returns the numbers of the parts of shapes that graphs compute."""
    if operation == "Shape":
        return inputs[0].shape
    known = [value.numbers for value in inputs]
    if operation not in ("Gather", "Slice", "Concat") or None in known or len(shape) > 1:
        return None
    if operation == "Gather":
        return tuple(known[0][number] for number in known[1])
    return known[0][_range(inputs)] if operation == "Slice" else sum(known, ())


def _same(attributes, value, *others) -> Shape:
    return value.shape


def _broadcast(attributes, *values) -> Shape:
    return np.broadcast_shapes(*(value.shape for value in values))


def _product(attributes, one, other, *zero_points) -> Shape:
    if one.shape[-1] != other.shape[-2]:
        raise ValueError(f"a product of {one.shape} and {other.shape}")
    return (*np.broadcast_shapes(one.shape[:-2], other.shape[:-2]), one.shape[-2], other.shape[-1])


def _product_with_rows(attributes, one, rows, bias) -> Shape:
    if one.shape[1] != rows.shape[1] or attributes != {"transB": 1}:
        raise ValueError(f"a product of {one.shape} and {rows.shape} with {dict(attributes)}")
    return np.broadcast_shapes((one.shape[0], rows.shape[0]), bias.shape)


def _reduced(attributes, value) -> Shape:
    axes = _axes(attributes["axes"], value.shape)
    kept = 1 if attributes.get("keepdims", 1) else None
    sizes = [kept if axis in axes else size for axis, size in enumerate(value.shape)]
    return tuple(size for size in sizes if size is not None)


def _squeezed(attributes, value) -> Shape:
    axes = _axes(attributes["axes"], value.shape)
    if any(value.shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {axes} of {value.shape} are not 1")
    return tuple(size for axis, size in enumerate(value.shape) if axis not in axes)


def _unsqueezed(attributes, value) -> Shape:
    (axis,) = attributes["axes"]
    return (*value.shape[:axis], 1, *value.shape[axis:])


def _transposed(attributes, value) -> Shape:
    if sorted(attributes["perm"]) != list(range(len(value.shape))):
        raise ValueError(f"the order {attributes['perm']} of {value.shape}")
    return tuple(value.shape[axis] for axis in attributes["perm"])


def _joined(attributes, *values) -> Shape:
    (axis,) = _axes([attributes["axis"]], values[0].shape)
    rests = {(*value.shape[:axis], *value.shape[axis + 1 :]) for value in values}
    if len(rests) > 1:
        raise ValueError(f"joins {[value.shape for value in values]}")
    return (*values[0].shape[:axis], sum(value.shape[axis] for value in values), *values[0].shape[axis + 1 :])


def _split(attributes, value) -> list[Shape]:
    (axis,) = _axes([attributes["axis"]], value.shape)
    if min(attributes["split"]) < 0 or sum(attributes["split"]) != value.shape[axis]:
        raise ValueError(f"parts {attributes['split']} of {value.shape}")
    return [(*value.shape[:axis], size, *value.shape[axis + 1 :]) for size in attributes["split"]]


def _quantized(attributes, value) -> list[Shape]:
    return [value.shape, (), ()]


def _rescaled(attributes, value, scale, *zero_points) -> Shape:
    if scale.shape not in ((), (value.shape[attributes["axis"]],) if attributes else ()):
        raise ValueError(f"scales {scale.shape} of {value.shape}")
    return value.shape


def _range(inputs) -> slice:
    (start,), (end,) = inputs[1].numbers, inputs[2].numbers
    return slice(start, end)


def _part(attributes, value, start, end, axes) -> Shape:
    (axis,) = _axes(axes.numbers, value.shape)
    size = len(range(*_range([value, start, end]).indices(value.shape[axis])))
    return (*value.shape[:axis], size, *value.shape[axis + 1 :])


def _rows(attributes, table, indices) -> Shape:
    if attributes:
        raise ValueError(f"the attributes {dict(attributes)}")
    return (*indices.shape, *table.shape[1:])


def _rows_of_batch(attributes, values, indices) -> Shape:
    depth = attributes["batch_dims"] + indices.shape[-1]
    return (*indices.shape[:-1], *values.shape[depth:])


def _reshaped(attributes, value, wanted) -> Shape:
    sizes = [value.shape[axis] if size == 0 else size for axis, size in enumerate(wanted.numbers)]
    count = math.prod(value.shape)
    if -1 in sizes:
        sizes[sizes.index(-1)] = count // math.prod(size for size in sizes if size != -1)
    if min(sizes, default=0) < 0 or math.prod(sizes) != count:
        raise ValueError(f"{value.shape} as {wanted.numbers}")
    return tuple(sizes)


def _expanded(attributes, value, wanted) -> Shape:
    return np.broadcast_shapes(value.shape, wanted.numbers)


def _counted(attributes, *ends) -> Shape:
    (start,), (end,), (step,) = (value.numbers for value in ends)
    return (len(range(start, end, step)),)


def _axes(axes, shape: Shape) -> list[int]:
    """Returns axes counted from the front: [-1] of a shape of three axes -> [2]."""
    return [range(len(shape))[axis] for axis in axes]


# Operation -> function of its attributes and the values of its inputs that returns the shape of its result.
OPERATIONS: dict[str, Callable] = {
    **dict.fromkeys(("Abs", "Cast", "Cos", "CumSum", "Erf", "Exp", "Floor", "Identity", "Log", "Neg"), _same),
    **dict.fromkeys(("Not", "Relu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Sqrt", "Tanh"), _same),
    **dict.fromkeys(("Add", "And", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mul", "Or"), _broadcast),
    **dict.fromkeys(("Pow", "Sub", "Where"), _broadcast),
    **dict.fromkeys(("MatMul", "MatMulInteger"), _product),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceSum"), _reduced),
    "Concat": _joined,
    "DequantizeLinear": _rescaled,
    "DynamicQuantizeLinear": _quantized,
    "Expand": _expanded,
    "Gather": _rows,
    "GatherND": _rows_of_batch,
    "Gemm": _product_with_rows,
    "QuantizeLinear": _rescaled,
    "Range": _counted,
    "Reshape": _reshaped,
    "Shape": lambda attributes, value: (len(value.shape),),
    "Slice": _part,
    "Split": _split,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
