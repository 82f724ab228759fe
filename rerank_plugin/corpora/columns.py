"""Tab-separated files whose header names the columns, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.text_files import lines


def rows(path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """The place (``file:line``) and the stripped values of each line below the header.

    The values are in the order of ``columns``, followed by the ``optional`` columns that the header has.

    Raises:
        InputError: the header lacks a column or names one twice, or a line has more or fewer columns than the header.
    """
    numbered = lines(path)
    number, header = next(numbered, (1, ""))
    names = [name.strip() for name in header.split("\t")]
    missing = [name for name in columns if name not in names]
    if missing:
        options = f" and optionally {', '.join(optional)}" if optional else ""
        raise InputError(
            f"{path}:{number}: the header lacks {', '.join(missing)}: expected the tab-separated columns "
            f"{', '.join(columns)}{options}"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{path}:{number}: the header names a column twice: remove or rename one of them")
    positions = [names.index(name) for name in (*columns, *optional) if name in names]
    for number, line in numbered:
        values = line.split("\t")
        if len(values) != len(names):
            raise InputError(f"{path}:{number}: expected {len(names)} columns, as in the header, found {len(values)}")
        yield f"{path}:{number}", [values[position].strip() for position in positions]
