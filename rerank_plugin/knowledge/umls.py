"""UMLS in its Rich Release Format: a folder with MRCONSO.RRF, MRSTY.RRF and MRREL.RRF, each also .gz ([K] 4.2).

Format: UMLS Reference Manual, chapter 3 (U.S. National Library of Medicine). Suppressed rows (SUPPRESS other than N)
and names in other languages are left out. Names with TS=P are preferred, then names with STT=PF, then with ISPREF=Y. A
relation is RELA if present, else REL, and goes from the second concept of a row to the first ("CUI2 isa CUI1"), as in
UMLS, which lists most relations in both directions.

The files are streamed in the order of CUIs, as released. Concepts without a medical semantic type are left out by
default (see `semantic_types`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.text_files import lines, plain_or_gz
from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct
from rerank_plugin.knowledge.semantic_types import MEDICAL

log = logging.getLogger(__name__)

NAMES, TYPES, RELATIONS = "MRCONSO.RRF", "MRSTY.RRF", "MRREL.RRF"
COLUMNS = {
    NAMES: "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF".split(),
    TYPES: "CUI TUI STN STY ATUI CVF".split(),
    RELATIONS: "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF".split(),
}
LAST = "\U0010ffff"  # after every CUI


def source(folder: Path, language: str) -> Source:
    """The concepts with a name in ``language`` (a LAT of UMLS), and their relations.

    Raises:
        InputError: names or types are missing; while reading, a row has too few fields, or the CUIs are not sorted.
    """
    names, types = _required(folder, NAMES), _required(folder, TYPES)
    relations = plain_or_gz(folder / RELATIONS)
    if relations is None:
        log.warning("%s has no %s: the concepts will have no relations", folder, RELATIONS)
    return Source("umls", _concepts(names, types, language), _relations(relations) if relations else iter(()), MEDICAL)


def _required(folder: Path, name: str) -> Path:
    path = plain_or_gz(folder / name)
    if path is None:
        raise InputError(f"{folder} has no {name}; a UMLS folder has {NAMES}, {TYPES} and {RELATIONS}")
    return path


def _rows(path: Path, file: str, columns: str) -> Iterator[tuple[str, ...]]:
    """The fields of each line in these columns."""
    all_columns = COLUMNS[file]
    select = itemgetter(*(all_columns.index(column) for column in columns.split()))
    for number, line in lines(path):
        fields = line.split("|")
        if len(fields) not in (len(all_columns), len(all_columns) + 1):  # some tools drop the last pipe of a row
            raise InputError(
                f"{path}:{number}: expected {len(all_columns)} fields separated by |, as in {file}, found {len(fields)}"
            )
        yield select(fields)


def _by_cui(path: Path, rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """The rows of each concept, in increasing order of CUIs."""
    previous = ""
    for cui, group in groupby(rows, itemgetter(0)):
        if cui <= previous:
            raise InputError(f"{path}: {cui} comes after {previous}: sort the rows by CUI (LC_ALL=C sort)")
        previous = cui
        yield cui, list(group)


def _concepts(names: Path, types: Path, language: str) -> Iterator[Concept]:
    types_by_cui = _by_cui(types, _rows(types, TYPES, "CUI TUI"))
    type_cui, type_rows = next(types_by_cui, (LAST, []))
    empty = True
    for cui, rows in _by_cui(names, _rows(names, NAMES, "CUI LAT TS STT ISPREF STR SUPPRESS")):
        usable = [row for row in rows if row[1] == language and row[6] == "N" and row[5].strip()]
        if not usable:
            continue
        empty = False
        while type_cui < cui:
            type_cui, type_rows = next(types_by_cui, (LAST, []))
        usable.sort(key=lambda row: (row[2] != "P", row[3] != "PF", row[4] != "Y"))  # stable: ties in file order
        name, synonyms = distinct(usable[0][5], [row[5] for row in usable[1:]])
        yield Concept(cui, name, synonyms, tuple(tui for _, tui in type_rows) if type_cui == cui else ())
    if empty:
        raise InputError(f"{names}: no unsuppressed name in the language {language}: choose another language")


def _relations(path: Path) -> Iterator[Relation]:
    for first, rel, second, rela, suppressed in _rows(path, RELATIONS, "CUI1 REL CUI2 RELA SUPPRESS"):
        if suppressed == "N" and first != second:
            yield Relation(second, rela or rel, first)
