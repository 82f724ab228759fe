"""PubMed/MEDLINE XML as the U.S. National Library of Medicine publishes it.

Format: https://dtd.nlm.nih.gov/ncbi/pubmed/ (pubmed_190101.dtd and later), also the older MedlineCitationSet, and book
articles. The yearly baseline and the daily update files are numbered through; an article that was changed appears
again in a later file, and ``DeleteCitation`` names articles that are withdrawn. So a collection is read twice: first
for the PMIDs only, into arrays of 4 bytes an article, to know which occurrence of an article is its last; then for the
texts of those.

The title is ArticleTitle, else BookTitle, else VernacularTitle; the brackets that mark a translated title are taken
off. The abstract is every AbstractText with its label (``METHODS: ...``), not OtherAbstract, which repeats it in other
words or languages. The journal is its abbreviation, and the date that of the issue, or else of the article online.

Files come from elsewhere: `safe_xml` says how they are read. A file that is not well-formed is read again from its
beginning, by `broken_xml`, which loses the damaged records only. An entity that is not one of XML's own five is not
expanded: the text that it stands for is missing, which is told.
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
NO_TITLE = ("Not Available", "In Process Citation")  # what NLM writes in brackets where there is no English title
NO_LABEL = "UNLABELLED"
DATES = ("Journal/JournalIssue/PubDate", "ArticleDate", "Book/PubDate")
JOURNALS = ("Article/Journal/ISOAbbreviation", "MedlineJournalInfo/MedlineTA", "Article/Journal/Title")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

SETS = ("PubmedArticleSet", "PubmedBookArticleSet", "MedlineCitationSet")  # roots that may hold nothing


def documents(paths: Sequence[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the last version of every article that was not deleted, in the order of the files given."""
    last, broken = _last_versions(paths, problems)
    log.info("%d articles in %d files, of which %d superseded or deleted", len(last), len(paths), last.count(0))
    position = 0
    for path in paths:
        try:
            for record in _records(path, broken.get(path), Problems()):  # which the first reading has told
                if record.tag in DELETIONS:
                    continue
                if position == len(last):
                    raise _changed(path)
                if last[position]:
                    document = _document(record, path, problems, ids_required)
                    if document is not None:
                        yield document
                position += 1
        except Malformed:  # it was sound when it was read first
            raise _changed(path) from None
    if position < len(last):
        raise _changed(paths[-1])


def _records(path: Path, error: Malformed | None, problems: Problems) -> Iterator[Any]:
    """The articles and deletions of a file, in order; each is freed when the next is requested.

    A file that is not well-formed raises `Malformed`: read it again from its beginning, with this ``error``.
    """
    try:
        if error is not None:
            yield from broken_xml.records(path, error, lambda where: problems.add(MALFORMED_XML, where))
            return
        records, none = Records(path, *ARTICLES, *DELETIONS), True
        for record in records:
            none = False
            parent = record.getparent()
            if record.tag != "MedlineCitation" or parent is None or parent.tag != "PubmedArticle":
                yield record
        if none and (records.root.tag not in SETS or len(records.root)):
            problems.add(NOT_PUBMED, f"{path} (<{records.root.tag}>)")
    except DAMAGED as damage:
        problems.add(DAMAGED_GZIP, f"{path} ({damage})")


def _last_versions(paths: Sequence[Path], problems: Problems) -> tuple[bytes, dict[Path, Malformed]]:
    """A byte per article in reading order: 1 where it is the last of its PMID and not deleted afterwards. And the files
    that are not well-formed.

    Articles without a usable PMID are kept: the second reading reports them.
    """
    read = array("I")  # PMIDs in reading order, 0 for none
    deleted, after = array("I"), array("Q")  # a deleted PMID, and how many articles had been read
    broken: dict[Path, Malformed] = {}

    def note(path: Path) -> None:
        for record in _records(path, broken.get(path), problems):
            if record.tag in DELETIONS:
                for pmid in record.iter("PMID"):
                    deleted.append(_number(_whole(pmid)))
                    after.append(len(read))
            else:
                read.append(_number(_whole(_citation(record).find("PMID"))))

    for path in paths:
        articles, deletions = len(read), len(deleted)
        try:
            note(path)
        except Malformed as error:
            # Both readings of a broken file go the same way from its beginning, so that they agree on its articles.
            broken[path] = error
            del read[articles:], deleted[deletions:], after[deletions:]
            note(path)

    pmids = np.array(read, dtype=np.uint32)
    known, last = np.unique(pmids[::-1], return_index=True)  # the first of each from behind
    last = len(pmids) - 1 - last
    keep = np.zeros(len(pmids), dtype=bool)
    keep[last] = True
    if len(known) and len(deleted):
        gone, when = np.array(deleted, dtype=np.uint32), np.array(after, dtype=np.uint64)
        at = np.minimum(np.searchsorted(known, gone), len(known) - 1)
        keep[last[at[(known[at] == gone) & (last[at].astype(np.uint64) < when)]]] = False
    keep[pmids == 0] = True
    return keep.tobytes(), broken


def _changed(path: Path) -> InputError:
    return InputError(f"{path}: changed while it was being read: start again when it is complete")


def _number(pmid: str) -> int:
    return int(pmid) if pmid.isascii() and pmid.isdigit() and len(pmid) < 10 else 0


def _citation(record: Any) -> Any:
    """What holds the PMID: the citation of an article or the document of a book, or the record itself."""
    inner = map(record.find, ("MedlineCitation", "BookDocument"))
    return next((one for one in inner if one is not None), record)


def _whole(pmid: Any) -> str:
    """The text of a PMID; "" where there is none, also where a part of it is an entity: the rest may be another's."""
    return "" if pmid is None or len(pmid) else (pmid.text or "").strip()


def _document(record: Any, path: Path, problems: Problems, ids_required: bool) -> Document | None:
    citation = _citation(record)
    article = citation.find("Article")
    if article is None:  # a book document has the same elements without this level
        article = citation
    pmid = _whole(citation.find("PMID"))
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
    """The metadata of an article, as :mod:`rerank_plugin.base.filters` names them."""
    types = _texts(article.iter("PublicationType"))
    notes = citation.iterfind("CommentsCorrectionsList/CommentsCorrections")
    found = {
        "date": next(filter(None, map(_date, (article.find(path) for path in DATES))), ""),
        "journal": next((text for path in JOURNALS for text in _texts(citation.iterfind(path))), ""),
        "authors": [name for one in article.iterfind("AuthorList/Author") if (name := _author(one))],
        "mesh": _texts(citation.iterfind("MeshHeadingList/MeshHeading/DescriptorName")),
        "types": types,
        "languages": _texts(article.iterfind("Language")),
        "retracted": "Retracted Publication" in types or any(one.get("RefType") == "RetractionIn" for one in notes),
        "url": pubmed_address(pmid),
    }
    return {name: value for name, value in found.items() if value not in ("", [], None)}


def _texts(elements: Iterable[Any]) -> list[str]:
    """The texts of elements, as far as there are any, cut at what Lucene keeps as one term."""
    return [text[:LONGEST] for text in map(_text, elements) if text]


def _author(author: Any) -> str:
    """``Smith JA``, or the name of a group."""
    return " ".join(
        name for path in ("LastName", "Initials", "CollectiveName") for name in _texts(author.iterfind(path))
    )


def _date(element: Any) -> str:
    """``2015``, ``2015-03`` or ``2015-03-02`` of a date's elements or of a text such as ``2015 Mar-Apr``."""
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
    """The entities in the elements that a document is made of, as ``&alpha;``."""
    if next(article.iter(etree.Entity), None) is None:  # nearly always, and known soon
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
    """``[Translated title].`` without its brackets; but ``[18F]FDG in [11C].`` as it is: that is not one bracket."""
    whole = re.fullmatch(r"\[(.*)\]\.?", title)
    if not whole:
        return title
    depth = 0
    for character in whole[1]:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            return title
    return whole[1].strip()


def _abstract(article: Any) -> str:
    sections = []
    for section in article.iterfind(ABSTRACT):
        text = _text(section)
        # In an attribute XML allows no entity from outside the file, and libxml2 limits what others become.
        label = section.get("Label", "").strip().rstrip(":")
        if text:
            sections.append(f"{label}: {text}" if label and label != NO_LABEL else text)
    return " ".join(sections)


def _text(element: Any) -> str:
    return " ".join(_inline(element).split())


def _inline(element: Any) -> str:
    """The text of an element and its inline markup: ``CO<sub>2</sub>`` is CO2. A power keeps a mark, because
    ``10<sup>6</sup>`` is not 106."""
    text = element.text or ""
    for child in element:
        if isinstance(child.tag, str):  # else an entity that was not resolved
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
    """MathML as text: ``p < 0.05`` with spaces between parts, indices and powers without, fractions with a slash."""
    name = _local_name(element)
    if not len(element):
        return " ".join((element.text or "").translate(_INVISIBLE).split())
    # An annotation is the same formula once more, as TeX.
    children = (child for child in element if isinstance(child.tag, str) and "annotation" not in _local_name(child))
    parts = [part for part in map(_math, children) if part]
    if name in ("msub", "msup", "msubsup") and parts:
        base, *scripts = ("".join(part.split()) for part in parts)
        if name == "msup" and scripts:
            return base + _raised(base, scripts[0])
        return base + "".join(scripts)
    return ("/" if name == "mfrac" else " ").join(parts)


_INVISIBLE = dict.fromkeys(range(0x2061, 0x2065))  # MathML's unwritten operators


def _local_name(element: Any) -> str:
    return re.split("[}:]", element.tag)[-1]
