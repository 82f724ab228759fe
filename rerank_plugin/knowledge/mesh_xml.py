"""MeSH descriptors in XML, as the U.S. National Library of Medicine publishes them (desc2024.xml, also .gz).

Format: https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd and its predecessors. Read are
DescriptorUI, DescriptorName, the terms of all concepts (also the permuted ones, as "Infarction, Myocardial"), the tree
numbers, SeeRelatedList and PharmacologicalActionList. A record is freed when the next one is read, so that memory does
not grow with the file (see `safe_xml`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerank_plugin.corpora.safe_xml import Malformed, Records
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.text_files import DAMAGED
from rerank_plugin.knowledge import mesh
from rerank_plugin.knowledge.entries import Source
from rerank_plugin.knowledge.mesh import Descriptor

RECORD = "DescriptorRecord"


def source(path: Path) -> Source:
    return mesh.source("mesh-xml", descriptors(path))


def descriptors(path: Path) -> Iterator[Descriptor]:
    """The descriptors of a file.

    Raises:
        InputError: (while reading) the XML is broken, or holds no descriptor or one without an id or a name.
    """
    number = 0
    try:
        for number, record in enumerate(Records(path, RECORD), 1):
            yield _descriptor(record, path)
    except Malformed as error:
        raise InputError(f"{path}:{error.line}: malformed XML ({error.reason})") from None
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
