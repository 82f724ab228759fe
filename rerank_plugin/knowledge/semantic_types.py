"""The semantic types of UMLS in their groups (semantic_types.tsv), and the selection of types to keep.

Groups: A. T. McCray, A. Burgun, O. Bodenreider. Aggregating UMLS semantic types for reducing conceptual complexity.
MedInfo 2001; the numbers and names of the types are those of the UMLS Semantic Network.

[K] 4.2 discards concepts "that do not belong to a medical semantic type (e.g. Quantitative Concept)" and does not list
the types. Our choice: the groups Activities & Behaviors, Concepts & Ideas, Geographic Areas, Objects, Occupations and
Organizations are not medical, except Food (of Objects), a frequent topic of medical queries; the other nine are. A
concept is kept if any of its types is medical.
"""

from __future__ import annotations

from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.columns import rows
from rerank_plugin.files.text_files import lines
from rerank_plugin.knowledge.entries import Source

MEDICAL_GROUPS = ("ANAT", "CHEM", "DEVI", "DISO", "GENE", "LIVB", "PHEN", "PHYS", "PROC")
FOOD = "T168"
ALL = "all"

GROUPS: dict[str, dict[str, str]] = {}  # the names of the types, by group and type
for _, (_group, _type, _name) in rows(Path(__file__).with_suffix(".tsv"), ("group", "type", "name")):
    GROUPS.setdefault(_group, {})[_type] = _name
NAMES: dict[str, str] = {type: name for types in GROUPS.values() for type, name in types.items()}
MEDICAL = frozenset([FOOD, *(type for group in MEDICAL_GROUPS for type in GROUPS[group])])


def selected_types(selection: str | None, source: Source) -> frozenset[str] | None:
    """The types to keep; None keeps all concepts.

    Args:
        selection: types joined by commas, or a file; None for the source's default, ``all`` for all concepts.

    Raises:
        InputError: a type is unknown in UMLS, or the selection is empty.
    """
    if selection is None:
        return source.kept_types
    if selection == ALL:
        return None
    entries = _entries(selection)
    if not entries:
        raise InputError(f"the types {selection!r}: no type is named; give types joined by commas, a file, or {ALL}")
    if source.format != "umls":
        return frozenset(entries)
    return frozenset(type for entry in entries for type in _umls_types(entry))


def _entries(selection: str) -> list[str]:
    """The entries of a selection; a file has one a line, since names of UMLS types may contain commas."""
    path = Path(selection)
    if path.is_file():
        entries = [line.partition("#")[0] for _, line in lines(path)]
    else:
        entries = [selection] if selection in NAMES.values() else selection.split(",")
    return [entry.strip() for entry in entries if entry.strip()]


def _umls_types(entry: str) -> list[str]:
    """The types of an entry: a type, a group, or a name in any letter case."""
    if entry in GROUPS:
        return list(GROUPS[entry])
    types = [type for type, name in NAMES.items() if entry == type or entry.lower() == name.lower()]
    if not types:
        raise InputError(
            f"the type {entry}: not a semantic type of UMLS; expected a type (T047), its name (Disease or Syndrome) or "
            f"a group ({', '.join(GROUPS)})"
        )
    return types
