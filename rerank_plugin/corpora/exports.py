"""Documents as files that reference managers, spreadsheets and this program read: RIS, ``.nbib``, BibTeX, CSV, JSON.

JSON, CSV and ``.nbib`` hold all metadata (``.nbib`` without the version of an article); RIS and BibTeX what they have
fields for.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeAlias

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.filters import LISTS, PMID_VERSION
from rerank_plugin.base.metadata_fields import AT_PUBMED, INITIALS, texts, without_suffix
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.formats.medline import NOTICES
from rerank_plugin.corpora.metadata import MONTHS, NAMES
from rerank_plugin.files.outputs import FileKind
from rerank_plugin.files.text_files import beginning

COLUMNS = ("id", "title", "abstract", *sorted(NAMES))  # of CSV
NOT_TEXTS = {"retracted", PMID_VERSION}
RANKED = ("rank", "score")
Ranks: TypeAlias = Iterable[tuple[int, float]]
BETWEEN_VALUES, BETWEEN_NOTICES = "; ", " | "
_TEX = {**{mark: f"\\{mark}" for mark in "&%$#_{}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}"}  # fmt: skip
_SPACE = re.compile(r"\s+")


class Export(NamedTuple):
    """A format of documents: how they are written, and the type of the file.

    ``write`` also takes the rank and the score of each document, which CSV and JSON hold.
    """

    write: Callable[..., Iterator[str]]
    media_type: str


def _records(documents: Iterable[Document], ranks: Ranks | None) -> Iterator[dict[str, Any]]:
    for document, rank in zip(documents, repeat(()) if ranks is None else ranks):
        fields = {"id": document.id, "title": document.title, "abstract": document.abstract}
        yield dict(zip(RANKED, rank)) | fields | dict(document.metadata or {})


def _json(documents: Iterable[Document], ranks: Ranks | None = None) -> Iterator[str]:
    separator = "["
    for record in _records(documents, ranks):
        yield f"{separator}\n{json.dumps(record, ensure_ascii=False)}"
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"


def _csv(documents: Iterable[Document], ranks: Ranks | None = None) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.DictWriter(line, COLUMNS if ranks is None else (*RANKED, *COLUMNS), lineterminator="\n")
    writer.writeheader()
    for record in chain([None], _records(documents, ranks)):
        if record is not None:
            writer.writerow({name: _cell(name, value) for name, value in record.items() if name in writer.fieldnames})
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def _cell(name: str, value: Any) -> Any:
    if name not in LISTS:
        return value
    joined = (BETWEEN_NOTICES if name == "notices" else BETWEEN_VALUES).join(value)
    return f"{joined};" if len(value) == 1 and "," in joined and name != "notices" else joined  # one value, not several


def _title(document: Document) -> str:
    """The title, in brackets as at PubMed where it is a translation."""
    return (
        f"[{document.title}]."
        if document.title and texts(document.metadata or {}, "original_title")
        else document.title
    )


def _names(document: Document) -> list[tuple[str, str]]:
    """Each author as ``Smith JA`` and ``Smith, John A``; a group has twice its name."""
    metadata = document.metadata or {}
    authors, full = texts(metadata, "authors"), texts(metadata, "full_names")
    if len(full) == len(authors):
        return list(zip(authors, full))
    names = []
    for author in authors:
        name, suffix = without_suffix(author)
        surname, _, initials = name.rpartition(" ")
        full_name = f"{surname}, {initials} {suffix}".rstrip()
        names.append((author, full_name if surname and INITIALS.fullmatch(initials) else author))
    return names


def _joined(document: Document, separator: str = BETWEEN_VALUES) -> dict[str, str]:
    """The texts of each entry of the metadata as one."""
    return {name: separator.join(texts(document.metadata or {}, name)) for name in NAMES - NOT_TEXTS}


def _ris(documents: Iterable[Document], ranks: Ranks | None = None) -> Iterator[str]:
    with naming_extras("writing RIS"):
        import rispy

    class Writer(rispy.RisWriter):
        def set_header(self, count: int) -> str:
            return ""  # otherwise a number, which other programs take for text

    for document in documents:
        of = _joined(document)
        pmid = AT_PUBMED.fullmatch(of["url"])
        first_page, _, last_page = of["pages"].partition("-")
        fields = {
            "type_of_reference": "JOUR", "id": document.id, "title": _title(document), "abstract": document.abstract,
            "authors": [f"{full}," if author == full else full for author, full in _names(document)],
            "year": of["date"][:4],
            "date": of["date"].replace("-", "/"), "alternate_title1": of["journal"],
            "secondary_title": of["full_journal_title"] or of["journal"], "volume": of["volume"], "number": of["issue"],
            "start_page": first_page, "end_page": last_page, "issn": of["issn"], "doi": of["doi"],
            "custom2": of["pmc"], "author_address": of["affiliation"], "language": of["languages"],
            "type_of_work": of["types"], "keywords": texts(document.metadata or {}, "keywords"),
            "translated_title": of["original_title"], "urls": [of["url"]] if of["url"] else [],
            "accession_number": pmid[1] if pmid else "", "name_of_database": "PubMed" if pmid else "",
        }  # fmt: skip
        record = {name: value for name, value in fields.items() if value}
        yield rispy.dumps([record], implementation=Writer, enforce_list_tags=False).lstrip() + "\n"


def _nbib(documents: Iterable[Document], ranks: Ranks | None = None) -> Iterator[str]:
    for document in documents:
        metadata = document.metadata or {}
        lines = [("PMID", document.id), *(("TI", text) for text in [_title(document)] if text)]
        one = {"VI": "volume", "IP": "issue", "PG": "pages", "PMC": "pmc", "TA": "journal",
               "JT": "full_journal_title", "LA": "languages", "PT": "types", "TT": "original_title",
               "OT": "keywords", "OAB": "other_abstract"}  # fmt: skip
        lines += [("DP", _medline_date(date)) for date in texts(metadata, "date")]
        lines += [("AB", document.abstract)] if document.abstract else []
        for author, full in _names(document):
            names = [("FAU", full), ("AU", author)] if "full_names" in metadata else [("AU", author)]
            lines += [("CN", author)] if author == full else names
        lines += [("AD", text) for text in texts(metadata, "affiliation")]
        lines += [(tag, text) for tag, name in one.items() for text in texts(metadata, name)]
        lines += [(tag, f"{doi} [doi]") for doi in texts(metadata, "doi") for tag in ("LID", "AID")]
        lines += [("IS", f"{issn} (Print)") for issn in texts(metadata, "issn")]
        lines += [("DEP", date.replace("-", "")) for date in texts(metadata, "electronic_date")]
        lines += [("EDAT", date.replace("-", "/")) for date in texts(metadata, "entry_date")]
        lines += [("CRDT", date.replace("-", "/")) for date in texts(metadata, "create_date")]
        chemicals, numbers = texts(metadata, "chemicals"), texts(metadata, "registry_numbers")
        numbers = numbers if len(numbers) == len(chemicals) else ["0"] * len(chemicals)
        lines += [("RN", f"{number} ({name})") for number, name in zip(numbers, chemicals)]
        major, pairs = {*texts(metadata, "major_topics")}, texts(metadata, "subheadings")
        for name in texts(metadata, "mesh"):
            qualifiers = [pair[len(name) :] for pair in pairs if pair.startswith(f"{name}/")]
            lines.append(("MH", f"{'*' if name in major else ''}{name}{''.join(qualifiers)}"))
        tags = {kind: tag for tag, kind in NOTICES.items()}
        for notice in texts(metadata, "notices"):
            kind, _, source = notice.partition(": ")
            lines += [(tags[kind], source)] if kind in tags else []
        yield "".join(f"{tag:<4}- {_SPACE.sub(' ', text)}\n" for tag, text in lines) + "\n"


def _medline_date(date: str) -> str:
    """``2019 Mar 14`` of ``2019-03-14``."""
    year, *rest = date.split("-")
    return " ".join((year, *(MONTHS[int(month) - 1] for month in rest[:1]), *(day.lstrip("0") for day in rest[1:])))


def _bibtex(documents: Iterable[Document], ranks: Ranks | None = None) -> Iterator[str]:
    for document in documents:
        of = _joined(document, ", ")
        year, *month = of["date"].split("-")[:2]
        pmid = AT_PUBMED.fullmatch(of["url"])
        fields = {
            "title": _title(document), "journal": of["full_journal_title"] or of["journal"], "year": year,
            "volume": of["volume"], "number": of["issue"], "pages": of["pages"].replace("-", "--"), "issn": of["issn"],
            "language": of["languages"], "keywords": of["keywords"], "pmcid": of["pmc"],
            "pmid": pmid[1] if pmid else "", "abstract": document.abstract,
        }  # fmt: skip
        names = (f"{{{_tex(full)}}}" if author == full else _tex(full) for author, full in _names(document))
        written = {
            "author": " and ".join(names), **{name: _tex(text) for name, text in fields.items()},
            "month": MONTHS[int(month[0]) - 1].lower() if month else "", "doi": of["doi"], "url": of["url"],
        }  # fmt: skip
        lines = "".join(f"  {name} = {{{text}}},\n" for name, text in written.items() if text)
        yield f"@article{{{re.sub('[^A-Za-z0-9:._/-]', '_', document.id)},\n{lines}}}\n\n"


def _tex(text: str) -> str:
    """The text with TeX's special characters written as text."""
    return _SPACE.sub(" ", "".join(_TEX.get(mark, mark) for mark in text))


EXPORTS = {
    "ris": Export(_ris, "application/x-research-info-systems"),
    "nbib": Export(_nbib, "application/nbib"),
    "bibtex": Export(_bibtex, "application/x-bibtex"),
    "csv": Export(_csv, "text/csv"),
    "json": Export(_json, "application/json"),
}
_BEGINNING = re.compile(
    r'(?:TY  - JOUR\nID  - |PMID- .*\n(?!OWN)|@article\{\S+,\n  |rank,score,id,title,|\[\n\{"rank": |\[\]\n)'
)
EXPORTED = FileKind(
    "a list of documents", lambda path: bool(_BEGINNING.match(beginning(path).decode(errors="replace")))
)
