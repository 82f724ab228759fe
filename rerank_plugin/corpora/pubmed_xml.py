"""PubMed/MEDLINE XML as the U.S. National Library of Medicine publishes it.

Format: https://dtd.nlm.nih.gov/ncbi/pubmed/ (pubmed_190101.dtd and later), also the older MedlineCitationSet, and book
articles. The yearly baseline and the daily update files are numbered consecutively; a changed article appears again in
a later file, and ``DeleteCitation`` names withdrawn articles. Some articles have several versions, numbered at the
PMID, of which the highest is current; a deletion names one version, or without a number all. So a collection is read
twice: first for PMIDs and versions only, into arrays of 5 bytes an article, to find the record of each article; then
for the texts of these records. A pipe is kept in a temporary file meanwhile.

The title is ArticleTitle, else BookTitle, else VernacularTitle, without the brackets that mark a translated title. The
abstract is every AbstractText with its label (``METHODS: ...``), or without any those of an OtherAbstract, which
otherwise repeats it in other words or languages: in English if there is one. The journal is its abbreviation; the date
is the date of the issue, or else of the article online. The entry date (``[edat]``) is that of PubMed's ``pubmed``, the
create date (``[crdt]``) that of its ``entrez``, as NLM's DTD says; or else that of the MEDLINE record.

Files are untrusted: `xml_records` reads them. A malformed file is read again from its beginning by
`well_formed_records`, which loses only the damaged records. Entities other than XML's own five are not
expanded; the missing text is reported.
"""

from __future__ import annotations

import logging
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import PMID_VERSION
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.metadata import DOI, LONG, LONGEST, ImpossibleDate, pubmed_address, read_date
from rerank_plugin.corpora.problems import MALFORMED_XML, NOT_PUBMED, UNEXPANDED, UNUSABLE_METADATA, Problems, usable
from rerank_plugin.corpora.records import NO_ABSTRACT, Deletion, DocumentStream
from rerank_plugin.corpora.xml_records import MalformedXmlError, Records, well_formed_records
from rerank_plugin.corpora.xml_text import text_of
from rerank_plugin.files.text_files import DAMAGED, damaged, open_bytes, rereadable
from rerank_plugin.text.markup import without_brackets

log = logging.getLogger(__name__)

ARTICLES = ("PubmedArticle", "PubmedBookArticle", "MedlineCitation")
DELETIONS = ("DeleteCitation", "DeleteDocument")
TITLES = ("ArticleTitle", "Book/BookTitle", "VernacularTitle")
ABSTRACT, OTHER_ABSTRACT, ENGLISH = "Abstract/AbstractText", "OtherAbstract", ("eng", "en")
NO_TITLE = ("Not Available", "In Process Citation")  # NLM's placeholders, in brackets, for a missing English title
NO_LABEL = "UNLABELLED"
DATES = ("Journal/JournalIssue/PubDate", "ArticleDate", "Book/PubDate", "ContributionDate")
JOURNALS = ("Article/Journal/ISOAbbreviation", "MedlineJournalInfo/MedlineTA", "Article/Journal/Title")
TEXTS = {
    "full_journal_title": "Article/Journal/Title",
    "issn": "Article/Journal/ISSN",
    "volume": "Article/Journal/JournalIssue/Volume",
    "issue": "Article/Journal/JournalIssue/Issue",
    "pages": "Article/Pagination/MedlinePgn",
}
AFFILIATION = "AffiliationInfo/Affiliation"
CITATIONS = ("MedlineCitation", "BookDocument")
NAMES = frozenset(("LastName", "ForeName", "Initials", "Suffix", "CollectiveName"))
PARENTS = frozenset(
    "MedlineCitation BookDocument Book Article Abstract AuthorList Journal JournalIssue Pagination MedlineJournalInfo "
    "MeshHeadingList ChemicalList SupplMeshList KeywordList PublicationTypeList CommentsCorrectionsList PubmedData "
    "PubmedBookData History ArticleIdList".split()
)  # of elements that are read; others, such as ReferenceList, may be long
_OWN_PMID = re.compile(rb"<(?:MedlineCitation|BookDocument)\b[^>]*>\s*<PMID\b[^>]*>\s*(\d{1,9})\s*</PMID>")
PMIDS_BLOCK = 1 << 23  # bytes that are searched at once
_CAPITAL = re.compile("[A-Z]")
EVERY_VERSION, LAST_VERSION = 0, 255

SETS = ("PubmedArticleSet", "PubmedBookArticleSet", "MedlineCitationSet")  # roots that may be empty


def documents(paths: Sequence[Path], problems: Problems, ids_required: bool = True) -> DocumentStream:
    """Stream the current version of every article that was not deleted, in the order of ``paths``."""
    deletions: list[Deletion] = []

    def stream() -> Iterator[Document]:
        with rereadable(paths):
            yield from _documents(paths, problems, ids_required, deletions)

    return DocumentStream(stream(), [deletions])


def _documents(
    paths: Sequence[Path], problems: Problems, ids_required: bool, deletions: list[Deletion]
) -> Iterator[Document]:
    last, broken = _last_versions(paths, problems, deletions)
    log.info("%d articles, of which %d superseded or deleted", len(last), last.count(0))
    position = 0
    for path in paths:
        try:
            for record in _records(path, broken.get(path), Problems()):  # the first reading reported the problems
                if record.tag in DELETIONS:
                    continue
                if position == len(last):
                    raise _changed(path)
                if last[position]:
                    document = _document(record, path, problems, ids_required)
                    if document is not None:
                        yield document
                position += 1
        except MalformedXmlError:  # the file was well-formed at the first reading
            raise _changed(path) from None
    if position < len(last):
        raise _changed(paths[-1])


def _records(path: Path, error: MalformedXmlError | None, problems: Problems) -> Iterator[Any]:
    """The articles and deletions of a file, in order; each is freed when the next is requested.

    A malformed file raises `MalformedXmlError`: read it again from its beginning, with this ``error``.
    """
    try:
        if error is not None:
            yield from well_formed_records(path, error, lambda where: problems.add(MALFORMED_XML, where))
            return
        records, empty = Records(path, *ARTICLES, *DELETIONS), True
        for record in records:
            empty = False
            parent = record.getparent()
            if record.tag != "MedlineCitation" or parent is None or parent.tag != "PubmedArticle":
                yield record
        if empty and (records.root.tag not in SETS or len(records.root)):
            problems.add(NOT_PUBMED, f"{path} (<{records.root.tag}>)")
    except DAMAGED as damage:
        problems.add(damaged(path), f"{path} ({damage})")


def _last_versions(
    paths: Sequence[Path], problems: Problems, named: list[Deletion]
) -> tuple[bytes, dict[Path, MalformedXmlError]]:
    """The current records, and the malformed files; the deletions are added to ``named``.

    The first is a byte per article in reading order: 1 for the last record of the highest version of its PMID, of those
    that are not deleted later. Articles without a usable PMID are kept: the second reading reports them.
    """
    read, versions = array("I"), array("B")  # PMIDs in reading order, 0 for an unusable PMID, and their versions
    deletions: list[tuple[int, int, int]] = []  # PMID and version, and the number of articles read before
    broken: dict[Path, MalformedXmlError] = {}

    def read_pmids(path: Path) -> None:
        for record in _records(path, broken.get(path), problems):
            if record.tag in DELETIONS:
                for pmid in record.iter("PMID"):
                    deletions.append((number(_pmid(pmid)), _version(pmid, EVERY_VERSION), len(read)))
            else:
                pmid = _citation(record).find("PMID")
                read.append(number(_pmid(pmid)))
                versions.append(_version(pmid, 1))

    for path in paths:
        articles, deleted = len(read), len(deletions)
        try:
            read_pmids(path)
        except MalformedXmlError as error:
            # Both readings use the same parser for all of a malformed file, so that they agree on its articles.
            broken[path] = error
            del read[articles:], versions[articles:], deletions[deleted:]
            read_pmids(path)

    named += [Deletion(str(pmid), version or None) for pmid, version, _ in deletions if pmid]
    pmids = np.array(read, dtype=np.uint32)  # [n articles]
    keys = pmids.astype(np.uint64) << 8 | np.array(versions, dtype=np.uint8)  # [n articles]
    distinct, last = np.unique(keys[::-1], return_index=True)  # reversed: the first index is the last record
    last = len(keys) - 1 - last
    current = np.ones(len(distinct), dtype=bool)
    for pmid, version, read_before in deletions:
        first_key, last_key = (pmid << 8 | number for number in (version, version or LAST_VERSION))
        rows = slice(*np.searchsorted(distinct, np.array([first_key, last_key + 1], np.uint64)).tolist())
        current[rows] &= last[rows] >= read_before
    distinct, last = distinct[current] >> 8, last[current]
    keep = np.zeros(len(pmids), dtype=bool)
    keep[last[np.append(distinct[1:] != distinct[:-1], True)] if len(last) else last] = True
    keep[pmids == 0] = True
    return keep.tobytes(), broken


def pmids(path: Path) -> np.ndarray:
    """The PMIDs of the articles of a file as the U.S. National Library of Medicine writes it, uint32 [n], in its order.

    No tree is built: a PMID is the first element of its citation or book.
    """
    found, begun = array("I"), b""
    with open_bytes(path) as file:
        while data := file.read(PMIDS_BLOCK):
            data = begun + data
            end = max(data.rfind(b"<MedlineCitation"), data.rfind(b"<BookDocument"), 0)  # which may be cut off
            found.extend(map(int, _OWN_PMID.findall(data, 0, end)))
            begun = data[end:]
    found.extend(map(int, _OWN_PMID.findall(begun)))
    return np.array(found, np.uint32)


def _version(pmid: Any, otherwise: int) -> int:
    """The version of a PMID element, at most `LAST_VERSION`."""
    version = number("" if pmid is None else pmid.get("Version", "").strip())
    return min(version, LAST_VERSION) or otherwise


def _changed(path: Path) -> InputError:
    return InputError(f"{path}: the file changed while it was read: start again when it is complete")


def number(pmid: str) -> int:
    """A PMID as a number; 0 for another text, or one that is too long."""
    return int(pmid) if pmid.isascii() and pmid.isdigit() and len(pmid) < 10 else 0


def _citation(record: Any) -> Any:
    """The parent of the PMID: the citation of an article, the document of a book, or the record itself."""
    children = map(record.find, CITATIONS)
    return next((child for child in children if child is not None), record)


class _Elements:
    """The elements of a record by path, from one walk: searching for each of some sixty takes twice as long.

    Attributes:
        citation, article: prefixes of paths of the parent of the PMID, and of that of the title: the document of a book
            has the same elements as an article without this level.
    """

    def __init__(self, record: Any):
        self.paths = dict[str, list[Any]]()
        self._walk(record, "")
        self.citation = next((f"{name}/" for name in CITATIONS if name in self.paths), "")
        article = f"{self.citation}Article"
        self.article = f"{article}/" if article in self.paths else self.citation

    def _walk(self, parent: Any, path: str) -> None:
        for child in parent:
            if isinstance(child.tag, str):  # otherwise an unexpanded entity
                of_child = path + child.tag
                self.paths.setdefault(of_child, []).append(child)
                if child.tag in PARENTS:
                    self._walk(child, f"{of_child}/")

    def of_citation(self, path: str) -> Sequence[Any]:
        return self.paths.get(self.citation + path, ())

    def of_article(self, path: str) -> Sequence[Any]:
        return self.paths.get(self.article + path, ())

    def numbers(self, kind: str) -> Iterator[Any]:
        """The elements with an identifier of this kind beside the PMID, as ``doi``."""
        for parent in dict.fromkeys((self.citation, "PubmedData/", "PubmedBookData/", "")):
            for element in self.paths.get(f"{parent}ArticleIdList/ArticleId", ()):
                if element.get("IdType") == kind:
                    yield element

    def history(self, status: str) -> Sequence[Any]:
        """The date at which the record got a status, if it says so."""
        dates = self.paths.get("PubmedData/History/PubMedPubDate", ())
        return [date for date in dates if date.get("PubStatus") == status][:1]


def _pmid(pmid: Any) -> str:
    """The text of a PMID element; "" for None and for a PMID with an entity: the rest may be another article's PMID."""
    return "" if pmid is None or len(pmid) else (pmid.text or "").strip()


def _document(record: Any, path: Path, problems: Problems, ids_required: bool) -> Document | None:
    elements = _Elements(record)
    pmid = _pmid(next(iter(elements.of_citation("PMID")), None))
    title, sections = _title(elements), _sections(elements)
    where = f"{path}: PMID {pmid}" if pmid else f"{path}: {title[:60]!r}"
    abstract = _abstract(sections)
    metadata, unusable = _metadata(elements, pmid, title, abstract)
    document = usable(pmid, title, abstract, where, problems, ids_required, metadata)
    if document is not None:
        if entities := _entities(record, elements, sections):
            problems.add(UNEXPANDED, f"{where} ({', '.join(entities)})")
        for name in unusable:
            problems.add(UNUSABLE_METADATA, f"{where} ({name})")
    return document


def _metadata(elements: _Elements, pmid: str, title: str, abstract: str) -> tuple[dict[str, Any], list[str]]:
    """The metadata of an article, in the form of :mod:`rerank_plugin.base.filters`, and its unreadable dates."""
    of_citation, of_article = elements.of_citation, elements.of_article
    types = _texts([*of_article("PublicationTypeList/PublicationType"), *of_article("PublicationType")])
    notes = of_citation("CommentsCorrectionsList/CommentsCorrections")
    date, unusable = _date(elements)
    dois = [element for element in of_citation("Article/ELocationID") if element.get("EIdType") == "doi"]
    valid = (element for element in (*dois, *elements.numbers("doi")) if element.get("ValidYN") != "N")
    headings = [
        (name, parts)
        for parts in map(_texts_by_name, of_citation("MeshHeadingList/MeshHeading"))
        for name, _ in parts.get("DescriptorName", ())
    ]
    chemicals = dict[str, str]()  # and their registry numbers
    for parts in map(_texts_by_name, of_citation("ChemicalList/Chemical")):
        for name, _ in parts.get("NameOfSubstance", ()):
            chemicals[name] = next((number for number, _ in parts.get("RegistryNumber", ())), "0")
    for name in _texts(of_citation("SupplMeshList/SupplMeshName")):  # diseases and protocols
        chemicals.setdefault(name, "0")
    authors = [_author(author) for author in of_article("AuthorList/Author")]
    created = (*elements.history("entrez"), *of_citation("DateCreated"))
    metadata = {
        "date": date,
        "journal": next((text for path in JOURNALS for text in _texts(of_citation(path))), ""),
        "authors": [short for short, _ in authors if short],
        "full_names": [full for _, full in authors if full] if any(", " in full for _, full in authors) else [],
        "mesh": [name for name, _ in headings],
        "major_topics": [
            name
            for name, parts in headings
            if any(part.get("MajorTopicYN") == "Y" for named in parts.values() for _, part in named)
        ],
        "subheadings": [
            f"{name}/{qualifier}"[:LONGEST]
            for name, parts in headings
            for qualifier, _ in parts.get("QualifierName", ())
        ],
        "types": types,
        "languages": _texts(of_article("Language")),
        "retracted": "Retracted Publication" in types or any(note.get("RefType") == "RetractionIn" for note in notes),
        "notices": [notice for note in notes if (notice := _notice(note))],
        "electronic_date": _day(of_article("ArticleDate")[:1]),
        "chemicals": list(chemicals),
        "registry_numbers": list(chemicals.values()) if any(number != "0" for number in chemicals.values()) else [],
        "entry_date": _day((*elements.history("pubmed"), *created)),
        "create_date": _day(created),
        "pmc": next(iter(_texts(elements.numbers("pmc"))), ""),
        "original_title": _original_title(elements, title),
        "other_abstract": _other_abstract(elements, abstract),
        "url": pubmed_address(pmid),
        "doi": next((match[0] for match in map(DOI.search, _texts(valid)) if match), ""),
        "keywords": list(dict.fromkeys(_texts(of_citation("KeywordList/Keyword")))),
        "affiliation": next(
            (text for author in of_article("AuthorList/Author")[:1] for text in _texts(author.iterfind(AFFILIATION))),
            "",
        ),
        PMID_VERSION: _version(next(iter(of_citation("PMID")), None), 0) or None,
    }
    metadata |= {name: next(iter(_texts(of_citation(path))), "") for name, path in TEXTS.items()}
    if metadata["full_journal_title"] == metadata["journal"]:
        del metadata["full_journal_title"]
    return {name: value for name, value in metadata.items() if value not in ("", [], None)}, unusable


def _texts(elements: Iterable[Any]) -> list[str]:
    """The non-empty texts of elements, cut to `LONGEST`."""
    return [text[:LONGEST] for text in map(text_of, elements) if text]


def _texts_by_name(element: Any) -> dict[str, list[tuple[str, Any]]]:
    """The non-empty texts of an element's children with these children, by name."""
    texts = dict[str, list[tuple[str, Any]]]()
    for child in element.iterchildren("{*}*"):
        if text := text_of(child)[:LONGEST]:
            texts.setdefault(child.tag, []).append((text, child))
    return texts


def _author(author: Any) -> tuple[str, str]:
    """The name of an author, ``King ML Jr`` and with first names ``King, Martin L Jr``, or twice that of a group."""
    of = {name: text for child in author if (name := child.tag) in NAMES and (text := text_of(child)[:LONGEST])}
    last, group, suffix = of.get("LastName"), of.get("CollectiveName"), of.get("Suffix")

    def joined(separator: str, given: str | None) -> str:
        name = separator.join(filter(None, (last, given, group)))
        return f"{name} {suffix}" if name and suffix else name

    return joined(" ", of.get("Initials")), joined(", ", of.get("ForeName"))


def _notice(note: Any) -> str:
    """``Retraction in: J Test. 2020;1(2):3. PMID: 12`` of a reference to another article."""
    kind = _CAPITAL.sub(lambda word: f" {word[0].lower()}", note.get("RefType", "")).strip().capitalize()
    sources, pmid = _texts(note.iterfind("RefSource")), _pmid(note.find("PMID"))
    parts = [*(source.rstrip(".") for source in sources), *([f"PMID: {pmid}"] if pmid else [])]
    return f"{kind}: {'. '.join(parts)}"[:LONGEST] if kind and parts else ""


def _day(dates: Iterable[Any]) -> str:
    """The first day in numbers of these dates that is in the calendar; "" for none."""
    for date in dates:
        parts = [(date.findtext(name) or "").strip() for name in ("Year", "Month", "Day")]
        with suppress(ImpossibleDate):
            if all(parts):
                return read_date("-".join(parts))
    return ""


def _date(elements: _Elements) -> tuple[str, list[str]]:
    """The first date of `DATES` that can be read, if only in part, or "", and the name of the entry if one cannot."""
    unusable: list[str] = []
    for element in (date for path in DATES for date in elements.of_article(path)[:1]):
        year, month, day = ((element.findtext(name) or "").strip() for name in ("Year", "Month", "Day"))
        text = year and ("-" if month.isdigit() else " ").join(filter(None, (year, month, day)))
        text = text or " ".join((element.findtext("MedlineDate") or "").split())
        try:
            if text:
                return read_date(text), unusable
        except ImpossibleDate as error:
            unusable = ["date"]
            if error.readable:
                return error.readable, unusable
    return "", unusable


def _entities(record: Any, elements: _Elements, sections: Sequence[Any]) -> list[str]:
    """The entities in the title and the abstract of an article, as ``&alpha;``."""
    if next(record.iter(etree.Entity), None) is None and not any(map(len, sections)):  # nearly always, and fast
        return []
    titles = (element for name in TITLES for element in elements.of_article(name))
    of_texts = (element for element in (*titles, *sections) if len(element))
    return list(dict.fromkeys(entity.text for element in of_texts for entity in element.iter(etree.Entity)))


def _title(elements: _Elements) -> str:
    for name in TITLES:
        for element in elements.of_article(name)[:1]:
            title = without_brackets(text_of(element))
            if title and title not in NO_TITLE:
                return title
    return ""


def _original_title(elements: _Elements, title: str) -> str:
    """The title in the language of the article, where it has another title, too."""
    for text in _texts(elements.of_article("VernacularTitle")):
        original = without_brackets(text)
        return "" if original == title else original
    return ""


def _other_abstract(elements: _Elements, shown: str) -> str:
    """The abstracts in other words or languages beside that of the document, as one text."""
    texts = (_abstract(other.findall("AbstractText")) for other in elements.of_citation(OTHER_ABSTRACT))
    return " ".join(text for text in texts if text not in ("", NO_ABSTRACT, shown))[: LONG["other_abstract"]]


def _sections(elements: _Elements) -> Sequence[Any]:
    """The elements of the abstract's text."""
    sections = elements.of_article(ABSTRACT)
    if any(len(section) or text_of(section) for section in sections):
        return sections
    others = [
        (other.get("Language", ENGLISH[0]).lower() not in ENGLISH, sections)
        for other in elements.of_citation(OTHER_ABSTRACT)
        if " ".join(map(text_of, (sections := other.findall("AbstractText")))).strip() not in ("", NO_ABSTRACT)
    ]
    return min(others, key=lambda other: other[0], default=(False, []))[1]


def _abstract(sections: Iterable[Any]) -> str:
    texts = []
    for section in sections:
        text = text_of(section)
        # Attributes cannot have external entities, and libxml2 limits the expansion of internal ones.
        label = section.get("Label", "").strip().rstrip(":")
        if text:
            texts.append(f"{label}: {text}" if label and label != NO_LABEL else text)
    return " ".join(texts)
