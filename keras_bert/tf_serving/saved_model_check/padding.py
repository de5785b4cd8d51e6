"""What `pad_variable_length_inputs` of a server's batching does to a model.

Servers that join requests of different lengths fill the shorter ones with the first number of their tensor
(tensorflow_serving/batching/batching_util.cc): [CLS] for ids, 1 for a mask. A model that is told lengths does not
see what was filled in; others give answers that depend on who shares the batch.
"""

import re
from collections.abc import Iterator

from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import NOTE, WARNING, Finding
from keras_bert.tf_serving.saved_model_check.signatures import shape_of, type_name

_LENGTHS = re.compile(r"(^|_)(lengths?|num|number|counts?|sizes?)(_|$)")
_MASK = re.compile(r"(^|_)mask(s|ing)?(_|$)")


def unsafe_inputs(signature) -> dict[str, list[int]]:
    """Returns the inputs of a signature that padding by a server falsifies, with the axes that it would lengthen.

    An axis is safe when an integer input without variable axes of its own counts along it: of `input_ids [B, S]` and
    `lengths [B]` none is unsafe; `choices [B, C]` alone is.
    """
    shapes = {key: shape_of(tensor) for key, tensor in signature.inputs.items()}
    variable = {
        key: [axis for axis in range(1, len(shape or ())) if shape[axis] == -1] for key, shape in shapes.items()
    }
    counts = any(
        shape is not None and len(shape) == 1 and _LENGTHS.search(key) and "INT" in type_name(signature.inputs[key])
        for key, shape in shapes.items()
    )
    # Lengths [B] say where axis 1 ends; for [B, C, S] there is nothing that says where axis 1 ends.
    most = max(map(len, variable.values()), default=0)
    is_safe = counts and most == 1 and not any(_MASK.search(key) for key in variable if variable[key])
    return {} if is_safe else {key: axes for key, axes in sorted(variable.items()) if axes}


def check_padding(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields the signatures whose answers are wrong in batches that a server has padded."""
    for name, signature in model.signatures.items():
        unsafe = unsafe_inputs(signature)
        masks = [key for key in unsafe if _MASK.search(key)]
        integers = [key for key in unsafe if "INT" in type_name(signature.inputs[key])]
        where = f"signature {name}, input {', '.join(map(repr, unsafe))}"
        if masks:
            yield Finding(
                WARNING,
                "padded-mask",
                where,
                "With pad_variable_length_inputs, servers fill short requests with the first number of the tensor, "
                f"which makes ones of the padding of {', '.join(masks)}: answers are wrong, without an error.",
                "take lengths [B] instead of the mask, or text; else never switch that option on.",
            )
        elif integers and not any(_LENGTHS.search(key) for key in signature.inputs):
            yield Finding(
                WARNING,
                "padded-ids",
                where,
                "With pad_variable_length_inputs, servers fill short requests with the first number of the tensor, and "
                "no other input says where a row ends: answers are wrong, without an error.",
                "add an input lengths [B], or take text; else never switch that option on.",
            )
        elif unsafe:
            yield Finding(
                NOTE,
                "padded-rows",
                where,
                "With pad_variable_length_inputs, servers fill short requests with the first value of the tensor, and "
                "no input says where each of its axes ends.",
                "do not switch that option on for this model.",
            )
