"""MEDLINE text, as PubMed exports it (``.nbib``, or ``.txt`` of its format "PubMed") and other tools read it.

    PMID- 31000001
    TI  - Statins and the risk of
          new diabetes.

A field begins with its tag of four characters, a hyphen and a space; further lines of it are indented. A blank line or
the next PMID ends a record. Tags: https://www.nlm.nih.gov/bsd/mms/medlineelements.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import NO_ABSTRACT, Record, text_lines, usable_documents
from rerank_plugin.corpora.register import CORPUS, Format, register
from rerank_plugin.text.markup import without_brackets

BAD_LINE = "bad line of MEDLINE text"
NO_TITLE = "[Not Available]."  # NLM's placeholder
TITLES, ABSTRACTS, JOURNALS = ("TI", "BTI", "CTI", "TT"), ("AB", "OAB"), ("TA", "JT")
METADATA = {"authors": ("AU", "CN"), "types": ("PT",), "languages": ("LA",), "keywords": ("OT",)}
TEXTS = {
    "date": ("DP",), "journal": JOURNALS, "full_journal_title": ("JT",), "entry_date": ("EDAT",),
    "create_date": ("CRDT",),
    "electronic_date": ("DEP",), "volume": ("VI",), "issue": ("IP",), "pages": ("PG",), "pmc": ("PMC",),
    "affiliation": ("AD",),
}  # of several the first  # fmt: skip
NOTICES = {
    "RIN": "Retraction in", "ROF": "Retraction of", "EIN": "Erratum in", "EFR": "Erratum for",
    "ECI": "Expression of concern in", "ECF": "Expression of concern for", "UIN": "Update in", "UOF": "Update of",
    "CIN": "Comment in", "CON": "Comment on", "RPI": "Republished in", "RPF": "Republished from",
    "CRI": "Corrected and republished in", "CRF": "Corrected and republished from",
    "RRI": "Retracted and republished in", "RRF": "Retracted and republished from",
    "PRIN": "Partial retraction in", "PROF": "Partial retraction of", "ORI": "Original report in",
    "SPIN": "Summary for patients in",
}  # fmt: skip
_FIELD = re.compile(r"([A-Z][A-Z0-9]{0,3}) *- ?(.*)")
_SUBSTANCE = re.compile(r"((?:EC )?[\w.-]+) \((.*)\)")  # after its number in a registry
_DOI = re.compile(r"(\S+) \[doi\]")

Fields = dict[str, list[str]]


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order."""
    return usable_documents(_records(paths, problems), problems, ids_required)


def _records(paths: Iterable[Path], problems: Problems) -> Iterator[tuple[str, Record]]:
    for path in paths:
        fields: Fields = {}
        place, tag = "", ""
        for where, line in text_lines(path, problems):
            field = _FIELD.fullmatch(line)
            if fields and (not line or field and field[1] == "PMID"):
                yield place, _record(fields)
                fields = {}
            if field:
                place, tag = where if not fields else place, field[1]
                fields.setdefault(tag, []).append(field[2])
            elif line and fields and line[0] in " \t":
                if tag:
                    fields[tag][-1] += f" {line.strip()}"
            elif line:
                tag = ""  # further lines are its own
                problems.add(BAD_LINE, f"{where} ({line[:40]!r}: expected a tag, a hyphen and a text)")
        if fields:
            yield place, _record(fields)


def _record(fields: Fields) -> Record:
    title = next((text for text in _values(fields, TITLES) if text != NO_TITLE), "")
    pmid, types = next(iter(_values(fields, ("PMID",))), ""), _values(fields, ("PT",))
    identifiers = map(_DOI.fullmatch, _values(fields, ("LID", "AID", "SO")))
    metadata: dict[str, Any] = {name: texts for name, tags in METADATA.items() if (texts := _values(fields, tags))}
    metadata |= {name: texts[0] for name, tags in TEXTS.items() if (texts := _values(fields, tags))}
    if metadata.get("full_journal_title") == metadata.get("journal"):
        metadata.pop("full_journal_title", None)
    numbers = dict[str, str]()
    for text in _values(fields, ("RN", "NM")):
        substance = _SUBSTANCE.fullmatch(text)
        numbers.setdefault(substance[2] if substance else text, substance[1] if substance else "0")
    headings = [text.split("/") for text in _values(fields, ("MH",))]
    metadata |= {
        "mesh": [_plain(name) for name, *_ in headings],
        "major_topics": [_plain(name) for name, *rest in headings if any(part[:1] == "*" for part in (name, *rest))],
        "subheadings": [f"{_plain(name)}/{_plain(part)}" for name, *rest in headings for part in rest],
        "full_names": _values(fields, ("FAU", "CN")) if "FAU" in fields else [],
        "chemicals": list(numbers),
        "registry_numbers": list(numbers.values()) if any(number != "0" for number in numbers.values()) else [],
        "notices": [f"{kind}: {text}" for tag, kind in NOTICES.items() for text in _values(fields, (tag,))],
        "issn": next((text.split(" ")[0] for text in _values(fields, ("IS",))), ""),
        "original_title": next((text for text in _values(fields, ("TT",)) if text != title), ""),
    }
    metadata |= {"pmid": pmid, "retracted": "Retracted Publication" in types or "RIN" in fields}
    metadata["doi"] = next((match[1] for match in identifiers if match), "")
    abstract, *others = [text for text in _values(fields, ABSTRACTS) if not text.endswith(NO_ABSTRACT)] or [""]
    metadata["other_abstract"] = " ".join(others)
    return Record(pmid, without_brackets(title), abstract, metadata)


def _plain(name: str) -> str:
    """A heading or a subheading without the mark of a major topic."""
    return name.removeprefix("*")


def _values(fields: Fields, tags: Sequence[str]) -> list[str]:
    """The non-empty values of these tags, in the order of the tags."""
    return [value for tag in tags for value in fields.get(tag, ()) if value]


register(
    Format(
        "MEDLINE text",
        __name__,
        {CORPUS: "MEDLINE text (PubMed's *.nbib)"},
        suffixes=(".nbib", ".medline"),
        begins="PMID *- ",
    )
)
