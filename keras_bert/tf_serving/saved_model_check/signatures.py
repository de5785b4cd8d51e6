"""Checks signatures: names, types and shapes."""

import re
from collections.abc import Iterator

from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error, note, warning

DEFAULT_SIGNATURE = "serving_default"
# Names that TensorFlow or Keras invents for inputs and outputs without a name.
_MADE_UP_INPUT = re.compile(r"(args_\d+|arg_\d+|keras_tensor|inputs_\d+|input_\d+|unknown|unnamed)(_\d+)*")
_MADE_UP_OUTPUT = re.compile(r"output_\d+")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# The types that TensorFlow Serving's REST interface can read and write (util/json_tensor.cc).
_JSON_TYPES = {"FLOAT", "DOUBLE", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}
_JSON_TYPES |= {"STRING", "BOOL"}
_INTEGERS = {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}
_FLOATS = {"FLOAT", "DOUBLE", "HALF", "BFLOAT16"}
# Names of inputs that hold integers in text models.
_ID_NAME = re.compile(r"(^|_)(ids?|tokens|lengths?)($|_)|word_ids|type_ids")
# Operations whose outputs are bytes other than text.
_BYTE_OPERATIONS = {
    *("SerializeTensor", "SerializeSparse", "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng", "EncodeWav"),
    *("EncodeProto", "DecodeBase64", "DecodeCompressed", "AsyncCompressElement", "CompressElement", "ReadFile"),
}


def check_signatures(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about the signatures and about all inputs and outputs."""
    yield from _which_signatures(model)
    for name, signature in model.signatures.items():
        yield from _signature_name(name)
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for key in sorted(tensors):
                where = f"signature {name}, {side} {key!r}"
                yield from _tensor(model, side, key, tensors[key], where)
        yield from _shapes(name, signature)


def type_name(tensor) -> str:
    """Returns the type of a TensorInfo as TensorFlow spells it, without DT_: "INT32"."""
    from tensorflow.core.framework import types_pb2

    return types_pb2.DataType.Name(tensor.dtype).removeprefix("DT_")


def shape_of(tensor) -> list[int] | None:
    """Returns the dimensions of a TensorInfo, -1 for variable ones, or None if the rank is unknown."""
    return None if tensor.tensor_shape.unknown_rank else [dim.size for dim in tensor.tensor_shape.dim]


def _which_signatures(model: SavedModelFiles) -> Iterator[Finding]:
    signatures = model.signatures
    if not signatures:
        yield error(
            "no-signature",
            "saved_model.pb",
            'There is no signature: every request fails (Serving signature key "serving_default" not found). '
            "tf.saved_model.save writes none, without a warning, for subclassed Keras models.",
            "save with signatures=...; for models of this package use export_for_serving.",
        )
    elif DEFAULT_SIGNATURE not in signatures:
        yield warning(
            "no-default-signature",
            "saved_model.pb",
            f"There is no {DEFAULT_SIGNATURE}: requests that name no signature fail. It has: {', '.join(signatures)}.",
            f"save one signature as {DEFAULT_SIGNATURE}.",
        )
    for tags in model.other_tags:
        yield note(
            "other-graphs",
            "saved_model.pb",
            f"There is another graph, with the tags {', '.join(tags) or '(none)'}. Servers ignore it.",
            "save the model again without it, unless it is needed.",
        )
    default, serve = signatures.get(DEFAULT_SIGNATURE), signatures.get("serve")
    if default is not None and serve is not None and _form(default) == _form(serve):
        yield note(
            "same-signature-twice",
            "signature serve",
            f"It has the inputs and outputs of {DEFAULT_SIGNATURE}. Keras' model.export writes such a copy.",
            "leave it, or export without it: it makes the graph larger.",
        )


def _form(signature) -> list:
    sides = (signature.inputs, signature.outputs)
    return [{key: (tensor.dtype, shape_of(tensor)) for key, tensor in side.items()} for side in sides]


def _signature_name(name: str) -> Iterator[Finding]:
    if not _PLAIN_NAME.fullmatch(name):
        yield warning(
            "signature-name",
            f"signature {name!r}",
            "The name has characters with a special meaning in addresses, shells or configuration files.",
            "use letters, digits and _ only.",
        )


def _tensor(model: SavedModelFiles, side: str, key: str, tensor, where: str) -> Iterator[Finding]:
    if tensor.WhichOneof("encoding") != "name" or not tensor.name:
        yield error(
            f"composite-{side}",
            where,
            "It is a ragged or sparse tensor. Every request fails: Tensor :0, specified in either "
            "feed_devices or fetch_devices was not found in the Graph.",
            "convert it to a dense tensor with to_tensor(), and return the lengths as another output.",
        )
        return
    if tensor.name.partition(":")[0] not in model.nodes:
        yield error(
            "dangling-name",
            where,
            f"It names the tensor {tensor.name}, which the graph does not have. Every request fails.",
            "save the model again.",
        )
        return
    made_up = _MADE_UP_INPUT if side == "input" else _MADE_UP_OUTPUT
    if made_up.fullmatch(key):
        remedy = 'give every tf.TensorSpec and keras.Input a name="..."' if side == "input" else "return a dictionary"
        yield warning(
            f"unnamed-{side}",
            where,
            "It has no name of its own: the generated name tells clients nothing and may change with the next export.",
            f"{remedy}.",
        )
    yield from _type(side, key, tensor, where)
    if side == "output" and type_name(tensor) == "STRING":
        yield from _bytes_or_text(model, key, tensor, where)


def _type(side: str, key: str, tensor, where: str) -> Iterator[Finding]:
    name = type_name(tensor)
    if name not in _JSON_TYPES:
        cast = "cast to float32 at the edge of the graph" if name in _FLOATS else "use a type that JSON has"
        answer = "400 Failed to write JSON value" if side == "output" else "501 Unimplemented"
        yield error(
            f"{side}-type",
            where,
            f"Its type is {name.lower()}, which the REST interface does not support: requests fail with {answer}.",
            f"{cast}; a last layer with dtype='float32' does it too.",
        )
    if side == "input" and name in _FLOATS and _ID_NAME.search(key):
        yield warning(
            "float-ids",
            where,
            f"It is {name.lower()}, but its name suggests integers. Clients that send integers over gRPC are refused. "
            "Keras' model.export guesses float for integer inputs.",
            "export with an input_signature with int32.",
        )


def _bytes_or_text(model: SavedModelFiles, key: str, tensor, where: str) -> Iterator[Finding]:
    is_bytes = model.made_by(tensor.name) in _BYTE_OPERATIONS
    if key.endswith("_bytes") and not is_bytes:
        yield warning(
            "text-named-bytes",
            where,
            'The name ends in _bytes, so the REST interface writes {"b64": "..."} instead of text.',
            "choose another name if it is text.",
        )
    if is_bytes and not key.endswith("_bytes"):
        yield warning(
            "bytes-named-text",
            where,
            "It is bytes, but its name does not end in _bytes, so the REST interface writes it as text: the JSON "
            "is broken.",
            "choose a name that ends in _bytes.",
        )


def _shapes(name: str, signature) -> Iterator[Finding]:
    inputs = {key: shape_of(tensor) for key, tensor in signature.inputs.items()}
    free_batch = not inputs or any(shape is None or shape[:1] == [-1] for shape in inputs.values())
    for key, shape in sorted(inputs.items()):
        yield from _input_shape(key, shape, signature.inputs[key], f"signature {name}, input {key!r}")
    for key, tensor in sorted(signature.outputs.items()):
        if tensor.WhichOneof("encoding") == "name" and tensor.name:
            yield from _output_shape(shape_of(tensor), free_batch, f"signature {name}, output {key!r}")


def _input_shape(key: str, shape: list[int] | None, tensor, where: str) -> Iterator[Finding]:
    if shape is None:
        happens = "Its rank is unknown: servers check nothing, and batching fails for some requests."
        yield note("unknown-shape", where, happens, "give its tf.TensorSpec a shape.")
    elif not shape:
        happens = 'It is a scalar without a batch axis. Requests with "instances", and batching in the server, fail.'
        yield warning("input-without-batch", where, happens, "give it the shape [None].")
    elif shape[0] != -1:
        happens = f"Its batch has exactly {shape[0]} rows. All other requests fail."
        yield warning("frozen-batch", where, happens, "export with None as the first dimension.")
    elif len(shape) > 1 and shape[1] > 1 and (type_name(tensor) in _INTEGERS or _ID_NAME.search(key)):
        yield warning(
            "frozen-length",
            where,
            f"Its rows have exactly {shape[1]} tokens: shorter and longer requests fail. Keras' model.export uses "
            "the length of the first call if none is given.",
            "export with None as the second dimension, unless clients are meant to pad.",
        )


def _output_shape(shape: list[int] | None, free_batch: bool, where: str) -> Iterator[Finding]:
    if shape is None:
        happens = "Its rank is unknown, so clients cannot know its shape, and the first axis may not be the batch."
        yield warning("unknown-shape", where, happens, "use tf.ensure_shape on it.")
    elif not shape:
        yield error(
            "output-without-batch",
            where,
            'It is one value for all rows. Requests with "instances" fail (Tensor name has no shape information), and '
            "so does batching in the server.",
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
