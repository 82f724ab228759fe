"""Tab-separated files whose header names the columns, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.text_files import lines


def rows(path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Where each line below the header stands (``file:line``), and its values without surrounding white space.

    The values are those of ``columns``, and then of the ``optional`` columns that the header has.

    Raises:
        InputError: the header lacks a column or names one twice, or a line has more or fewer columns than the header.
    """
    numbered = lines(path)
    number, header = next(numbered, (1, ""))
    names = [name.strip() for name in header.split("\t")]
    missing = [name for name in columns if name not in names]
    if missing:
        more = f" and, if there is one, {', '.join(optional)}" if optional else ""
        raise InputError(
            f"{path}:{number}: the header lacks {', '.join(missing)}: expected the tab-separated columns "
            f"{', '.join(columns)}{more}"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{path}:{number}: the header names a column twice")
    places = [names.index(name) for name in (*columns, *optional) if name in names]
    for number, line in numbered:
        values = line.split("\t")
        if len(values) != len(names):
            raise InputError(f"{path}:{number}: expected {len(names)} columns, as in the header, found {len(values)}")
        yield f"{path}:{number}", [values[place].strip() for place in places]
