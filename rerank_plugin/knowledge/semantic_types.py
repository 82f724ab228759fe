"""The semantic types of UMLS in their groups (semantic_types.tsv), and the selection of types to keep.

Groups: A. T. McCray, A. Burgun, O. Bodenreider. Aggregating UMLS semantic types for reducing conceptual complexity.
MedInfo 2001; the numbers and names of the types are those of the UMLS Semantic Network.

[K] 4.2 discards concepts "that do not belong to a medical semantic type (e.g. Quantitative Concept)" and does not list
the types. Here the groups Activities & Behaviors, Concepts & Ideas, Geographic Areas, Objects, Occupations and
Organizations are not medical, but for Food (of Objects), which medicine is asked about. The other nine are kept. A
concept with several types is kept when one of them is.
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


def selected(wanted: str | None, source: Source) -> frozenset[str] | None:
    """The types to keep, given by ``wanted`` as a comma-separated list or a file; None keeps all concepts.

    Raises:
        InputError: a type is not known in UMLS, or the list is empty.
    """
    if wanted is None:
        return source.kept_types
    if wanted == ALL:
        return None
    parts = _listed(wanted)
    if not parts:
        raise InputError(f"the types {wanted!r}: no type is named; give types joined by commas, a file, or {ALL}")
    if source.format != "umls":
        return frozenset(parts)
    return frozenset(type for part in parts for type in _umls_types(part))


def _listed(wanted: str) -> list[str]:
    """The types one by one; a name of UMLS may hold commas itself, so a file has one a line."""
    path = Path(wanted)
    if path.is_file():
        parts = [line.partition("#")[0] for _, line in lines(path)]
    else:
        parts = [wanted] if wanted in NAMES.values() else wanted.split(",")
    return [part.strip() for part in parts if part.strip()]


def _umls_types(part: str) -> list[str]:
    """The types that a type, a group or a name in any letter case stands for."""
    if part in GROUPS:
        return list(GROUPS[part])
    found = [type for type, name in NAMES.items() if part == type or part.lower() == name.lower()]
    if not found:
        raise InputError(
            f"the type {part}: no semantic type of UMLS; expected a type (T047), its name (Disease or Syndrome) or a "
            f"group ({', '.join(GROUPS)})"
        )
    return found
