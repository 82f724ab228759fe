"""MeSH descriptors as concepts and relations, from XML, ASCII or tab-separated files.

MeSH: https://www.nlm.nih.gov/mesh (U.S. National Library of Medicine). A descriptor stands in one or more trees; a tree
number names its place, as C14.280.647 (Myocardial Ischemia) below C14.280 (Heart Diseases). The relations are

    parent                  one step up a tree number
    related                 "see related", to a descriptor that a reader may want instead
    pharmacological action  from a substance to what it does

All files may also be .gz. Reading raises an InputError where a file is malformed or an id occurs twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.columns import rows
from rerank_plugin.files.text_files import DAMAGED, lines, plain_or_gz
from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct

log = logging.getLogger(__name__)

PARENT, RELATED, ACTION = "parent", "related", "pharmacological action"


class Descriptor(NamedTuple):
    """A record of MeSH. ``related`` and ``actions`` hold ids, or names where the format has names.

    ``parents`` are ids where the source names them itself, else None: they follow from the tree numbers.
    """

    where: str
    id: str
    name: str
    terms: list[str]
    tree_numbers: list[str]
    related: list[str] = []
    actions: list[str] = []
    parents: list[str] | None = None


class _Trees:
    """The ids, tree numbers and references of all descriptors, kept until the relations are read."""

    def __init__(self, by_name: bool):
        self.by_name = by_name
        self.places: dict[str, str] = {}  # id by tree number
        self.ids: dict[str, str] = {}  # id by name
        self.kept: dict[str, Descriptor] = {}  # by id

    def concepts(self, descriptors: Iterable[Descriptor]) -> Iterator[Concept]:
        for one in descriptors:
            if one.id in self.kept:
                before = self.kept[one.id].where
                raise InputError(
                    f"{one.where}: the descriptor {one.id} is there already ({before}); remove one of them"
                )
            self.kept[one.id] = one._replace(terms=[])
            name, synonyms = distinct(one.name, one.terms)
            self.ids.setdefault(name, one.id)
            for number in one.tree_numbers if one.parents is None else ():
                other = self.places.setdefault(number, one.id)
                if other != one.id:
                    log.warning(
                        "%s: the tree number %s belongs to %s, not also to %s", one.where, number, other, one.id
                    )
            yield Concept(one.id, name, synonyms, tuple(sorted({number[0] for number in one.tree_numbers})))

    def relations(self) -> Iterator[Relation]:
        for one in self.kept.values():
            above = (number.rpartition(".")[0] for number in one.tree_numbers)
            parents = [self.places[number] for number in above if number in self.places]
            yield from (Relation(one.id, PARENT, id) for id in (parents if one.parents is None else one.parents))
            for relation, others in ((RELATED, one.related), (ACTION, one.actions)):
                for other in others:
                    yield Relation(one.id, relation, self.ids.get(other, "") if self.by_name else other)


def _source(format: str, descriptors: Iterable[Descriptor], by_name: bool = False) -> Source:
    trees = _Trees(by_name)
    return Source(format, trees.concepts(descriptors), trees.relations())


# ---- XML ----

RECORD = "DescriptorRecord"


def xml_source(path: Path) -> Source:
    """Descriptors in XML (desc2024.xml).

    Format: https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd and its predecessors. The terms of
    all concepts are read, also the permuted ones, as "Infarction, Myocardial". Memory does not grow with the records'
    text (see `safe_xml`).
    """
    return _source("mesh-xml", _of_xml(path))


def _of_xml(path: Path) -> Iterator[Descriptor]:
    from rerank_plugin.corpora.safe_xml import Malformed, Records

    found = False
    try:
        for record in Records(path, RECORD):
            found = True
            yield _of_record(record, path)
    except Malformed as error:
        raise InputError(f"{path}:{error.line}: malformed XML ({error.reason})") from None
    except DAMAGED as error:
        raise InputError(f"{path}: damaged gzip file ({error}): fetch or pack it again") from None
    if not found:
        raise InputError(f"{path}: no {RECORD}; expected the descriptors of MeSH (desc2024.xml)")


def _of_record(record: Any, path: Path) -> Descriptor:
    def texts(place: str) -> list[str]:
        found = (" ".join((element.text or "").split()) for element in record.iterfind(place))
        return [text for text in found if text]

    where, ids, names = f"{path}:{record.sourceline}", texts("DescriptorUI"), texts("DescriptorName/String")
    if not ids or not names:
        raise InputError(f"{where}: a {RECORD} without {'DescriptorName' if ids else 'DescriptorUI'}")
    return Descriptor(
        where,
        ids[0],
        names[0],
        texts("ConceptList/Concept/TermList/Term/String"),
        texts("TreeNumberList/TreeNumber"),
        texts("SeeRelatedList/SeeRelatedDescriptor/DescriptorReferredTo/DescriptorUI"),
        texts("PharmacologicalActionList/PharmacologicalAction/DescriptorReferredTo/DescriptorUI"),
    )


# ---- ASCII ----

BEGIN = "*NEWRECORD"
READ = ("RECTYPE", "MH", "UI", "MN", "ENTRY", "PRINT ENTRY", "FX", "PA")


def ascii_source(path: Path) -> Source:
    """Descriptors in the ASCII format (d2024.bin); records of another type (qualifiers, ...) are left out.

    A record begins with ``*NEWRECORD`` and has one ``KEY = value`` a line. Read are MH (the heading), UI, MN (tree
    numbers), ENTRY and PRINT ENTRY (other names, up to the first ``|``), FX (see related) and PA (pharmacological
    action); FX and PA give headings, not ids.
    """
    return _source("mesh-ascii", _of_ascii(path), by_name=True)


def _of_ascii(path: Path) -> Iterator[Descriptor]:
    found = False
    for where, record in _ascii_records(path):
        if record["RECTYPE"] not in ([], ["D"]):
            continue
        for key in ("MH", "UI"):
            if len(record[key]) != 1:
                raise InputError(f"{where}: a record with {len(record[key])} lines {key} = ..., expected one")
        found = True
        names = [entry.partition("|")[0] for entry in record["PRINT ENTRY"] + record["ENTRY"]]
        yield Descriptor(where, record["UI"][0], record["MH"][0], names, record["MN"], record["FX"], record["PA"])
    if not found:
        raise InputError(f"{path}: no descriptor (RECTYPE = D); expected the descriptors of MeSH (d2024.bin)")


def _ascii_records(path: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
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


# ---- tab-separated ----

DESCRIPTORS, PARENTS = "descriptors.tsv", "parents.tsv"


def tsv_source(folder: Path) -> Source:
    """A folder with descriptors.tsv and, where there is one, parents.tsv; both have a header.

    descriptors.tsv has the columns descriptor_ui, name, synonyms and tree_numbers, several values in one field joined
    by ``|``. parents.tsv has the columns child_ui and parent_ui; without it the parents follow from the tree numbers.
    """
    path, parents = plain_or_gz(folder / DESCRIPTORS), plain_or_gz(folder / PARENTS)
    if path is None:
        raise InputError(f"{folder} holds no {DESCRIPTORS}")
    return _source("mesh-tsv", _of_tsv(path, parents))


def _of_tsv(path: Path, parents_path: Path | None) -> Iterator[Descriptor]:
    parents: dict[str, list[str]] = {}
    for where, (child, parent) in rows(parents_path, ("child_ui", "parent_ui")) if parents_path else ():
        if not child or not parent:
            raise InputError(f"{where}: a child and a parent are expected, one is empty")
        parents.setdefault(child, []).append(parent)
    for where, (id, name, synonyms, numbers) in rows(path, ("descriptor_ui", "name", "synonyms", "tree_numbers")):
        if not id or not name:
            raise InputError(f"{where}: a descriptor needs an id and a name")
        above = parents.get(id, []) if parents_path else None
        yield Descriptor(where, id, name, synonyms.split("|"), [n for n in numbers.split("|") if n], parents=above)
