"""One loaded version of a model. It runs the tensors of a signature in a session, as TensorFlow Serving does."""

import dataclasses
import gc
import logging
import os
from collections.abc import Mapping

import numpy as np

from keras_bert.tf_serving.server.status import Code, StatusError, invalid_argument

DEFAULT_SIGNATURE = "serving_default"
Arrays = dict[str, np.ndarray]
_TAGS = ["serve"]


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """An input or an output of a signature.

    Attributes:
        tensor: its name in the graph.
        dtype: TensorFlow's name of the dtype, such as "float" or "string".
        shape: None for each variable axis; None as a whole for an unknown rank.
    """

    tensor: str
    dtype: str
    shape: tuple[int | None, ...] | None

    @property
    def has_batch_axis(self) -> bool:
        return bool(self.shape) and self.shape[0] is None


class ServedSignature:
    """A signature of a model: its inputs, outputs, and default values of inputs.

    Attributes:
        definition: the message `SignatureDef` that describes it.
    """

    def __init__(
        self,
        name: str,
        definition,
        inputs: Mapping[str, TensorSpec],
        outputs: Mapping[str, TensorSpec],
        defaults: Mapping[str, np.ndarray],
    ):
        self.name, self.definition = name, definition
        self.inputs, self.outputs, self.defaults = inputs, outputs, defaults

    @property
    def can_be_joined(self) -> bool:
        """Whether every input and output has a variable first axis, so that requests can be joined."""
        return bool(self.inputs) and all(
            spec.has_batch_axis for spec in [*self.inputs.values(), *self.outputs.values()]
        )

    def num_rows(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Returns the largest number of rows of an input. Inputs with the signature's fixed number are not counted."""
        fixed = {name: spec.shape[:1] for name, spec in self.inputs.items() if spec.shape}
        return max(
            (len(array) for name, array in inputs.items() if array.shape[:1] not in ((), fixed.get(name))), default=0
        )

    def checked(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Returns the inputs, with default values for missing ones.

        Raises:
            StatusError: INVALID_ARGUMENT: an input is missing or unknown to the signature.
        """
        extra = sorted(set(inputs) - set(self.inputs))
        missing = sorted(set(self.inputs) - set(inputs) - set(self.defaults))
        if extra or missing:
            raise invalid_argument(
                "input size does not match signature: ", len(inputs), "!=", len(self.inputs),
                " len({", ",".join(sorted(inputs)), "}) != len({", ",".join(self.inputs),
                "}). Sent extra: {", ",".join(extra), "}. Missing but required: {", ",".join(missing), "}.",
            )  # fmt: skip
        return {**self.defaults, **inputs}


class ServedModel:
    """A SavedModel in its own session.

    Args:
        folder: the SavedModel.

    Attributes:
        signatures: name -> `ServedSignature`.

    Raises:
        StatusError: it cannot be loaded; the code is TensorFlow's, or NOT_FOUND, DATA_LOSS or INTERNAL.
    """

    def __init__(self, folder: str):
        import tensorflow as tf
        from google.protobuf.message import DecodeError

        self.folder = folder
        self._session = None
        try:
            if not any(os.path.isfile(os.path.join(folder, f"saved_model.{kind}")) for kind in ("pb", "pbtxt")):
                raise StatusError(
                    Code.NOT_FOUND,
                    f"Could not find SavedModel .pb or .pbtxt at supplied export directory path: {folder}",
                )
            self._session = tf.compat.v1.Session(graph=tf.Graph())
            with _without_deprecation_notices():
                definition = tf.compat.v1.saved_model.load(self._session, _TAGS, folder)
            self.signatures = {
                name: _signature(name, signature)
                for name, signature in sorted(definition.signature_def.items())
                if not name.startswith("__saved_model")
            }
            tensor = self._session.graph.get_tensor_by_name
            self._tensors = {
                name: tuple(
                    {key: tensor(spec.tensor)._as_tf_output() for key, spec in specs.items()}
                    for specs in (signature.inputs, signature.outputs)
                )
                for name, signature in self.signatures.items()
            }
        except StatusError:
            raise
        except tf.errors.OpError as error:
            self.close()
            raise _status_error(error) from None
        except DecodeError:
            self.close()
            raise StatusError(Code.DATA_LOSS, f"Can't parse {folder}/saved_model.pb as binary proto") from None
        except Exception as error:
            # A damaged graph can fail at any point of TensorFlow's loader.
            self.close()
            code = Code.NOT_FOUND if isinstance(error, OSError) else Code.INTERNAL
            raise StatusError(code, f"Cannot load the SavedModel {folder}: {_first_line(error)}") from None

    def run(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Returns output -> array. Strings are object arrays of bytes. Several threads may call it at once.

        Args:
            inputs: the result of `ServedSignature.checked`.

        Raises:
            StatusError: with TensorFlow's code.
        """
        import tensorflow as tf

        feeds, fetches = self._tensors[signature_name]
        fed = {feeds[name]: array for name, array in inputs.items()}
        try:
            # `Session.run` would refuse shapes that differ from a placeholder's. TensorFlow Serving does not.
            values = self._session._call_tf_sessionrun(None, fed, list(fetches.values()), [], None)
        except tf.errors.OpError as error:
            raise _status_error(error) from None
        # A scalar string is returned as bytes.
        outputs = zip(fetches, values, strict=True)
        return {name: value if isinstance(value, np.ndarray) else _array(value) for name, value in outputs}

    def close(self) -> None:
        """Frees the memory. No `run` may be in progress."""
        if self._session is not None:
            self._session.close()
            self._session = None
            self._tensors = {}
            gc.collect()  # graphs have reference cycles


def _status_error(error) -> StatusError:
    return StatusError(Code(error.error_code), error.message)


def _array(value) -> np.ndarray:
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def _signature(name: str, definition) -> ServedSignature:
    """Returns a signature of a file."""
    import tensorflow as tf

    inputs, outputs = (
        {key: _spec(infos[key]) for key in sorted(infos)} for infos in (definition.inputs, definition.outputs)
    )
    defaults = {key: tf.make_ndarray(value) for key, value in definition.defaults.items()}
    return ServedSignature(name, definition, inputs, outputs, defaults)


def _spec(info) -> TensorSpec:
    import tensorflow as tf

    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = tuple(axis.size if axis.size >= 0 else None for axis in info.tensor_shape.dim)
    return TensorSpec(info.name, _short_name(tf.dtypes.as_dtype(info.dtype).name), shape)


def _short_name(name: str) -> str:
    """Returns the name of a NumPy dtype in TensorFlow's error messages."""
    return {"float32": "float", "float64": "double", "float16": "half"}.get(name, name)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


class _without_deprecation_notices:
    """Hides the deprecation warning of TensorFlow's session loader, which TensorFlow Serving uses too (in C++)."""

    def __enter__(self):
        self._level = logging.getLogger("tensorflow").level
        logging.getLogger("tensorflow").setLevel(logging.ERROR)

    def __exit__(self, *_):
        logging.getLogger("tensorflow").setLevel(self._level)
