"""An ONNX graph under construction: operations of the standard, and the formulas that BERT is made of.

The formulas have the forms in which ONNX Runtime recognises attention, LayerNorm and GELU, and replaces each by one
fast operation when it loads a file. It knows attention only up to opset 12, where `Unsqueeze` has its axes as an
attribute, so LayerNorm and GELU, which are operations of later opsets, are written out too.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.serving.graph.eight_bit_weights import quantize
from keras_bert.serving.graph.input_divisors import LARGEST_OF_KERNELS, SMALLEST_RANGE

# The version of the operations. ONNX Runtime knows attention up to this one.
OPSET = 12
# The first version of the file format for this opset.
_IR_VERSION = 7
_LARGEST_FLOAT16 = 65504.0
_GELU_FACTORS = (0.044715, math.sqrt(2 / math.pi))


class OnnxGraph:
    """Collects nodes and weights. Methods for operations add nodes and return the names of their results.

    Args:
        weights: how matrices are stored: None (float32), "float16" or "int8". Vectors are float32. Except for products
            of "int8", everything is computed in float32.
        packed: whether rows should have several sequences, if the model allows it; see `onnx_heads.encoder_of_rows`.
        divisors: name of a dense layer -> float32 `[inputs]`: what its inputs are divided by before they are rounded to
            8 bits. None means the largest value of each row. See `input_divisors.py`.

    Attributes:
        weights, packed: as given.
        packed_inputs: the inputs that only packed rows have, name -> axes; empty if rows have one sequence.
        joins_products: whether one product for query, key and value is faster than three.
    """

    def __init__(
        self,
        weights: str | None = None,
        divisors: Mapping[str, np.ndarray | None] | None = None,
        packed: bool = False,
    ):
        import onnx  # only those who export need it

        self.weights, self.packed = weights, packed
        self.packed_inputs: dict[str, Sequence] = {}
        self.joins_products = weights == "int8"
        self._helper, self._to_tensor, self._types = onnx.helper, onnx.numpy_helper.from_array, onnx.TensorProto
        self._check = onnx.checker.check_model
        self._nodes, self._initializers, self._shapes = [], {}, []
        self._rounded = {}
        self._divisors = divisors or {}

    def empty(self, packed: bool) -> "OnnxGraph":
        """Returns an empty graph with the same weights and divisors."""
        return OnnxGraph(self.weights, self._divisors, packed)

    def node(self, operation: str, *inputs: str, num_outputs: int = 1, **attributes):
        """Adds a node. Returns the name of its output, or a list of names if `num_outputs` is not 1."""
        name = f"{operation}_{len(self._nodes)}"
        outputs = [name if number == 0 else f"{name}.{number}" for number in range(num_outputs)]
        self._nodes.append(self._helper.make_node(operation, inputs, outputs, name=name, **attributes))
        return outputs[0] if num_outputs == 1 else outputs

    def weight(self, name: str, values) -> str:
        """Stores an array once under its name, which layers that share weights share, and returns the name."""
        if name not in self._initializers:
            self._initializers[name] = self._to_tensor(np.asarray(values, order="C"), name)
        return name

    def number(self, value: float) -> str:
        """Returns the name of a float32 constant."""
        return self.weight(f"number {value:.9g}", np.float32(value))

    def integers(self, *values: int) -> str:
        """Returns the name of an int64 vector."""
        return self.weight(f"integers {' '.join(map(str, values))}", np.array(values, np.int64))

    def state_axes(self, value: str, axes: Sequence, dtype: str = "float32") -> None:
        """Names the axes of a value. ONNX Runtime's fusions compare names, and it cannot infer all of them."""
        element_type = self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._shapes.append(self._helper.make_tensor_value_info(value, element_type, axes))

    def to_float(self, value: str) -> str:
        return self.node("Cast", value, to=self._types.FLOAT)

    def to_int64(self, value: str) -> str:
        return self.node("Cast", value, to=self._types.INT64)

    def rows(self, name: str, table: np.ndarray, indices: str) -> str:
        """Returns rows of a table `[rows, width]`: any shape -> float32 `[..., width]`."""
        if self.weights is None:
            return self.node("Gather", self.weight(name, table), indices)
        if self.weights == "float16":
            return self.to_float(self.node("Gather", self._half(name, table), indices))
        numbers, scales = self._eight_bits(name, table, axis=1)
        found = self.to_float(self.node("Gather", numbers, indices))
        return self.node("Mul", found, self.node("Gather", scales, indices))

    def at_columns(self, values: str, columns: str) -> str:
        """Returns the values at columns of each row: `[B, S, ...]`, int64 `[B, K]` -> `[B, K, ...]`."""
        return self.node("GatherND", values, self.node("Unsqueeze", columns, axes=[2]), batch_dims=1)

    def dense(self, name: str, values: str, kernel: np.ndarray, bias: np.ndarray | None, exact: bool = False) -> str:
        """Returns `values @ kernel + bias`: float32 `[..., inputs]` -> `[..., outputs]`.

        `exact` makes the kernel float32 in every graph; for the last layer, whose outputs users see.
        """
        if exact or self.weights is None:
            product = self.node("MatMul", values, self.weight(f"{name}/kernel", kernel))
        elif self.weights == "float16":
            product = self.node("MatMul", values, self.to_float(self._half(f"{name}/kernel", kernel)))
        else:
            product = self._eight_bit_product(name, values, kernel)
        return product if bias is None else self.node("Add", product, self.weight(f"{name}/bias", bias))

    def _eight_bit_product(self, name: str, values: str, kernel: np.ndarray) -> str:
        sizes = None
        if name in self._divisors:
            divisors = self._divisors[name]
            if divisors is None:
                largest = self.node("ReduceMax", self.node("Abs", values), axes=[-1])
                sizes = self.node("Max", largest, self.number(SMALLEST_RANGE))
                values = self.node("Div", values, sizes)
            else:
                values = self.node("Mul", values, self.weight(f"{name}/factors", 1 / divisors))
                kernel = kernel * divisors[:, None]
        numbers, scales = self._eight_bits(f"{name}/kernel", kernel, axis=0)
        product = self._product_of_integers(values, numbers, scales)
        return product if sizes is None else self.node("Mul", product, sizes)

    def product_with_rows(self, name: str, values: str, table: np.ndarray, bias_name: str, bias: np.ndarray) -> str:
        """Returns `values @ table.T + bias`: float32 `[M, width]` and `[rows, width]` -> `[M, rows]`.

        The file stores the table once, even if `rows` reads it too.
        """
        bias_name = self.weight(bias_name, bias)
        if self.weights != "int8":
            stored = self.weight(name, table) if self.weights is None else self.to_float(self._half(name, table))
            return self.node("Gemm", values, stored, bias_name, transB=1)
        numbers, scales = self._eight_bits(name, table, axis=1)
        scales = self.node("Squeeze", scales, axes=[1])
        columns = self.node("Transpose", numbers, perm=[1, 0])
        return self.node("Add", self._product_of_integers(values, columns, scales), bias_name)

    def _half(self, name: str, matrix: np.ndarray) -> str:
        if not np.abs(matrix).max(initial=0) <= _LARGEST_FLOAT16:
            raise InputError(f"weights=float16 cannot hold the numbers of {name}. Export the model in float32.")
        return self.weight(name, matrix.astype(np.float16))

    def _eight_bits(self, name: str, matrix: np.ndarray, axis: int) -> tuple[str, str]:
        """Stores a matrix as integers and scales: one per column (axis 0, `[columns]`) or per row (1, `[rows, 1]`)."""
        if name not in self._initializers:
            numbers, scales = quantize(matrix, axis, LARGEST_OF_KERNELS)
            self.weight(name, numbers)
            self.weight(f"{name}/scale", scales[0] if axis == 0 else scales)
        return name, f"{name}/scale"

    def _product_of_integers(self, values: str, numbers: str, scales: str) -> str:
        """Rounds values to 8 bits, with one scale for the whole batch, and multiplies integers."""
        if values not in self._rounded:
            self._rounded[values] = self.node("DynamicQuantizeLinear", values, num_outputs=3)
        rounded, scale, zero = self._rounded[values]
        product = self.node("MatMulInteger", rounded, numbers, zero)
        return self.node("Mul", self.to_float(product), self.node("Mul", scale, scales))

    def layer_norm(self, values: str, name: str, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> str:
        """Returns LayerNorm over the last axis; see `layers/layer_norm.py`."""
        centred = self.node("Sub", values, self.node("ReduceMean", values, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", centred, self.number(2)), axes=[-1])
        deviation = self.node("Sqrt", self.node("Add", variance, self.number(epsilon)))
        scaled = self.node("Mul", self.node("Div", centred, deviation), self.weight(f"{name}/gamma", gamma))
        return self.node("Add", scaled, self.weight(f"{name}/beta", beta))

    def activation(self, name: str, values: str) -> str:
        """Returns an activation of `layers/activations.py`."""
        if name == "gelu_erf":
            erf = self.node("Erf", self.node("Div", values, self.number(math.sqrt(2))))
            return self.node("Mul", self.node("Mul", values, self.node("Add", erf, self.number(1))), self.number(0.5))
        if name == "gelu":
            cube = self.node("Mul", self.node("Pow", values, self.number(3)), self.number(_GELU_FACTORS[0]))
            inner = self.node("Mul", self.node("Add", values, cube), self.number(_GELU_FACTORS[1]))
            outer = self.node("Add", self.node("Tanh", inner), self.number(1))
            return self.node("Mul", self.node("Mul", values, self.number(0.5)), outer)
        if name == "silu":
            return self.node("Mul", values, self.node("Sigmoid", values))
        return values if name == "linear" else self.node({"relu": "Relu", "tanh": "Tanh"}[name], values)

    def model(
        self,
        inputs: dict[str, Sequence],
        outputs: dict[str, tuple[str, Sequence]],
        about: str,
        int64_names: Mapping[str, str] | None = None,
    ):
        """Returns the checked `onnx.ModelProto`.

        Args:
            inputs: name of an int32 input -> its axes.
            outputs: name of a float32 output -> the value, and its axes.
            about: a sentence that the file contains.
            int64_names: name of an input -> its name in the file, where it is int64. Nodes get it as int32.
        """
        int32, int64, float32 = self._types.INT32, self._types.INT64, self._types.FLOAT
        names = int64_names or {}
        cast = {name: f"{name} as int32" for name in names}
        for node in self._nodes:
            node.input[:] = [cast.get(value, value) for value in node.input]
        casts = [self._helper.make_node("Cast", [names[name]], [value], to=int32) for name, value in cast.items()]
        made = [self._helper.make_node("Identity", [value], [name]) for name, (value, _) in outputs.items()]
        types = {name: (names.get(name, name), int64 if name in names else int32) for name in inputs}
        graph = self._helper.make_graph(
            [*casts, *self._nodes, *made],
            "keras_bert",
            [self._helper.make_tensor_value_info(*types[name], axes) for name, axes in inputs.items()],
            [self._helper.make_tensor_value_info(name, float32, axes) for name, (_, axes) in outputs.items()],
            list(self._initializers.values()),
            doc_string=about,
            value_info=self._shapes,
        )
        opset = self._helper.make_opsetid("", OPSET)
        model = self._helper.make_model(
            graph, opset_imports=[opset], ir_version=_IR_VERSION, producer_name="keras_bert"
        )
        self._check(model)
        return model
