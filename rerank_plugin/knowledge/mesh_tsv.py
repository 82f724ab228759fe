"""MeSH as tab-separated files: a folder with descriptors.tsv and, where there is one, parents.tsv (each also .gz).

descriptors.tsv has a header and the columns descriptor_ui, name, synonyms and tree_numbers, several values in one field
joined by ``|``; other columns are left alone. parents.tsv has the columns child_ui and parent_ui. Without it the
parents follow from the tree numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.text_files import lines, plain_or_gz
from rerank_plugin.knowledge import mesh
from rerank_plugin.knowledge.entries import Source
from rerank_plugin.knowledge.mesh import Descriptor

DESCRIPTORS, PARENTS = "descriptors.tsv", "parents.tsv"


def source(folder: Path) -> Source:
    path, parents = plain_or_gz(folder / DESCRIPTORS), plain_or_gz(folder / PARENTS)
    if path is None:
        raise InputError(f"{folder} holds no {DESCRIPTORS}")
    return mesh.source("mesh-tsv", _descriptors(path, _parents(parents) if parents else None))


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Where each line is, and its fields in these columns."""
    wanted: list[int] = []
    width = 0
    for number, line in lines(path):
        fields = line.split("\t")
        if not wanted:
            missing = [column for column in columns if column not in fields]
            if missing:
                raise InputError(f"{path}:{number}: the header lacks {' and '.join(missing)}")
            wanted, width = [fields.index(column) for column in columns], len(fields)
            continue
        if len(fields) != width:
            raise InputError(
                f"{path}:{number}: {len(fields)} fields, the header has {width}; columns are split by tabs"
            )
        yield f"{path}:{number}", [fields[i].strip() for i in wanted]


def _parents(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for where, (child, parent) in _rows(path, ("child_ui", "parent_ui")):
        if not child or not parent:
            raise InputError(f"{where}: a child and a parent are expected, one is empty")
        found.setdefault(child, []).append(parent)
    return found


def _descriptors(path: Path, parents: dict[str, list[str]] | None) -> Iterator[Descriptor]:
    for where, (id, name, synonyms, numbers) in _rows(path, ("descriptor_ui", "name", "synonyms", "tree_numbers")):
        if not id or not name:
            raise InputError(f"{where}: a descriptor needs an id and a name")
        above = None if parents is None else parents.get(id, [])
        yield Descriptor(where, id, name, synonyms.split("|"), [n for n in numbers.split("|") if n], parents=above)
