"""MeSH descriptors in the ASCII format of the U.S. National Library of Medicine (d2024.bin, also .gz).

A record begins with ``*NEWRECORD`` and has one ``KEY = value`` a line. Read are MH (the heading), UI, MN (tree
numbers), ENTRY and PRINT ENTRY (other names; after the first ``|`` come semantic types, dates and letters that say
which field is which), FX (see related) and PA (pharmacological action). FX and PA give headings, not ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.text_files import lines
from rerank_plugin.knowledge import mesh
from rerank_plugin.knowledge.entries import Source
from rerank_plugin.knowledge.mesh import Descriptor

BEGIN = "*NEWRECORD"
READ = ("RECTYPE", "MH", "UI", "MN", "ENTRY", "PRINT ENTRY", "FX", "PA")


def source(path: Path) -> Source:
    return mesh.source("mesh-ascii", descriptors(path), by_name=True)


def descriptors(path: Path) -> Iterator[Descriptor]:
    """The descriptors of a file; records of another type (qualifiers, supplementary concepts) are left out.

    Raises:
        InputError: (while reading) a line is no ``KEY = value``, a record lacks its heading or id, or none is a
            descriptor.
    """
    found = False
    for where, record in _records(path):
        if record["RECTYPE"] not in ([], ["D"]):
            continue
        for key in ("MH", "UI"):
            if len(record[key]) != 1:
                raise InputError(f"{where}: a record with {len(record[key])} lines {key} = ..., expected one")
        found = True
        names = [entry.partition("|")[0] for entry in record["PRINT ENTRY"] + record["ENTRY"]]
        yield Descriptor(
            where, record["UI"][0], record["MH"][0], names, record["MN"], record["FX"], record["PA"]
        )  # fmt: skip
    if not found:
        raise InputError(f"{path}: no descriptor (RECTYPE = D); expected the descriptors of MeSH (d2024.bin)")


def _records(path: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Where each record begins, and its values by key."""
    where, record = "", None
    for number, line in lines(path):
        if line.strip() == BEGIN:
            if record is not None:
                yield where, record
            where, record = f"{path}:{number}", {key: [] for key in READ}
            continue
        key, equals, value = line.partition("=")
        if record is None or not equals:
            raise InputError(f"{path}:{number}: expected {BEGIN if record is None else 'KEY = value'}: {line[:40]!r}")
        if key.strip() in READ and value.strip():
            record[key.strip()].append(value.strip())
    if record is not None:
        yield where, record
