"""The XML that EndNote exports, and what other reference managers export for it.

The id is the PMID of a record from PubMed, or else its accession number or its number in the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import Record
from rerank_plugin.corpora.references import reference
from rerank_plugin.corpora.register import CORPUS, XML_ROOT, Format, register
from rerank_plugin.corpora.xml_text import text_of

JOURNALS = ("periodical/abbr-1", "alt-periodical/abbr-1", "periodical/full-title", "titles/secondary-title")


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order."""
    with naming_extras("reading EndNote XML"):
        from rerank_plugin.corpora import xml_records
    return xml_records.documents(paths, problems, ids_required, "record", _record)


def _record(record: Any) -> Record:
    def texts(*names: str) -> list[str]:
        return [text for name in names for text in map(text_of, record.iterfind(name)) if text]

    kind = record.find("ref-type")
    return reference(
        title=texts("titles/title"),
        abstract=texts("abstract"),
        numbers=texts("accession-num", "rec-number"),
        databases=texts("remote-database-name", "remote-database-provider"),
        notes=texts("urls/related-urls/url", "notes"),
        authors=texts("contributors/authors/author"),
        journals=texts(*JOURNALS),
        dates=texts("dates/pub-dates/date"),
        years=texts("dates/year"),
        dois=texts("electronic-resource-num"),
        keywords=texts("keywords/keyword"),
        languages=texts("language"),
        volume=texts("volume"),
        issue=texts("number"),
        pages=texts("pages"),
        issn=texts("isbn"),
        affiliation=texts("auth-address"),
        types=texts("work-type") or ([] if kind is None else [kind.get("name", "")]),
    )


register(
    Format(
        "EndNote XML",
        __name__,
        {CORPUS: "EndNote XML (*.xml)"},
        suffixes=(".enx",),
        begins=XML_ROOT % r"xml>\s*<records|records>\s*<record",
    )
)
