"""The exception for errors in the user's input, and what it says of unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something the user gave (a file, an id, an option) cannot be used.

    The message is one line that says what was wrong, where (file:line or id), and what to do. Commands print it to
    stderr and exit with status 2; library callers catch it as a ``ValueError``.
    """


def unknown(what: str, name: str, names: Iterable[str], *forms: str) -> str:
    """That a name is unknown, the nearest one of ``names``, and all that are known; ``forms`` may be given, too."""
    known, asked = list(names), name.partition(":")[0]
    near = get_close_matches(asked, [one.partition(":")[0] for one in known], 1)
    hint = f": did you mean '{near[0]}'? Known" if near and near[0] != asked else "; known"
    return f"unknown {what} '{name}'{hint}: {', '.join([*known, *forms])}"
