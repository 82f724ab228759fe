"""TREC topics in their classic form (https://trec.nist.gov/data/topics_eng/).

    <top>
    <num> Number: 301
    <title> International Organized Crime
    <desc> Description:
    ...
    </top>

The format resembles SGML, but only ``<top>`` must be closed, titles span several lines, and the text may have literal
``&`` and ``<``. So only complete tags such as ``<title>`` or ``</num>`` are markup, and a field ends where the next tag
begins. The query is the title, or the description of a topic without a title (TREC-4). The number is kept as written.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.register import QUERIES, Format, register
from rerank_plugin.files.text_files import lines

_TAG = re.compile(r"<(/?[A-Za-z][\w-]*)>")
_LEAD = {"num": "Number:", "title": "Topic:", "desc": "Description:"}  # labels before the text of a field


def queries(path: Path) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every topic."""
    began = 0  # line of the open <top>; 0 outside a topic
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    empty = True
    for number, line in lines(path):
        for position, piece in enumerate(_TAG.split(line)):  # texts, and the names of the tags between them
            tag = piece.lower()
            if position % 2 == 0:
                current.append(piece)
            elif tag in ("top", "/top"):
                if began:
                    empty = False
                    yield _topic(path, began, fields)
                began, fields, current = (number if tag == "top" else 0), {}, []
            else:
                current = fields.setdefault(tag, [])  # a closing tag opens a field of its own, which is ignored
        current.append(" ")
    if began:
        empty = False
        yield _topic(path, began, fields)
    if empty:
        raise InputError(f"{path}: no <top> found: TREC topics have the form <top> <num> ... <title> ... </top>")


def _topic(path: Path, number: int, fields: dict[str, list[str]]) -> tuple[str, str, str]:
    where = f"{path}:{number}"
    id = _field(fields, "num")
    if not id:
        raise InputError(f"{where}: a topic without a <num>: add its number")
    if "title" not in fields and "desc" not in fields:
        raise InputError(f"{where}: topic {id} has neither a <title> nor a <desc>: add one")
    return where, id, _field(fields, "title") or _field(fields, "desc")


def _field(fields: dict[str, list[str]], name: str) -> str:
    text = " ".join(html.unescape("".join(fields.get(name, []))).split())
    lead = _LEAD[name]
    return text[len(lead) :].strip() if text.lower().startswith(lead.lower()) else text


register(Format("TREC topics", __name__, {QUERIES: "a TREC topics file"}, begins="<"))
