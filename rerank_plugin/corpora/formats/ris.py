"""RIS, the format in which reference managers and databases export (``.ris``); rispy reads each record.

The id is the PMID of a record from PubMed, or else its number (``ID``, ``AN``) or its DOI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.metadata import PMC
from rerank_plugin.corpora.problems import LONGEST, TOO_LONG, Problems
from rerank_plugin.corpora.records import Record, text_lines, usable_documents
from rerank_plugin.corpora.references import reference
from rerank_plugin.corpora.register import CORPUS, Format, register
from rerank_plugin.text.markup import without_brackets

_NUMBER = re.compile(r"\d+\.")  # of the next record, as rispy writes it
UNENDED = "record without ER"
TYPES = {"JOUR": "Journal Article"}  # as at PubMed; rispy names the others


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order."""
    records = ((where, _record(text)) for path in paths for where, text in _texts(path, problems))
    return usable_documents(records, problems, ids_required)


def _texts(path: Path, problems: Problems) -> Iterator[tuple[str, str]]:
    """The place and the lines of each record: up to ``ER  -``, or where the next one begins."""
    place, record, length = "", list[str](), 0
    for where, line in chain(text_lines(path, problems), [("", "ER  -")]):
        tag = line[:2] if line[2:5] == "  -" else ""
        if tag in ("ER", "TY") and record:
            if tag == "ER" and not where:
                problems.add(UNENDED, place)
            if length > LONGEST:
                problems.add(TOO_LONG, f"{place} ({length:,} characters of at most {LONGEST:,})")
            else:
                yield place, "\n".join(record)
            record, length = [], 0
        if line.strip() and tag != "ER" and (record or not _NUMBER.fullmatch(line)):
            place = place if record else where
            length += len(line)
            if length <= LONGEST:
                record.append(line)


def _record(text: str) -> Record:
    with naming_extras("reading RIS"):
        import rispy

    start = "" if text.startswith("TY") else "TY  - GEN\n"
    (fields,) = rispy.loads(f"{start}{text}\nER  - ", skip_unknown_tags=True)

    def values(*names: str) -> list[str]:
        listed = (value if isinstance(value := fields.get(name) or [], list) else [value] for name in names)
        return [text for text in chain.from_iterable(listed) if text]

    kind = fields["type_of_reference"]
    return reference(
        title=[*map(without_brackets, values("title", "primary_title", "translated_title"))],
        abstract=values("abstract", "notes_abstract"),
        numbers=values("id", "accession_number"),
        databases=values("name_of_database", "database_provider"),
        notes=values("urls", "notes", "note"),
        authors=values("authors", "first_authors"),
        journals=values("alternate_title1", "alternate_title2", "journal_name", "alternate_title3", "secondary_title"),
        dates=values("date", "publication_year"),
        years=values("year", "publication_year"),
        dois=values("doi"),
        keywords=values("keywords"),
        volume=values("volume"),
        issue=values("number"),
        pages=["-".join(values("start_page", "end_page"))],
        issn=values("issn"),
        affiliation=values("author_address"),
        full_journal_title=values("journal_name", "secondary_title")[-1:],
        pmc=[text for text in values("custom2") if PMC.fullmatch(text)],
        original_title=values("translated_title"),
        languages="; ".join(values("language")),
        types="; ".join(values("type_of_work")) or [TYPES.get(kind) or rispy.TYPE_OF_REFERENCE_MAPPING.get(kind, "")],
    )


register(Format("RIS", __name__, {CORPUS: "RIS (*.ris)"}, suffixes=(".ris",), begins=r"(?:\d+\.\s+)?TY  - "))
