"""The one exception for what a user can put right."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message says what came, what was expected and what to do. Commands print it as one line and exit with code 1;
    library users can catch it apart from programming errors.
    """
