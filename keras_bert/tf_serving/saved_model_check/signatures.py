"""Checks signatures: names, types and shapes."""

from collections.abc import Iterator

from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error

DEFAULT_SIGNATURE = "serving_default"
# The types that TensorFlow Serving's REST interface can read and write (util/json_tensor.cc).
_JSON_TYPES = {"FLOAT", "DOUBLE", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}
_JSON_TYPES |= {"STRING", "BOOL"}
_FLOATS = {"FLOAT", "DOUBLE", "HALF", "BFLOAT16"}


def check_signatures(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about the signatures and about all inputs and outputs."""
    if not model.signatures:
        yield error(
            "no-signature",
            "saved_model.pb",
            'There is no signature: every request fails (Serving signature key "serving_default" not found). '
            "tf.saved_model.save writes none, without a warning, for subclassed Keras models.",
            "save with signatures=...; for models of this package use export_for_serving.",
        )
    for name, signature in model.signatures.items():
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for key in sorted(tensors):
                yield from _tensor(model, side, tensors[key], f"signature {name}, {side} {key!r}")
        yield from _output_shapes(name, signature)


def type_name(tensor) -> str:
    """Returns the type of a TensorInfo as TensorFlow spells it, without DT_: "INT32"."""
    from tensorflow.core.framework import types_pb2

    return types_pb2.DataType.Name(tensor.dtype).removeprefix("DT_")


def shape_of(tensor) -> list[int] | None:
    """Returns the dimensions of a TensorInfo, -1 for variable ones, or None if the rank is unknown."""
    return None if tensor.tensor_shape.unknown_rank else [dim.size for dim in tensor.tensor_shape.dim]


def _tensor(model: SavedModelFiles, side: str, tensor, where: str) -> Iterator[Finding]:
    if tensor.WhichOneof("encoding") != "name" or not tensor.name:
        yield error(
            f"composite-{side}",
            where,
            "It is a ragged or sparse tensor. Every request fails: Tensor :0, specified in either "
            "feed_devices or fetch_devices was not found in the Graph.",
            "convert it to a dense tensor with to_tensor(), and return the lengths as another output.",
        )
    elif tensor.name.partition(":")[0] not in model.nodes:
        yield error(
            "dangling-name",
            where,
            f"It names the tensor {tensor.name}, which the graph does not have. Every request fails.",
            "save the model again.",
        )
    elif (name := type_name(tensor)) not in _JSON_TYPES:
        cast = "cast to float32 at the edge of the graph" if name in _FLOATS else "use a type that JSON has"
        answer = "400 Failed to write JSON value" if side == "output" else "501 Unimplemented"
        yield error(
            f"{side}-type",
            where,
            f"Its type is {name.lower()}, which the REST interface does not support: requests fail with {answer}.",
            f"{cast}; a last layer with dtype='float32' does it too.",
        )


def _output_shapes(name: str, signature) -> Iterator[Finding]:
    inputs = [shape_of(tensor) for tensor in signature.inputs.values()]
    free_batch = not inputs or any(shape is None or shape[:1] == [-1] for shape in inputs)
    for key, tensor in sorted(signature.outputs.items()):
        shape, where = shape_of(tensor), f"signature {name}, output {key!r}"
        if tensor.WhichOneof("encoding") != "name" or not tensor.name or shape is None:
            continue
        if not shape:
            yield error(
                "output-without-batch",
                where,
                'It is one value for all rows. Requests with "instances" fail (Tensor name has no shape information), '
                "and so does batching in the server.",
                "return one value per row.",
            )
        elif shape[0] != -1 and free_batch:
            yield error(
                "other-batch",
                where,
                f"It always has {shape[0]} rows, whatever the size of the batch. Requests with "
                '"instances" fail (has inconsistent batch size), and so does batching in the server.',
                "repeat it for each row of the batch, for example with tf.tile.",
            )
