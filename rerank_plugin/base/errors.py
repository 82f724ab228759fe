"""The exception for invalid user input, and the message for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Invalid user input: a file, an id or an option.

    The message is one line with the problem, the place (file:line or id) and the remedy. Commands print it to stderr
    and exit with status 2; library callers catch it as a ``ValueError``.
    """


class UnavailableError(InputError):
    """A part of what is searched does not answer at present; trying again may help.

    Attributes:
        shards: the numbers of the shards that do not answer.
    """

    def __init__(self, message: str, shards: Iterable[int] = ()):
        super().__init__(message)
        self.shards = frozenset(shards)


class SystemFailure(InputError, OSError):
    """An error of the system, such as too many open files or no permission: the file itself may be sound.

    Attributes:
        errno: the number of the error.
    """

    def __init__(self, message: str, number: int | None = None):
        super().__init__(message)
        self.errno = number


def one_line(error: BaseException) -> str:
    """The message of an error, on one line."""
    return " ".join(str(error).split())


def named(error: BaseException) -> str:
    """The kind and the message of an error, on one line; its ``repr`` may hold the whole content of a file."""
    return f"{type(error).__name__}: {one_line(error)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``; None if none is close."""
    return next(iter(get_close_matches(name, list(known), 1)), None)


def unknown(kind: str, name: str, names: Iterable[str], *forms: str) -> str:
    """The message for an unknown name: the closest of ``names``, and all valid names, ``forms`` (patterns) included."""
    known, prefix = list(names), name.partition(":")[0]
    near = nearest(prefix, (known_name.partition(":")[0] for known_name in known))
    hint = f": did you mean '{near}'? Known" if near and near != prefix else "; known"
    return f"unknown {kind} '{name}'{hint}: {', '.join([*known, *forms])}"
