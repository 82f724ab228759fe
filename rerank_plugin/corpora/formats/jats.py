"""JATS, the XML of articles at PubMed Central, Europe PMC, bioRxiv and many publishers (https://jats.nlm.nih.gov).

A file (``.nxml``, ``.xml``) holds an article, a ``pmc-articleset`` or an answer of PMC's OAI service. The id is the
PMID, or else the PMCID or the DOI. The abstract is the author's, not a graphical or a plain-language one where there
are several; an article without any has the paragraphs of its body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import Record
from rerank_plugin.corpora.register import CORPUS, XML_ROOT, Format, register
from rerank_plugin.corpora.xml_text import text_of

DATES = ("ppub", "pub", "epub", "collection")  # types of dates, the preferred first
JOURNALS = (
    "front/journal-meta/journal-id[@journal-id-type='iso-abbrev']",
    "front/journal-meta/journal-id[@journal-id-type='nlm-ta']",
    "front/journal-meta//journal-title",
)
TEXTS = {
    "full_journal_title": ("journal-meta//journal-title",),
    "issn": ("journal-meta/issn",),
    "volume": ("article-meta/volume",),
    "issue": ("article-meta/issue",),
    "pages": ("article-meta/elocation-id",),
    "affiliation": ("article-meta/aff", "article-meta/contrib-group/aff"),
    "original_title": ("article-meta/title-group/trans-title-group/trans-title",),
}
_WORDS = re.compile(r"[\s.-]+")


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order."""
    with naming_extras("reading JATS"):
        from rerank_plugin.corpora import xml_records
    return xml_records.documents(paths, problems, ids_required, "article", _record)


def _record(article: Any) -> Record:
    meta = article.find("front/article-meta")
    if meta is None:
        return Record("", "", "")
    ids = {id.get("pub-id-type"): text for id in meta.iterfind("article-id") if (text := text_of(id))}
    pmcid = ids.get("pmcid") or ids.get("pmc", "")
    pmcid = f"PMC{pmcid}" if pmcid.isdigit() else pmcid
    doi = ids.get("doi", "")
    metadata = {
        "pmid": ids.get("pmid"),
        "doi": doi,
        "journal": next((text for path in JOURNALS for text in map(text_of, article.iterfind(path)) if text), ""),
        "date": _date(meta),
        "authors": [name for author in meta.iterfind("contrib-group/contrib") if (name := _author(author))],
        "languages": next((value for name, value in article.attrib.items() if name.endswith("}lang")), ""),
        "types": article.get("article-type", ""),
        "keywords": [text for keyword in meta.iterfind("kwd-group/kwd") if (text := text_of(keyword))],
    }
    metadata |= {
        name: next((text for path in paths for text in map(text_of, article.iterfind(f"front/{path}")) if text), "")
        for name, paths in TEXTS.items()
    }
    metadata["pages"] = metadata["pages"] or "-".join(
        text for name in ("fpage", "lpage") if (text := (meta.findtext(name) or "").strip())
    )
    metadata["pmc"] = pmcid
    if metadata["full_journal_title"] == metadata["journal"]:
        del metadata["full_journal_title"]
    title = meta.find("title-group/article-title")
    return Record(
        ids.get("pmid") or pmcid or doi or next(iter(ids.values()), ""),
        "" if title is None else text_of(title),
        _abstract(article, meta),
        metadata,
    )


def _abstract(article: Any, meta: Any) -> str:
    abstracts = sorted(meta.iterfind("abstract"), key=lambda abstract: abstract.get("abstract-type") is not None)
    for abstract in (*abstracts, *meta.iterfind("trans-abstract")):
        if text := _sections(abstract):
            return text
    return " ".join(map(text_of, article.iterfind("body//p")))


def _sections(element: Any) -> str:
    """The text of an abstract, whose sections have their titles as labels: ``METHODS: ...``."""
    texts = []
    for child in element.iterchildren("*"):
        if child.tag == "sec":
            title = "" if (label := child.find("title")) is None else text_of(label).rstrip(":.")
            text = _sections(child)
            texts.append(f"{title}: {text}" if title and text else text)
        elif child.tag not in ("title", "label", "fig", "graphic"):
            texts.append(text_of(child))
    return " ".join(filter(None, texts))


def _date(meta: Any) -> list[str]:
    """The year of the preferred date, the month and the day if they are known."""
    dates = {date.get("pub-type") or date.get("date-type"): date for date in meta.iterfind("pub-date")}
    date = next((dates[kind] for kind in DATES if kind in dates), next(iter(dates.values()), None))
    parts = [] if date is None else [(date.findtext(name) or "").strip() for name in ("year", "month", "day")]
    return [*takewhile(bool, parts)]


def _author(contributor: Any) -> str:
    """The name of an author, ``Smith JA`` as at PubMed, or of a group; "" for an editor."""
    if contributor.get("contrib-type", "author") != "author":
        return ""
    surname = (contributor.findtext("name/surname") or "").strip()
    given = (contributor.findtext("name/given-names") or "").strip()
    initials = given if given.isupper() and len(given) < 4 else "".join(word[0] for word in _WORDS.split(given) if word)
    group = contributor.find("collab")
    return f"{surname} {initials}".strip() or ("" if group is None else text_of(group))


register(
    Format(
        "JATS",
        __name__,
        {CORPUS: "articles of PubMed Central in JATS (*.nxml, *.xml)"},
        suffixes=(".nxml",),
        begins=XML_ROOT % "article|pmc-articleset|OAI-PMH",
        subfolders=True,
    )
)
