"""The exception for errors that the user can correct, and a warning that commands treat as this exception."""

import contextlib
import os
import pathlib

from keras_bert.program.printing import printable, without_secrets

# Longer messages are shortened in their middle.
_LONGEST_MESSAGE = 4_000
# Whether this is the small install, which runtime/setup.py builds, and its extras.
IS_SMALL = not pathlib.Path(__file__).parents[1].joinpath("layers", "__init__.py").is_file()
_SMALL_EXTRAS = ("onnx", "openvino", "litert", "serving", "tokenizers", "sentencepiece", "scores")


class InputError(ValueError):
    """The user's input cannot be used.

    The message says what came, what was expected and what to do. Commands print it as one line and exit with code 1.
    Whatever a file or a user has put into it, it is one printable line of bounded length, without secrets of URLs.
    """

    def __init__(self, message: str = ""):
        super().__init__(printable(without_secrets(str(message)), _LONGEST_MESSAGE))


class UntrainedWarning(InputError, UserWarning):
    """The model answers with random weights: its checkpoint does not have them, and they have not been trained.

    Commands treat this warning as an error, because their users do not see the model.
    """


@contextlib.contextmanager
def named(path: str | os.PathLike):
    """Puts the name of the file or folder in front of errors in this block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from None


def how_to_install(extra: str) -> str:
    """Returns the sentence that says how to install an extra of setup.py. This package is on no index.

    Other extras than those of the small install come with the full package, which pip puts in its place.
    """
    folder = "./runtime" if IS_SMALL and extra in _SMALL_EXTRAS else "."
    return f"Run in a clone of keras_bert: pip install '{folder}[{extra}]'"
