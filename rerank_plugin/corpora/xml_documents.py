"""Documents of files in XML whose records are elements of one name, in any namespace.

A malformed file loses only its damaged records (`broken_xml`), and a record of another kind or with entities that are
not expanded is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from lxml import etree

from rerank_plugin.base.records import Document
from rerank_plugin.corpora import broken_xml
from rerank_plugin.corpora.problems import MALFORMED_XML, NO_RECORDS, UNEXPANDED, Problems
from rerank_plugin.corpora.records import Record, usable_documents
from rerank_plugin.corpora.safe_xml import MalformedXmlError, Records
from rerank_plugin.files.text_files import DAMAGED, damaged, rereadable


def documents(
    paths: Iterable[Path], problems: Problems, ids_required: bool, tag: str, record_of: Callable[[Any], Record]
) -> Iterator[Document]:
    """Stream the documents of files; ``record_of`` reads an element, whose names have no namespaces."""
    return usable_documents(_records([*paths], problems, tag, record_of), problems, ids_required)


def _records(
    paths: list[Path], problems: Problems, tag: str, record_of: Callable[[Any], Record]
) -> Iterator[tuple[str, Record]]:
    with rereadable(paths):
        for path in paths:
            number = 0
            try:
                for number, element in enumerate(_elements(path, problems, tag), 1):
                    where = f"{path}: {tag} {number}"
                    if entities := sorted({entity.text for entity in element.iter(etree.Entity)}):
                        problems.add(UNEXPANDED, f"{where} ({', '.join(entities[:3])})")
                    yield where, record_of(element)
            except DAMAGED as damage:
                problems.add(damaged(path), f"{path}: after {tag} {number} ({damage})")


def _elements(path: Path, problems: Problems, tag: str) -> Iterator[Any]:
    """The elements with this name; what precedes the damage of a malformed file is parsed, but not given, twice."""
    given = 0
    records = Records(path, f"{{*}}{tag}")
    try:
        for element in records:
            given += 1
            yield _without_namespaces(element)
    except MalformedXmlError as error:
        readable = broken_xml.records(path, error, lambda where: problems.add(MALFORMED_XML, where), (tag,))
        yield from map(_without_namespaces, islice(readable, given, None))
    else:
        if not given:
            problems.add(NO_RECORDS, f"{path} (<{records.root.tag}>)")


def _without_namespaces(element: Any) -> Any:
    for part in element.iter("{*}*"):
        if part.tag[0] == "{":
            part.tag = etree.QName(part).localname
    return element
