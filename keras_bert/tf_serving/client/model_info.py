"""A server's description of a model: its versions and their signatures."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelVersion:
    """The state of one version: START, LOADING, AVAILABLE, UNLOADING or END; END with an error if it did not load."""

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output: its type by TensorFlow's name in lower case ("string", "float", "int32"), and its shape.

    None in the shape means any length; None as the shape means any number of axes.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Signature:
    """The inputs and outputs of one signature, by name."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    method_name: str = ""


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """The version that answers, and its signatures by name."""

    name: str
    version: int
    signatures: dict[str, Signature]
