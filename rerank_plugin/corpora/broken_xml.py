"""The sound records of a PubMed file that is not well-formed as a whole.

The bytes are cut at the tags of records and every record is parsed alone, behind what precedes the first one: the XML
declaration with its encoding, the entities that a DTD inside the file declares, the namespaces of the root. So one
control character or stray ``<`` costs the record it is in. A record that does not end costs itself, since the next one
begins another. What stands between records is looked at only as far as a document could be made of it: it is then a
record whose own tag is damaged. Slower than the parser alone, and with memory for the longest record.

Cutting needs an encoding in which ``<`` is one byte that is nothing else: UTF-8, as NLM has it, the ISO-8859 family
and others, but not UTF-16. A file in such an encoding is told as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.corpora.safe_xml import Malformed, alone
from rerank_plugin.files.text_files import DAMAGED, open_bytes

CHUNK = 1 << 20
LONGEST = 1 << 26  # bytes of a record; what is longer is none

_COMMENT = rb"<!--[^-]*(?:-[^-]+)*-->"
_TOKEN = re.compile(
    _COMMENT + rb"|(?P<comment><!--)|"
    rb"</(?P<end>PubmedArticle|PubmedBookArticle|MedlineCitation|DeleteCitation|DeleteDocument)\s*>|"
    rb"<(?P<start>PubmedArticle|PubmedBookArticle|MedlineCitation|DeleteCitation|DeleteDocument)(?=[\s/>])"
    rb"(?P<empty>[^<>]*/>)?"
)
_NO_ROOT = b"<records>"  # stands in where a file has no root, or none that can be parsed
_OF_A_DOCUMENT = re.compile(_COMMENT + rb"|(?P<found><(?:PMID|ArticleTitle|BookTitle|Abstract)\b)")
# Its own PMID comes before these; one behind them is that of an article that it mentions.
_PMID = re.compile(rb"<(?:PMID\b[^<>]*>\s*(?:(\d{1,9})\s*<)?|Article|Book\b|BookTitle|Abstract)")
_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^<>]*\?>")
_ROOT = re.compile(rb"<([A-Za-z_][\w.-]*)[^<>]*>")


class _Piece(NamedTuple):
    """A record with its tag, or the data between records with the tag ""; ``line`` is the line of its first byte."""

    line: int
    tag: str
    data: bytes


def records(path: Path, error: Malformed, tell: Callable[[str], None]) -> Iterator[Any]:
    """The records of a file in which the parser met ``error``.

    Every unreadable record is reported as ``file:7, PMID 12 (reason)``; if there is none, the error itself is reported.
    May raise the exceptions in `text_files.DAMAGED`, after all records before the damage.
    """
    head, read, told, piece = None, 0, 0, _Piece(1, "", b"")
    for piece in _pieces(path):
        try:
            if head is None:  # the first piece is what precedes the first record
                head = _head(piece.data)
                if head is None:
                    break
            if piece.tag:
                record = alone(head, piece.data, piece.tag)
                read += 1
                yield record
            elif found := next((one for one in _OF_A_DOCUMENT.finditer(piece.data) if one["found"]), None):
                raise Malformed(piece.data.count(b"\n", 0, found.start()) + 1, "the tags around it are damaged")
        except Malformed as malformed:
            told += 1
            pmid = _PMID.search(piece.data)
            named = f", PMID {pmid[1].decode()}" if pmid and pmid[1] else ""
            tell(f"{path}:{piece.line + malformed.line - 1}{named} ({malformed.reason})")
    if not told:
        tell(f"{path}:{error.line} ({error.reason}{'' if read else '; no record of this file could be read'})")
    elif not piece.tag and b"</" not in piece.data and _ROOT.search(head.removesuffix(_NO_ROOT)):
        tell(f"{path}:{piece.line} (the file breaks off after this record)")


def _head(data: bytes) -> bytes | None:
    """The parsable part of the data before the first record; None if there is none, as with an unknown encoding."""
    declaration = _DECLARATION.match(data)
    declared, root = declaration[0] if declaration else b"", _ROOT.search(data)
    for head in (data, data[: root.end()] if root else _NO_ROOT, declared + _NO_ROOT):
        try:
            alone(head, b"<probe/>", "probe")
        except Malformed:
            continue
        return head
    return None


def _pieces(path: Path) -> Iterator[_Piece]:
    """The file in pieces, the first of which is no record; an unclosed record ends where the next one begins."""
    data, line, tag, damage, more = b"", 1, "", None, True
    cited = False  # the open article has had its citation
    seen = 0  # tags before this place are known
    with open_bytes(path) as file:
        while more:
            try:
                chunk = file.read(CHUNK)
            except DAMAGED as error:
                chunk, damage = b"", error
            more = bool(chunk)
            data += chunk
            first = 0  # of the piece that is open
            limit = max(seen, data.rfind(b"<"))  # before the last "<" every tag is whole
            if not more or len(data) - limit > LONGEST:
                limit = len(data)
            for token in _TOKEN.finditer(data, seen, limit):
                if token["comment"]:
                    if more and _may_end(data, token.end()) and limit - token.start() < LONGEST:
                        limit = token.start()
                        break
                    continue
                start, end = (token["start"] or b"").decode(), (token["end"] or b"").decode()
                cuts = []
                if (start, tag) == ("MedlineCitation", "PubmedArticle") and not cited:
                    cited = True  # an article has one citation: a second one is that of an article without its own tag
                elif start:
                    cuts.append((token.start(), start))
                if cuts and token["empty"] or end and end == tag:
                    cuts.append((token.end(), ""))
                for cut, following in cuts:
                    yield _Piece(line, tag, data[first:cut])
                    line += data.count(b"\n", first, cut)
                    first, tag, cited = cut, following, False
            if limit - first > LONGEST:
                yield _Piece(line, tag, data[first:limit])
                line += data.count(b"\n", first, limit)
                first, tag = limit, ""
            data, seen = data[first:], limit - first
    if damage is not None:
        raise damage
    yield _Piece(line, tag, data)


def _may_end(data: bytes, begin: int) -> bool:
    """Whether the comment that has begun may end behind the data: the first two hyphens in a row must end it."""
    hyphens = data.find(b"--", begin)
    return hyphens < 0 or data[hyphens : hyphens + 3] in (b"--", b"-->")
