"""PubTator's text format, in which annotated corpora are published too; the id is the PMID.

    31000001|t|Statins and muscle pain
    31000001|a|Pain was frequent.
    31000001	0	7	Statins	Chemical	MESH:D019821

Annotations and relations, whose columns are separated by tabs, are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.records import Record, text_lines, usable_documents
from rerank_plugin.corpora.register import CORPUS, Format, register

BAD_LINE = "bad line of PubTator text"
_TEXT = re.compile(r"([^|\s]+)\|([ta])\|(.*)")


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order."""
    return usable_documents(chain.from_iterable(_records(path, problems) for path in paths), problems, ids_required)


def _records(path: Path, problems: Problems) -> Iterator[tuple[str, Record]]:
    """The records of a file: consecutive lines of text with the same id. The first text of a kind counts."""
    place, id, texts = "", "", dict[str, str]()
    for where, line in text_lines(path, problems):
        match = _TEXT.match(line)
        if texts and (match and (match[1] != id or match[2] in texts) or not line):
            yield place, Record(id, texts.get("t", ""), texts.get("a", ""), {"pmid": id})
            texts = {}
        if match:
            place, id = where if not texts else place, match[1]
            texts[match[2]] = match[3]
        elif line and "\t" not in line:
            problems.add(BAD_LINE, f"{where} ({line[:40]!r})")
    if texts:
        yield place, Record(id, texts.get("t", ""), texts.get("a", ""), {"pmid": id})


register(
    Format("PubTator", __name__, {CORPUS: "PubTator text"}, suffixes=(".pubtator",), begins=r"[^|\s]{1,40}\|[ta]\|")
)
