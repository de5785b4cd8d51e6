"""Checks how `pad_variable_length_inputs`, an option of a server's batching, affects a model.

Servers that join requests of different lengths pad the shorter ones with the first value of their tensor
(tensorflow_serving/batching/batching_util.cc): [CLS] for ids, 1 for a mask. Models that take lengths ignore the
padding. Without lengths, answers depend on the other requests of the batch.
"""

import re
from collections.abc import Iterator

from keras_bert.tf_serving.saved_model_check.reading import SavedModelGraph, shape_of, type_name
from keras_bert.tf_serving.saved_model_check.report import Finding, warning

_LENGTHS = re.compile(r"(^|_)(lengths?|num|number|counts?|sizes?)(_|$)")
_MASK = re.compile(r"(^|_)mask(s|ing)?(_|$)")


def unsafe_inputs(signature) -> dict[str, list[int]]:
    """Returns the inputs that the server's padding falsifies, with the axes that it would lengthen.

    An axis is safe if an integer input without other variable axes has the lengths along it. With `input_ids [B, S]`
    and `lengths [B]` no input is unsafe; `choices [B, C]` alone is unsafe.
    """
    shapes = {key: shape_of(tensor) for key, tensor in signature.inputs.items()}
    variable = {
        key: [axis for axis in range(1, len(shape or ())) if shape[axis] == -1] for key, shape in shapes.items()
    }
    counts = any(
        shape is not None and len(shape) == 1 and _LENGTHS.search(key) and "INT" in type_name(signature.inputs[key])
        for key, shape in shapes.items()
    )
    # Lengths [B] give the length of axis 1; for [B, C, S], nothing gives the length of axis 1.
    most = max(map(len, variable.values()), default=0)
    is_safe = counts and most == 1 and not any(_MASK.search(key) for key in variable if variable[key])
    return {} if is_safe else {key: axes for key, axes in sorted(variable.items()) if axes}


def check_padding(graph: SavedModelGraph) -> Iterator[Finding]:
    """Yields findings about signatures whose answers are wrong in batches that a server has padded."""
    for name, signature in graph.signatures.items():
        unsafe = unsafe_inputs(signature)
        masks = [key for key in unsafe if _MASK.search(key)]
        integers = [key for key in unsafe if "INT" in type_name(signature.inputs[key])]
        where = f"signature {name}, input {', '.join(map(repr, unsafe))}"
        if masks:
            yield warning(
                "padded-mask",
                where,
                "With pad_variable_length_inputs, servers pad short requests with the first value of the tensor, "
                f"which turns the padding of {', '.join(masks)} into ones: answers are wrong, without an error.",
                "take lengths [B] instead of the mask, or text; otherwise never switch that option on.",
            )
        elif integers and not any(_LENGTHS.search(key) for key in signature.inputs):
            yield warning(
                "padded-ids",
                where,
                "With pad_variable_length_inputs, servers pad short requests with the first value of the tensor, and "
                "no other input has the lengths of the rows: answers are wrong, without an error.",
                "add an input lengths [B], or take text; otherwise never switch that option on.",
            )
