"""TREC topics: in their classic form (https://trec.nist.gov/data/topics_eng/), and as XML.

    <top>
    <num> Number: 301
    <title> International Organized Crime
    <desc> Description:
    ...
    </top>

The format resembles SGML, but only ``<top>`` must be closed, titles span several lines, and the text may have literal
``&`` and ``<``. So only complete tags such as ``<title>`` or ``</num>`` are markup, and a field ends where the next tag
begins. The query is the title, or the description of a topic without a title (TREC-4). The number is kept as written.

Later tracks have XML, ``<topic number="1">``, whose elements depend on the track. The query is the first of
`TOPIC_FIELDS` that a topic has: the query of TREC-COVID, the disease, gene and treatment of Precision Medicine, the
summary or the description of Clinical Decision Support, or the text itself of Clinical Trials.
``topics.xml:field=question`` chooses another, ``field=query+question`` several; so it does for the classic form
(``field=desc``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.corpora.register import QUERIES, Format, register
from rerank_plugin.files.text_files import DAMAGED, beginning, damaged, lines

TOPIC_FIELDS = (
    ("query",), ("title",), ("disease", "gene", "treatment"), ("summary",), ("description",), ("desc",), ("question",)
)  # fmt: skip
NUMBERS = ("number", "num", "id", "topic_id")  # attributes or elements
NAMES = {"desc": "description", "narr": "narrative", "num": "number"}  # of elements in the classic form
_XML = re.compile(rb"<topics?[\s>]", re.IGNORECASE)
_CLASSIC = re.compile(rb"<top>", re.IGNORECASE)

_TAG = re.compile(r"<(/?[A-Za-z][\w-]*)>")
_LEAD = {
    "num": "Number:",
    "title": "Topic:",
    "desc": "Description:",
    "narr": "Narrative:",
}  # labels before the text of a field


def queries(path: Path, selected: object = (), field: str | None = None) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every topic; ``field``: the elements of the text, joined by ``+``.

    Raises:
        InputError: the file is malformed, or a topic lacks its number or its text.
    """
    head = beginning(path)
    if _XML.search(head) and not _CLASSIC.search(head):
        return _xml_queries(path, field)
    return _classic_queries(path, field)


def _xml_queries(path: Path, field: str | None) -> Iterator[tuple[str, str, str]]:
    with naming_extras("reading topics in XML"):
        from rerank_plugin.corpora.xml_records import MalformedXmlError, Records

    try:
        for topic in Records(path, "topic", "TOPIC", "Topic"):
            where = f"{path}:{topic.sourceline}"
            texts = {"": _text(topic.text or "")}
            for element in topic.iterchildren("*"):
                name = element.get("name") or element.tag
                text = _text("".join(element.itertext()))
                texts[name.lower()] = " ".join(filter(None, (texts.get(name.lower()), text)))
            attributes = {name.lower(): value for name, value in topic.attrib.items()}
            id = next(
                (texts_of[name] for texts_of in (attributes, texts) for name in NUMBERS if texts_of.get(name)), ""
            )
            if not id:
                raise InputError(f'{where}: a topic without a number: add it, as in <topic number="1">')
            yield where, id.strip(), _chosen(texts, field, where, id)
    except MalformedXmlError as error:
        raise InputError(f"{path}:{error.line}: malformed XML ({error.reason}): correct it") from None
    except DAMAGED as error:
        raise InputError(f"{path}: {damaged(path)} ({error}): fetch or compress it again") from error


def _chosen(texts: dict[str, str], field: str | None, where: str, id: str) -> str:
    """The text of a topic from its elements, whose own text has the name ""."""
    if field is not None:
        missing = [name for name in field.lower().split("+") if name not in texts]
        if missing:
            known = ", ".join(name for name in texts if name and name not in NUMBERS)
            raise InputError(f"{where}: topic {id} has no field {missing[0]}: name one of {known}")
        return " ".join(filter(None, (texts[name] for name in field.lower().split("+"))))
    for names in TOPIC_FIELDS:
        if text := " ".join(filter(None, (texts.get(name) for name in names))):
            return text
    return texts[""] or " ".join(text for name, text in texts.items() if text and name not in NUMBERS)


def _text(text: str) -> str:
    return " ".join(text.split())


def _classic_queries(path: Path, field: str | None) -> Iterator[tuple[str, str, str]]:
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
                    yield _topic(path, began, fields, field)
                began, fields, current = (number if tag == "top" else 0), {}, []
            else:
                current = fields.setdefault(tag, [])  # a closing tag opens a field of its own, which is ignored
        current.append(" ")
    if began:
        empty = False
        yield _topic(path, began, fields, field)
    if empty:
        raise InputError(
            f"{path}: no <top> found: TREC topics have the form <top> <num> ... <title> ... </top>, or "
            "<topic number=...>"
        )


def _topic(path: Path, number: int, fields: dict[str, list[str]], field: str | None) -> tuple[str, str, str]:
    where = f"{path}:{number}"
    id = _field(fields, "num")
    if not id:
        raise InputError(f"{where}: a topic without a <num>: add its number")
    if field is not None:
        texts = {name: _field(fields, name) for name in fields if not name.startswith("/")}
        texts |= {NAMES[name]: text for name, text in texts.items() if name in NAMES}
        return where, id, _chosen(texts, field, where, id)
    if "title" not in fields and "desc" not in fields:
        raise InputError(f"{where}: topic {id} has neither a <title> nor a <desc>: add one")
    return where, id, _field(fields, "title") or _field(fields, "desc")


def _field(fields: dict[str, list[str]], name: str) -> str:
    text = " ".join(html.unescape("".join(fields.get(name, []))).split())
    lead = _LEAD.get(name, "")
    return text[len(lead) :].strip() if text.lower().startswith(lead.lower()) else text


register(Format("TREC topics", __name__, {QUERIES: "a TREC topics file[:field=NAME]"}, begins="<", has_fields=True))
