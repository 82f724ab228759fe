"""The exception for errors in the user's input."""


class InputError(ValueError):
    """Something the user gave (a file, an id, an option) cannot be used.

    The message is one line that says what was wrong, where (file:line or id), and what to do. Commands print it to
    stderr and exit with status 2; library callers catch it as a ``ValueError``.
    """
