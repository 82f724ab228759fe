"""UMLS in its Rich Release Format: a folder with MRCONSO.RRF, MRSTY.RRF and MRREL.RRF, each also .gz ([K] 4.2).

Format: UMLS Reference Manual, chapter 3 (U.S. National Library of Medicine). Rows that UMLS suppresses (SUPPRESS other
than N) are left out, and so are names in other languages. The preferred name of a concept is the one with TS=P, STT=PF
and ISPREF=Y, or what comes closest. A relation is RELA where there is one, else REL, and goes from the second concept
of a row to the first ("CUI2 isa CUI1"), as UMLS reads it; UMLS lists most in both directions.

The files are read as a stream, in the order of CUIs, as they are released. Concepts without a medical semantic type are
left out by default (see `semantic_types`).
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
    """The concepts that have a name in ``language`` (a LAT of UMLS), and their relations.

    Raises:
        InputError: names or types are missing; while reading, a row has too few fields, or the CUIs are not sorted.
    """
    paths = {name: plain_or_gz(folder / name) for name in COLUMNS}
    for name in (NAMES, TYPES):
        if paths[name] is None:
            raise InputError(f"{folder} holds no {name}; a UMLS folder has {NAMES}, {TYPES} and {RELATIONS}")
    if paths[RELATIONS] is None:
        log.warning("%s holds no %s: the concepts will have no relations", folder, RELATIONS)
    return Source(
        "umls",
        _concepts(paths[NAMES], paths[TYPES], language),
        _relations(paths[RELATIONS]) if paths[RELATIONS] else iter(()),
        MEDICAL,
    )


def _rows(path: Path, file: str, columns: str) -> Iterator[tuple[str, ...]]:
    """The fields of each line in these columns."""
    every = COLUMNS[file]
    wanted = itemgetter(*(every.index(column) for column in columns.split()))
    for number, line in lines(path):
        fields = line.split("|")
        if len(fields) not in (len(every), len(every) + 1):  # a row ends in a pipe, which some tools take off
            raise InputError(f"{path}:{number}: {len(fields)} fields split by |, {file} has {len(every)}")
        yield wanted(fields)


def _by_cui(path: Path, rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """The rows of each concept; concepts come in increasing order."""
    before = ""
    for cui, group in groupby(rows, itemgetter(0)):
        if cui <= before:
            raise InputError(f"{path}: {cui} comes after {before}: the rows must be sorted by CUI (LC_ALL=C sort)")
        before = cui
        yield cui, list(group)


def _concepts(names: Path, types: Path, language: str) -> Iterator[Concept]:
    typed = _by_cui(types, _rows(types, TYPES, "CUI TUI"))
    type_cui, type_rows = next(typed, (LAST, []))
    found = False
    for cui, rows in _by_cui(names, _rows(names, NAMES, "CUI LAT TS STT ISPREF STR SUPPRESS")):
        usable = [row for row in rows if row[1] == language and row[6] == "N" and row[5].strip()]
        if not usable:
            continue
        found = True
        while type_cui < cui:
            type_cui, type_rows = next(typed, (LAST, []))
        usable.sort(key=lambda row: (row[2] != "P", row[3] != "PF", row[4] != "Y"))  # stable: then as in the file
        name, synonyms = distinct(usable[0][5], [row[5] for row in usable[1:]])
        yield Concept(cui, name, synonyms, tuple(tui for _, tui in type_rows) if type_cui == cui else ())
    if not found:
        raise InputError(f"{names}: no name in the language {language} that is not suppressed")


def _relations(path: Path) -> Iterator[Relation]:
    for first, relation, second, more, suppressed in _rows(path, RELATIONS, "CUI1 REL CUI2 RELA SUPPRESS"):
        if suppressed == "N" and first != second:
            yield Relation(second, more or relation, first)
