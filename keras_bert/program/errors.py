"""The exception for errors that the user can correct, and a warning that commands treat as this exception."""


class InputError(ValueError):
    """The user's input cannot be used.

    The message says what came, what was expected and what to do. Commands print it as one line and exit with code 1.
    """


class UntrainedWarning(InputError, UserWarning):
    """The model answers with random weights: its checkpoint does not have them, and they have not been trained.

    Commands treat this warning as an error, because their users do not see the model.
    """


def how_to_install(extra: str) -> str:
    """Returns the sentence that says how to install an extra of setup.py. This package is on no index."""
    return f"Run in a clone of keras_bert: pip install '.[{extra}]'"
