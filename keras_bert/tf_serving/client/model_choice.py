"""Checks which model a client asks, and whether it is available."""

from collections.abc import Iterable

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.errors import NotFound, ServingError, Unavailable
from keras_bert.tf_serving.client.model_info import ModelMetadata, ModelVersion


def check_choice(
    model: str, version: int | None, label: str | None, timeout: float, retries: int, max_in_flight: int
) -> None:
    """Raises `InputError` if one of these arguments of a client is not valid."""
    if not isinstance(model, str) or not model or any("\ud800" <= sign <= "\udfff" for sign in model):
        raise InputError(f"The model is {model!r}; give its name on the server.")
    if version is not None and label is not None:
        raise InputError(f"version={version} and label={label!r} are given; a version has a number or a label.")
    if version is not None and (not isinstance(version, int) or not 0 <= version < 2**63):
        raise InputError(f"version={version!r}; a version is a whole number that is not negative.")
    if not timeout > 0 or retries < 0 or max_in_flight < 1:
        raise InputError(
            f"timeout={timeout}, retries={retries}, max_in_flight={max_in_flight}; "
            "the time and the requests at once must be positive, the retries not negative."
        )


def newest_available(versions: Iterable[ModelVersion]) -> int | None:
    """Returns the highest available version, or None."""
    return max((version.version for version in versions if version.state == "AVAILABLE"), default=None)


def not_available(error: ServingError) -> str:
    """Returns the message of an error that may pass by waiting: no server yet, or no such model yet.

    Raises:
        ServingError: `error`, if waiting cannot help.
    """
    if isinstance(error, (NotFound, Unavailable)) or error.code == "DEADLINE_EXCEEDED":
        return error.server_text
    raise error


def only_output(metadata: ModelMetadata, signature_name: str) -> str:
    """Returns the name of the only output of a signature."""
    signature = metadata.signatures.get(signature_name)
    if signature is None or len(signature.outputs) != 1:
        raise ServingError(
            metadata.name,
            "UNKNOWN",
            f"the answer to {signature_name!r} has one output without a name, and the metadata has no such signature",
        )
    return next(iter(signature.outputs))
