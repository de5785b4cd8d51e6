"""What a server says about a model: its versions, and what they take and give."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelVersion:
    """The state of one version: START, LOADING, AVAILABLE, UNLOADING or END; END with an error could not be loaded."""

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or an output: TensorFlow's name of its type in small letters ("string", "float", "int32"), its shape.

    None in the shape is an axis of any length; None as the shape is any number of axes.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Signature:
    """What one signature takes and gives, by name."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    method_name: str = ""


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """The version that answers now, and its signatures by name."""

    name: str
    version: int
    signatures: dict[str, Signature]
