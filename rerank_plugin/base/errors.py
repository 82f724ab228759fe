"""The exception for errors in the user's input, and what it says of unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something the user gave (a file, an id, an option) cannot be used.

    The message is one line that says what was wrong, where (file:line or id), and what to do. Commands print it to
    stderr and exit with status 2; library callers catch it as a ``ValueError``.
    """


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The most similar known name, if one is similar."""
    return next(iter(get_close_matches(given, list(known), 1)), None)


def unknown(what: str, name: str, names: Iterable[str], *forms: str) -> str:
    """That a name is unknown, the nearest one of ``names``, and all that are known; ``forms`` may be given, too."""
    known, asked = list(names), name.partition(":")[0]
    near = nearest(asked, (one.partition(":")[0] for one in known))
    hint = f": did you mean '{near}'? Known" if near and near != asked else "; known"
    return f"unknown {what} '{name}'{hint}: {', '.join([*known, *forms])}"
