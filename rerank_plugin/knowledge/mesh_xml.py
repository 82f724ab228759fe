"""MeSH descriptors in XML, as the U.S. National Library of Medicine publishes them (desc2024.xml, also .gz).

Format: https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd and its predecessors. Read are
DescriptorUI, DescriptorName, the terms of all concepts (also the permuted ones, as "Infarction, Myocardial"), the tree
numbers, SeeRelatedList and PharmacologicalActionList. A record is gone when the next one is asked for, so that memory
does not grow with the file. No entity is expanded, no DTD loaded, nothing fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from lxml import etree

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.text_files import DAMAGED, open_bytes
from rerank_plugin.knowledge import mesh
from rerank_plugin.knowledge.entries import Source
from rerank_plugin.knowledge.mesh import Descriptor

RECORD = "DescriptorRecord"
_SAFELY = dict(
    resolve_entities=False, load_dtd=False, dtd_validation=False, no_network=True, huge_tree=False,
    remove_comments=True, remove_pis=True,
)  # fmt: skip


def source(path: Path) -> Source:
    return mesh.source("mesh-xml", descriptors(path))


def descriptors(path: Path) -> Iterator[Descriptor]:
    """The descriptors of a file.

    Raises:
        InputError: (while reading) the XML is broken, or holds no descriptor or one without an id or a name.
    """
    number = 0
    with open_bytes(path) as file:
        reader = etree.iterparse(file, events=("end",), tag=RECORD, **_SAFELY)
        try:
            for number, (_, record) in enumerate(reader, 1):
                yield _descriptor(record, path)
                parent = record.getparent()
                while parent is not None and record.getprevious() is not None:
                    del parent[0]
        except etree.XMLSyntaxError as error:
            first = reader.error_log[0] if len(reader.error_log) else None
            line, reason = (first.line, first.message) if first else (error.lineno, error.msg)
            raise InputError(f"{path}:{line}: malformed XML ({' '.join(str(reason).split())})") from None
        except DAMAGED as error:
            raise InputError(f"{path}: damaged gzip file ({error}): fetch or pack it again") from None
    if not number:
        raise InputError(f"{path}: no {RECORD}; expected the descriptors of MeSH (desc2024.xml)")


def _descriptor(record: Any, path: Path) -> Descriptor:
    where = f"{path}:{record.sourceline}"
    id, name = _plain(record.findtext("DescriptorUI")), _plain(record.findtext("DescriptorName/String"))
    if not id or not name:
        raise InputError(f"{where}: a {RECORD} without {'DescriptorName' if id else 'DescriptorUI'}")
    return Descriptor(
        where,
        id,
        name,
        _texts(record, "ConceptList/Concept/TermList/Term/String"),
        _texts(record, "TreeNumberList/TreeNumber"),
        _texts(record, "SeeRelatedList/SeeRelatedDescriptor/DescriptorReferredTo/DescriptorUI"),
        _texts(record, "PharmacologicalActionList/PharmacologicalAction/DescriptorReferredTo/DescriptorUI"),
    )


def _texts(record: Any, path: str) -> list[str]:
    texts = (_plain(element.text) for element in record.iterfind(path))
    return [text for text in texts if text]


def _plain(text: str | None) -> str:
    return " ".join((text or "").split())
