"""MeSH descriptors as concepts and relations, from XML, ASCII or tab-separated files.

MeSH: https://www.nlm.nih.gov/mesh (U.S. National Library of Medicine). A descriptor has a place in one or more trees,
given by its tree numbers: C14.280.647 (Myocardial Ischemia) is below C14.280 (Heart Diseases). The relations are

    parent                  to the descriptor one step up in a tree
    related                 "see related", to an alternative descriptor
    pharmacological action  from a substance to its action

All files may also be .gz. Reading a malformed file or a repeated id raises an InputError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.headings import PARENT
from rerank_plugin.corpora.columns import rows
from rerank_plugin.files.text_files import DAMAGED, lines, plain_or_gz
from rerank_plugin.knowledge.entries import Concept, Relation, Source, distinct

log = logging.getLogger(__name__)

RELATED, ACTION = "related", "pharmacological action"


class Descriptor(NamedTuple):
    """A record of MeSH. ``related`` and ``actions`` hold ids, or names if the format has names.

    ``parents`` are ids if the source lists them; None derives them from the tree numbers.
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
        self.id_of_number: dict[str, str] = {}  # by tree number
        self.id_of_name: dict[str, str] = {}
        self.descriptors: dict[str, Descriptor] = {}  # by id, without terms

    def concepts(self, descriptors: Iterable[Descriptor]) -> Iterator[Concept]:
        for descriptor in descriptors:
            where, id = descriptor.where, descriptor.id
            if id in self.descriptors:
                raise InputError(
                    f"{where}: the descriptor {id} is repeated ({self.descriptors[id].where}); remove one of them"
                )
            self.descriptors[id] = descriptor._replace(terms=[])
            name, synonyms = distinct(descriptor.name, descriptor.terms)
            self.id_of_name.setdefault(name, id)
            for number in descriptor.tree_numbers if descriptor.parents is None else ():
                owner = self.id_of_number.setdefault(number, id)
                if owner != id:
                    log.warning("%s: the tree number %s belongs to %s, not also to %s", where, number, owner, id)
            yield Concept(id, name, synonyms, tuple(sorted({number[0] for number in descriptor.tree_numbers})))

    def relations(self) -> Iterator[Relation]:
        for id, descriptor in self.descriptors.items():
            parents = descriptor.parents
            if parents is None:
                numbers = (number.rpartition(".")[0] for number in descriptor.tree_numbers)
                parents = [self.id_of_number[number] for number in numbers if number in self.id_of_number]
            yield from (Relation(id, PARENT, parent) for parent in parents)
            for relation, targets in ((RELATED, descriptor.related), (ACTION, descriptor.actions)):
                for target in targets:
                    yield Relation(id, relation, self.id_of_name.get(target, "") if self.by_name else target)


def _source(format: str, descriptors: Iterable[Descriptor], by_name: bool = False) -> Source:
    trees = _Trees(by_name)
    return Source(format, trees.concepts(descriptors), trees.relations())


# ---- XML ----

RECORD = "DescriptorRecord"


def xml_source(path: Path) -> Source:
    """Descriptors in XML (desc2024.xml).

    Format: https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd and its predecessors. The terms of
    all concepts are read, including permuted terms such as "Infarction, Myocardial". Memory does not grow with the text
    of records (:mod:`rerank_plugin.corpora.xml_records`).
    """
    return _source("mesh-xml", _xml_descriptors(path))


def _xml_descriptors(path: Path) -> Iterator[Descriptor]:
    from rerank_plugin.corpora.xml_records import MalformedXmlError, Records

    empty = True
    try:
        for record in Records(path, RECORD):
            empty = False
            yield _xml_descriptor(record, path)
    except MalformedXmlError as error:
        raise InputError(f"{path}:{error.line}: malformed XML ({error.reason})") from None
    except DAMAGED as error:
        raise InputError(f"{path}: damaged gzip file ({error}): fetch or pack it again") from None
    if empty:
        raise InputError(f"{path}: no {RECORD}; expected the descriptors of MeSH (desc2024.xml)")


def _xml_descriptor(record: Any, path: Path) -> Descriptor:
    def texts(element_path: str) -> list[str]:
        stripped = (" ".join((element.text or "").split()) for element in record.iterfind(element_path))
        return [text for text in stripped if text]

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
    """Descriptors in the ASCII format (d2024.bin); records of other types (qualifiers, ...) are left out.

    A record begins with ``*NEWRECORD``, followed by lines ``KEY = value``. The keys are MH (the heading), UI, MN (tree
    numbers), ENTRY and PRINT ENTRY (synonyms, up to the first ``|``), FX (see related) and PA (pharmacological action);
    other keys are ignored. FX and PA have headings, not ids.
    """
    return _source("mesh-ascii", _ascii_descriptors(path), by_name=True)


def _ascii_descriptors(path: Path) -> Iterator[Descriptor]:
    empty = True
    for where, record in _ascii_records(path):
        if record["RECTYPE"] not in ([], ["D"]):
            continue
        for key in ("MH", "UI"):
            if len(record[key]) != 1:
                raise InputError(f"{where}: a record with {len(record[key])} lines {key} = ..., expected one")
        empty = False
        names = [entry.partition("|")[0] for entry in record["PRINT ENTRY"] + record["ENTRY"]]
        yield Descriptor(where, record["UI"][0], record["MH"][0], names, record["MN"], record["FX"], record["PA"])
    if empty:
        raise InputError(f"{path}: no descriptor (RECTYPE = D); expected the descriptors of MeSH (d2024.bin)")


def _ascii_records(path: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Each record: the place where it begins (``file:line``), and its values by key."""
    where = ""
    record: dict[str, list[str]] | None = None
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
    """A folder with descriptors.tsv and, optionally, parents.tsv; both have a header.

    descriptors.tsv has the columns descriptor_ui, name, synonyms and tree_numbers, with ``|`` between the values of a
    field. parents.tsv has the columns child_ui and parent_ui; without it parents are derived from the tree numbers.
    """
    path, parents = plain_or_gz(folder / DESCRIPTORS), plain_or_gz(folder / PARENTS)
    if path is None:
        raise InputError(f"{folder} has no {DESCRIPTORS}")
    return _source("mesh-tsv", _tsv_descriptors(path, parents))


def _tsv_descriptors(path: Path, parents_path: Path | None) -> Iterator[Descriptor]:
    parents: dict[str, list[str]] = {}
    for where, (child, parent) in rows(parents_path, ("child_ui", "parent_ui")) if parents_path else ():
        if not child or not parent:
            raise InputError(f"{where}: the child or the parent is empty; add it or remove the line")
        parents.setdefault(child, []).append(parent)
    for where, (id, name, synonyms, numbers) in rows(path, ("descriptor_ui", "name", "synonyms", "tree_numbers")):
        if not id or not name:
            raise InputError(f"{where}: a descriptor needs an id and a name")
        tree_numbers = [number for number in numbers.split("|") if number]
        listed = parents.get(id, []) if parents_path else None
        yield Descriptor(where, id, name, synonyms.split("|"), tree_numbers, parents=listed)
