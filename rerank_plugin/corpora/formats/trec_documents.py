"""TREC's collections: ``<DOC> <DOCNO> id </DOCNO> ... </DOC>``, in files of any name.

This is SGML without a DTD: only the tags of documents must be right. The title is the first of `TITLES`, the text all
of ``TEXT`` and ``ABSTRACT``, or everything else where a document has neither.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import LONGEST, TOO_LONG, Problems
from rerank_plugin.corpora.records import Record, text_lines, usable_documents
from rerank_plugin.corpora.register import CORPUS, Format, register

UNCLOSED = "document without </DOC>"
TITLES = ("title", "headline", "head", "ti", "hl", "doctitle")
TEXTS = ("text", "abstract")
_BOUNDARY = re.compile(r"<(/?)DOC\s*>", re.IGNORECASE)
_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][\w.-]*(?:\s[^<>]*)?>", re.DOTALL)


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order."""
    return usable_documents(chain.from_iterable(_records(path, problems) for path in paths), problems, ids_required)


def _records(path: Path, problems: Problems) -> Iterator[tuple[str, Record]]:
    place, parts, length = "", list[str](), 0  # of the open document; "": none is open
    for where, line in text_lines(path, problems):
        position = 0
        for tag in chain(_BOUNDARY.finditer(line), [None]):
            if place:
                part = line[position : tag.start() if tag else None]
                length += len(part) + 1
                if length <= LONGEST:
                    parts.append(part)
            if tag is None:
                break
            position = tag.end()
            if place and not tag[1]:
                problems.add(UNCLOSED, place)
            elif place and length > LONGEST:
                problems.add(TOO_LONG, f"{place} ({length:,} characters of at most {LONGEST:,})")
            elif place:
                yield place, _record("\n".join(parts))
            place, parts, length = "" if tag[1] else where, [], 0
    if place:
        problems.add(UNCLOSED, place)


def _record(text: str) -> Record:
    id = _elements(text, "docno")
    title = next((found for name in TITLES for found in _elements(text, name)), "")
    body = " ".join(_elements(text, *TEXTS))
    if not body:
        body = _plain(_element("docno", *TITLES).sub(" ", text))
    return Record(next(iter(id), ""), title, body)


def _element(*names: str) -> re.Pattern[str]:
    return re.compile(rf"<({'|'.join(names)})(?:\s[^<>]*)?>(.*?)</\1\s*>", re.IGNORECASE | re.DOTALL)


def _elements(text: str, *names: str) -> list[str]:
    """The texts of all elements with these names that are not empty."""
    return [plain for match in _element(*names).finditer(text) if (plain := _plain(match[2]))]


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())


register(Format("TREC documents", __name__, {CORPUS: "TREC's <DOC> files"}, begins=r"(?i:<DOC\s*>)", subfolders=True))
