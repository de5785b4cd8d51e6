"""Classify and Regress on what a model returns, without a model."""

import asyncio
import types

import numpy as np
import pytest

from keras_bert.tf_serving.server.inference import Inference
from keras_bert.tf_serving.server.loaded_model import ServedSignature, TensorSpec
from keras_bert.tf_serving.server.status import Code, StatusError


class Canned(Inference):
    """Its model returns the given outputs for any input."""

    def __init__(self, outputs):
        self.outputs = outputs

    async def predict(self, version, signature_name, inputs, timeout_seconds=None):
        assert list(inputs) == ["inputs"]
        return self.outputs


def ask(api, **outputs):
    signature = types.SimpleNamespace(inputs={"inputs": None}, outputs=outputs)
    version = types.SimpleNamespace(model=types.SimpleNamespace(signatures={"s": signature}))
    return asyncio.run(getattr(Canned(outputs), api)(version, "s", [b"", b""]))


def test_a_class_or_a_score_may_be_missing():
    classes, scores = np.array([[b"a", b"b"]] * 2, object), np.float32([[1, 2], [3, 4]])
    assert ask("classify", classes=classes, scores=scores) == [[(b"a", 1), (b"b", 2)], [(b"a", 3), (b"b", 4)]]
    assert ask("classify", classes=classes)[0] == [(b"a", 0), (b"b", 0)]
    assert ask("classify", scores=scores)[1] == [(b"", 3), (b"", 4)]


def test_a_column_or_a_list_of_numbers_is_a_regression():
    assert ask("regress", outputs=np.float32([1, 2])) == ask("regress", outputs=np.float32([[1], [2]])) == [1, 2]


@pytest.mark.parametrize(
    ("api", "outputs", "returned"),
    [
        ("classify", {"scores": np.float32([1, 2])}, r"scores as float32 \[2\]"),
        ("classify", {"scores": np.float64([[1], [2]])}, r"scores as float64 \[2, 1\]"),
        ("classify", {"scores": np.float32([[1]])}, r"scores as float32 \[1, 1\]"),
        (
            "classify",
            {"classes": np.full((2, 3), b"", object), "scores": np.zeros((2, 2), np.float32)},
            r"classes as object \[2, 3\], scores as float32 \[2, 2\]",
        ),
        ("regress", {"outputs": np.float32([[1, 2], [3, 4]])}, r"outputs as float32 \[2, 2\]"),
        ("regress", {"outputs": np.float32([1])}, r"outputs as float32 \[1\]"),
        ("regress", {"outputs": np.int32([1, 2])}, r"outputs as int32 \[2\]"),
    ],
)
def test_outputs_of_another_form_are_refused(api, outputs, returned):
    with pytest.raises(StatusError, match=f"The model returned {returned}") as error:
        ask(api, **outputs)
    assert error.value.code == Code.INVALID_ARGUMENT


def test_more_rows_than_a_fixed_axis_has_are_counted():
    signature = types.SimpleNamespace(inputs={"x": TensorSpec("x:0", "float", (2,))})
    counts = [ServedSignature.num_rows(signature, {"x": np.zeros(shape)}) for shape in ((2,), (), (3,))]
    assert counts == [0, 0, 3]
