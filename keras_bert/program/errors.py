"""The one exception for what a user can put right, and the one warning that commands take for such an exception."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message says what came, what was expected and what to do. Commands print it as one line and exit with code 1;
    library users can catch it apart from programming errors.
    """


class UntrainedWarning(InputError, UserWarning):
    """A model answers from weights that are random, because its checkpoint does not have them and nothing trained them.

    In Python it is a warning. In commands, which answer people who do not see the model, it is the error.
    """
