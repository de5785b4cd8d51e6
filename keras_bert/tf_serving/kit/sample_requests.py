"""Makes up requests from the signatures of a model, for its warm-up."""

import random
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.grpc_format import serialized_examples
from keras_bert.tf_serving.saved_model_check.signatures import shape_of, type_name
from keras_bert.tf_serving.wire.strings import string_array, string_to_bytes

# Common words of English vocabularies; other vocabularies split them into pieces.
_WORDS = ("the", "of", "and", "to", "in", "a", "is", "that", "it", "was", "for", "on", "with", "he", "be", "by", "at")
_EXAMPLE_INPUTS = ("examples", "inputs")


def made_up_row(signature, num_words: int, draw: random.Random) -> dict:
    """Returns a row for a signature: input -> a text of `num_words` words, or a list of two.

    Raises:
        InputError: an input is not a text.
    """
    row = {}
    for name, tensor in sorted(signature.inputs.items()):
        num_axes = len(shape_of(tensor) or ())
        if type_name(tensor) != "STRING" or num_axes not in (1, 2):
            raise InputError(
                f"The input {name} is not a text, so no request can be made up for it. Give examples of your own."
            )
        texts = [" ".join(draw.choice(_WORDS) for _ in range(num_words)) for _ in range(num_axes)]
        row[name] = texts[0] if num_axes == 1 else texts
    return row


def is_made_up(row: Mapping[str, str]) -> bool:
    """Returns whether every word of a row of texts is one of `made_up_row`."""
    return set(" ".join(row.values()).split()) <= set(_WORDS)


def as_arrays(rows: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Joins rows into the inputs of one request, arrays of bytes `[B]` or `[B, N]`; short lists are padded with "".

    Raises:
        InputError: the rows have different inputs, or a value is not a text.
    """
    if not rows or any(set(row) != set(rows[0]) for row in rows):
        raise InputError("Every request must have the same inputs.")
    arrays = {}
    for name in sorted(rows[0]):
        values = [row[name] for row in rows]
        if all(isinstance(value, list) for value in values):
            width = max(map(len, values))
            values = [value + [""] * (width - len(value)) for value in values]
            texts = [text for value in values for text in value]
            shape = (len(values), width)
        else:
            texts, shape = values, (len(values),)
        if not all(isinstance(text, (str, bytes)) for text in texts):
            raise InputError(f"The input {name} of a request must be a text or a list of texts.")
        arrays[name] = string_array(list(map(string_to_bytes, texts))).reshape(shape)
    return arrays


def made_up_inputs(model, name: str, rows: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Returns inputs for any signature: `rows` if it has the same inputs, else values of its types and shapes.

    Args:
        model: a `SavedModelFiles`.
        name: the signature.
        rows: rows for `serving_default`.
    """
    signature = model.signatures[name]
    if set(signature.inputs) == set(rows[0]):
        return as_arrays(rows)
    inputs = {}
    for key, tensor in sorted(signature.inputs.items()):
        # All variable axes after the batch get the same length, which inputs with lengths and counts then name.
        shape = [len(rows), *(4 if size == -1 else size for size in (shape_of(tensor) or [-1])[1:])]
        if type_name(tensor) != "STRING":
            is_count = "length" in key or key.startswith("num")
            inputs[key] = np.full(shape, 4 if is_count else 0, _numpy_type(tensor))
        elif key in _EXAMPLE_INPUTS and len(shape) == 1:
            inputs[key] = string_array(serialized_examples(as_arrays(rows)))
        else:
            inputs[key] = np.full(shape, b"the", object)
    return inputs


def _numpy_type(tensor):
    import tensorflow as tf

    return tf.as_dtype(tensor.dtype).as_numpy_dtype
