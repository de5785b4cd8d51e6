"""Checks a LiteRT file from a stranger before the interpreter reads it: its operations, and the memory that they state.

Shapes that a network computes are not known before it runs. Those that a file states are bounded.
"""

import math
import mmap

import numpy as np

from keras_bert.program.errors import InputError

# Operations that may never end, that run other code, or that keep a state. Our files do not have them.
_REFUSED = ("CALL", "CALL_ONCE", "CUSTOM", "DELEGATE", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_WHILE", "WHILE")
# Operation -> its input that determines the size of the result.
_SIZE_INPUTS = {"BROADCAST_TO": 1, "FILL": 0, "ONE_HOT": 1, "PAD": 1, "PADV2": 1, "RANGE": 1, "TILE": 1}
# A value may have this many numbers for each byte of the file, beside some for tiny models.
_MOST_GROWTH, _FEW_NUMBERS = 4, 1 << 20


def check_litert(path: str) -> None:
    """Checks a file. LiteRT 2 trusts its numbers: a wrong one can let an operation write over weights.

    Raises:
        InputError: it has an operation that our files do not have, a value that is much larger than the file, a value
            that is computed twice, or computed and stored, or no network.
        Exception: the file is damaged: any error.
    """
    from ai_edge_litert import schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        model = schema.Model.GetRootAs(content, 0)
        limit = _MOST_GROWTH * len(content) + _FEW_NUMBERS
        codes = [model.OperatorCodes(number) for number in range(model.OperatorCodesLength())]
        operations = [names.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "CUSTOM") for code in codes]
        for operation in operations:
            if operation in _REFUSED:
                raise _error(path, f"has the operation {operation}")
        if not model.SubgraphsLength():
            raise _error(path, "has no network")
        for graph in (model.Subgraphs(number) for number in range(model.SubgraphsLength())):
            tensors = [graph.Tensors(number) for number in range(graph.TensorsLength())]
            sizes = [math.prod(tensor.Shape(axis) for axis in range(tensor.ShapeLength())) for tensor in tensors]
            for operator in (graph.Operators(number) for number in range(graph.OperatorsLength())):
                place = _SIZE_INPUTS.get(operations[operator.OpcodeIndex()])
                if place is not None:
                    sizes.append(_stated_size(model, tensors[operator.Inputs(place)], schema.TensorType.INT64))
            if max(sizes, default=0) > limit:
                raise _error(path, f"has a value of {max(sizes):,} numbers")
            computed = [graph.Inputs(number) for number in range(graph.InputsLength())]
            for operator in (graph.Operators(number) for number in range(graph.OperatorsLength())):
                computed += [operator.Outputs(number) for number in range(operator.OutputsLength())]
            if len(computed) > len(set(computed)):
                raise _error(path, "computes a value twice")
            if any(model.Buffers(tensors[number].Buffer()).DataLength() for number in computed):
                raise _error(path, "computes a value that it also stores")


def _stated_size(model, tensor, int64: int) -> int:
    """Returns the size that a constant states: [2, 1000] -> 2000. 1 if the tensor is no constant."""
    data = model.Buffers(tensor.Buffer()).DataAsNumpy()
    if isinstance(data, int):  # there is none
        return 1
    numbers = np.frombuffer(data.tobytes(), np.int64 if tensor.Type() == int64 else np.int32)
    return math.prod(max(1, abs(number)) for number in numbers.tolist())


def _error(path: str, problem: str) -> InputError:
    return InputError(
        f"{path} {problem}, which exports of keras_bert do not have. Export the model again, and load only what you "
        "trust."
    )
