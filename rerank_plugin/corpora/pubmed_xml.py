"""PubMed/MEDLINE XML as the U.S. National Library of Medicine publishes it.

Format: https://dtd.nlm.nih.gov/ncbi/pubmed/ (pubmed_190101.dtd and later), also the older MedlineCitationSet, and book
articles. The yearly baseline and the daily update files are numbered consecutively; a changed article appears again in
a later file, and ``DeleteCitation`` names withdrawn articles. So a collection is read twice: first for the PMIDs only,
into arrays of 4 bytes an article, to find the last version of each article; then for the texts of these versions.

The title is ArticleTitle, else BookTitle, else VernacularTitle, without the brackets that mark a translated title. The
abstract is every AbstractText with its label (``METHODS: ...``), not OtherAbstract, which repeats it in other words or
languages. The journal is its abbreviation; the date is the date of the issue, or else of the article online.

Files are untrusted: `safe_xml` reads them. A malformed file is read again from its beginning by `broken_xml`, which
loses only the damaged records. Entities other than XML's own five are not expanded; the missing text is reported.
"""

from __future__ import annotations

import logging
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora import broken_xml
from rerank_plugin.corpora.metadata import LONGEST, pubmed_address
from rerank_plugin.corpora.problems import DAMAGED_GZIP, MALFORMED_XML, NOT_PUBMED, UNEXPANDED, Problems, usable
from rerank_plugin.corpora.safe_xml import Malformed, Records
from rerank_plugin.files.text_files import DAMAGED

log = logging.getLogger(__name__)

ARTICLES = ("PubmedArticle", "PubmedBookArticle", "MedlineCitation")
DELETIONS = ("DeleteCitation", "DeleteDocument")
TITLES, ABSTRACT = ("ArticleTitle", "Book/BookTitle", "VernacularTitle"), "Abstract/AbstractText"
NO_TITLE = ("Not Available", "In Process Citation")  # NLM's placeholders, in brackets, for a missing English title
NO_LABEL = "UNLABELLED"
DATES = ("Journal/JournalIssue/PubDate", "ArticleDate", "Book/PubDate")
JOURNALS = ("Article/Journal/ISOAbbreviation", "MedlineJournalInfo/MedlineTA", "Article/Journal/Title")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

SETS = ("PubmedArticleSet", "PubmedBookArticleSet", "MedlineCitationSet")  # roots that may be empty


def documents(paths: Sequence[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the last version of every article that was not deleted, in the order of ``paths``."""
    last, broken = _last_versions(paths, problems)
    log.info("%d articles in %d files, of which %d superseded or deleted", len(last), len(paths), last.count(0))
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
        except Malformed:  # the file was well-formed at the first reading
            raise _changed(path) from None
    if position < len(last):
        raise _changed(paths[-1])


def _records(path: Path, error: Malformed | None, problems: Problems) -> Iterator[Any]:
    """The articles and deletions of a file, in order; each is freed when the next is requested.

    A malformed file raises `Malformed`: read it again from its beginning, with this ``error``.
    """
    try:
        if error is not None:
            yield from broken_xml.records(path, error, lambda where: problems.add(MALFORMED_XML, where))
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
        problems.add(DAMAGED_GZIP, f"{path} ({damage})")


def _last_versions(paths: Sequence[Path], problems: Problems) -> tuple[bytes, dict[Path, Malformed]]:
    """The last versions, and the malformed files.

    The first is a byte per article in reading order: 1 for the last article with its PMID, unless it is deleted later.
    Articles without a usable PMID are kept: the second reading reports them.
    """
    read = array("I")  # PMIDs in reading order, 0 for an unusable PMID
    deleted, after = array("I"), array("Q")  # deleted PMIDs, and the number of articles read before each
    broken: dict[Path, Malformed] = {}

    def read_pmids(path: Path) -> None:
        for record in _records(path, broken.get(path), problems):
            if record.tag in DELETIONS:
                for pmid in record.iter("PMID"):
                    deleted.append(_number(_pmid(pmid)))
                    after.append(len(read))
            else:
                read.append(_number(_pmid(_citation(record).find("PMID"))))

    for path in paths:
        articles, deletions = len(read), len(deleted)
        try:
            read_pmids(path)
        except Malformed as error:
            # Both readings use the same parser for all of a malformed file, so that they agree on its articles.
            broken[path] = error
            del read[articles:], deleted[deletions:], after[deletions:]
            read_pmids(path)

    pmids = np.array(read, dtype=np.uint32)  # [n articles]
    distinct, last = np.unique(pmids[::-1], return_index=True)  # reversed: the first index is the last article
    last = len(pmids) - 1 - last
    keep = np.zeros(len(pmids), dtype=bool)
    keep[last] = True
    if len(distinct) and len(deleted):
        deleted_pmids, read_before = np.array(deleted, dtype=np.uint32), np.array(after, dtype=np.uint64)
        rows = np.minimum(np.searchsorted(distinct, deleted_pmids), len(distinct) - 1)
        outdated = (distinct[rows] == deleted_pmids) & (last[rows].astype(np.uint64) < read_before)
        keep[last[rows[outdated]]] = False
    keep[pmids == 0] = True
    return keep.tobytes(), broken


def _changed(path: Path) -> InputError:
    return InputError(f"{path}: the file changed while it was read: start again when it is complete")


def _number(pmid: str) -> int:
    return int(pmid) if pmid.isascii() and pmid.isdigit() and len(pmid) < 10 else 0


def _citation(record: Any) -> Any:
    """The parent of the PMID: the citation of an article, the document of a book, or the record itself."""
    children = map(record.find, ("MedlineCitation", "BookDocument"))
    return next((child for child in children if child is not None), record)


def _pmid(pmid: Any) -> str:
    """The text of a PMID element; "" for None and for a PMID with an entity: the rest may be another article's PMID."""
    return "" if pmid is None or len(pmid) else (pmid.text or "").strip()


def _document(record: Any, path: Path, problems: Problems, ids_required: bool) -> Document | None:
    citation = _citation(record)
    article = citation.find("Article")
    if article is None:  # the document of a book has the same elements without this level
        article = citation
    pmid = _pmid(citation.find("PMID"))
    title = _title(article)
    where = f"{path}: PMID {pmid}" if pmid else f"{path}: {title[:60]!r}"
    document = usable(
        pmid, title, _abstract(article), where, problems, ids_required, _metadata(citation, article, pmid)
    )
    entities = _entities(article) if document is not None else []
    if entities:
        problems.add(UNEXPANDED, f"{where} ({', '.join(entities)})")
    return document


def _metadata(citation: Any, article: Any, pmid: str) -> dict[str, Any]:
    """The metadata of an article, in the form of :mod:`rerank_plugin.base.filters`."""
    types = _texts(article.iter("PublicationType"))
    notes = citation.iterfind("CommentsCorrectionsList/CommentsCorrections")
    metadata = {
        "date": next(filter(None, map(_date, (article.find(path) for path in DATES))), ""),
        "journal": next((text for path in JOURNALS for text in _texts(citation.iterfind(path))), ""),
        "authors": [name for author in article.iterfind("AuthorList/Author") if (name := _author(author))],
        "mesh": _texts(citation.iterfind("MeshHeadingList/MeshHeading/DescriptorName")),
        "types": types,
        "languages": _texts(article.iterfind("Language")),
        "retracted": "Retracted Publication" in types or any(note.get("RefType") == "RetractionIn" for note in notes),
        "url": pubmed_address(pmid),
    }
    return {name: value for name, value in metadata.items() if value not in ("", [], None)}


def _texts(elements: Iterable[Any]) -> list[str]:
    """The non-empty texts of elements, cut to `LONGEST`."""
    return [text[:LONGEST] for text in map(_text, elements) if text]


def _author(author: Any) -> str:
    """The name of an author, ``Smith JA``, or of a group."""
    return " ".join(
        name for path in ("LastName", "Initials", "CollectiveName") for name in _texts(author.iterfind(path))
    )


def _date(element: Any) -> str:
    """The date as ``2015``, ``2015-03`` or ``2015-03-02``, from its elements or a text such as ``2015 Mar-Apr``."""
    if element is None:
        return ""
    year, month, day = ((element.findtext(name) or "").strip() for name in ("Year", "Month", "Day"))
    if not year:
        year, month = (*(element.findtext("MedlineDate") or "").replace("-", " ").split(), "", "")[:2]
    if not re.fullmatch("[0-9]{4}", year):
        return ""
    number = MONTHS.index(month[:3].title()) + 1 if month[:3].title() in MONTHS else _number(month)
    if not 1 <= number <= 12:
        return year
    return f"{year}-{number:02d}-{_number(day):02d}" if 1 <= _number(day) <= 31 else f"{year}-{number:02d}"


def _entities(article: Any) -> list[str]:
    """The entities in the title and the abstract of an article, as ``&alpha;``."""
    if next(article.iter(etree.Entity), None) is None:  # nearly always, and fast
        return []
    elements = (element for name in (*TITLES, ABSTRACT) for element in article.iterfind(name) if len(element))
    return list(dict.fromkeys(entity.text for element in elements for entity in element.iter(etree.Entity)))


def _title(article: Any) -> str:
    for name in TITLES:
        element = article.find(name)
        title = "" if element is None else _without_brackets(_text(element))
        if title and title not in NO_TITLE:
            return title
    return ""


def _without_brackets(title: str) -> str:
    """``[Translated title].`` without its brackets; ``[18F]FDG in [11C].``, which is not one bracket, is unchanged."""
    match = re.fullmatch(r"\[(.*)\]\.?", title)
    if not match:
        return title
    depth = 0
    for character in match[1]:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            return title
    return match[1].strip()


def _abstract(article: Any) -> str:
    sections = []
    for section in article.iterfind(ABSTRACT):
        text = _text(section)
        # Attributes cannot have external entities, and libxml2 limits the expansion of internal ones.
        label = section.get("Label", "").strip().rstrip(":")
        if text:
            sections.append(f"{label}: {text}" if label and label != NO_LABEL else text)
    return " ".join(sections)


def _text(element: Any) -> str:
    return " ".join(_inline(element).split())


def _inline(element: Any) -> str:
    """The text of an element and its inline markup: ``CO<sub>2</sub>`` becomes CO2, ``10<sup>6</sup>`` 10^6."""
    text = element.text or ""
    for child in element:
        if isinstance(child.tag, str):  # otherwise an unexpanded entity
            name = _local_name(child)
            if name == "math":
                text += f" {_math(child)} "
            elif name == "sup":
                text += _raised(text, _inline(child))
            else:
                text += _inline(child)
        text += child.tail or ""
    return text


def _raised(base: str, raised: str) -> str:
    power = re.fullmatch(r"\s*([+−–-]?)\s*(\d+)\s*", raised)
    if not power or not base[-1:].isdigit():
        return raised
    sign = "-" if power[1] in ("−", "–") else power[1]
    return f"^{sign}{power[2]}"


def _math(element: Any) -> str:
    """MathML as text: spaces between parts (``p < 0.05``), no space in indices and powers, a slash in fractions."""
    name = _local_name(element)
    if not len(element):
        return " ".join((element.text or "").translate(_INVISIBLE).split())
    # An annotation repeats the formula as TeX.
    children = (child for child in element if isinstance(child.tag, str) and "annotation" not in _local_name(child))
    parts = [part for part in map(_math, children) if part]
    if name in ("msub", "msup", "msubsup") and parts:
        base, *scripts = ("".join(part.split()) for part in parts)
        if name == "msup" and scripts:
            return base + _raised(base, scripts[0])
        return base + "".join(scripts)
    return ("/" if name == "mfrac" else " ").join(parts)


_INVISIBLE = dict.fromkeys(range(0x2061, 0x2065))  # MathML's invisible operators


def _local_name(element: Any) -> str:
    return re.split("[}:]", element.tag)[-1]
