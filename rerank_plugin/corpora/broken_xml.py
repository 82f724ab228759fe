"""The well-formed records of an XML file that is malformed as a whole.

The file is cut at the tags of records, and each record is parsed alone, after the head of the file: the XML declaration
with its encoding, the entities of an internal DTD, the namespaces of the root. So a control character or a stray ``<``
costs only its own record. An unclosed record costs itself only, since the next record's tag ends it. Data between
records is reported only if it holds parts of a document: then it is a record whose own tag is damaged. This is slower
than the parser alone and needs memory for the longest record.

Cutting needs an encoding in which the byte of ``<`` means nothing else: UTF-8, as NLM uses, the ISO-8859 family and
others, but not UTF-16. A malformed file in UTF-16 is reported as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.corpora.safe_xml import MalformedXmlError, parse_record, with_known_encoding
from rerank_plugin.files.text_files import DAMAGED, open_bytes

CHUNK = 1 << 20
LONGEST = 1 << 26  # bytes of a record; longer data is not a record

_COMMENT = rb"<!--[^-]*(?:-[^-]+)*-->"
PUBMED = ("PubmedArticle", "PubmedBookArticle", "MedlineCitation", "DeleteCitation", "DeleteDocument")
_DEFAULT_ROOT = b"<records>"  # for a file without a root that can be parsed
_PART = re.compile(_COMMENT + rb"|(?P<part><(?:PMID|ArticleTitle|BookTitle|Abstract)\b)")
# A record's own PMID comes before these; later PMIDs are those of articles that it mentions.
_PMID = re.compile(rb"<(?:PMID\b[^<>]*>\s*(?:(\d{1,9})\s*<)?|Article|Book\b|BookTitle|Abstract)")
_BLANK = re.compile(rb"^(?:\xef\xbb\xbf|\s)+")
_DECLARATION = re.compile(rb"<\?xml[^<>]*\?>")
_ROOT = re.compile(rb"<([A-Za-z_][\w.-]*)[^<>]*>")


class _Piece(NamedTuple):
    """A record with its tag, or the data between records with the tag ""; ``line`` is the line of its first byte."""

    line: int
    tag: str
    data: bytes


def records(
    path: Path, error: MalformedXmlError, report: Callable[[str], None], tags: tuple[str, ...] = PUBMED
) -> Iterator[Any]:
    """The records of a file in which the parser raised ``error``: its elements with these local names.

    Each unreadable record is reported as ``file:7, PMID 12 (reason)``; without any, the error itself is reported. May
    raise the exceptions in `text_files.DAMAGED`, after all records before the damage.
    """
    head, read, reported, piece = None, 0, 0, _Piece(1, "", b"")
    for piece in _pieces(path, tags):
        try:
            if head is None:  # the first piece precedes the first record
                head = _head(piece.data)
                if head is None:
                    break
            if piece.tag:
                record = parse_record(head, piece.data, piece.tag)
                read += 1
                yield record
            elif part := next((match for match in _PART.finditer(piece.data) if match["part"]), None):
                raise MalformedXmlError(piece.data.count(b"\n", 0, part.start()) + 1, "the tags around it are damaged")
        except MalformedXmlError as malformed:
            reported += 1
            match = _PMID.search(piece.data)
            pmid = f", PMID {match[1].decode()}" if match and match[1] else ""
            report(f"{path}:{piece.line + malformed.line - 1}{pmid} ({malformed.reason})")
    if not reported or head is None:
        report(f"{path}:{error.line} ({error.reason}{'' if read else '; no record of this file could be read'})")
    elif not piece.tag and b"</" not in piece.data and _ROOT.search(head.removesuffix(_DEFAULT_ROOT)):
        report(f"{path}:{piece.line} (the file breaks off after this record)")


def _head(data: bytes) -> bytes | None:
    """The parsable part of the data before the first record; None if nothing can be parsed (unknown encoding)."""
    data = with_known_encoding(_BLANK.sub(b"", data))  # the parser allows nothing before the declaration
    match, root = _DECLARATION.match(data), _ROOT.search(data)
    declaration = match[0] if match else b""
    for head in (data, data[: root.end()] if root else _DEFAULT_ROOT, declaration + _DEFAULT_ROOT):
        try:
            parse_record(head, b"<probe/>", "probe")
        except MalformedXmlError:
            continue
        return head
    return None


def _pieces(path: Path, tags: tuple[str, ...]) -> Iterator[_Piece]:
    """The pieces of a file; the first is not a record. An unclosed record ends where the next one begins."""
    names = "|".join(tags).encode()
    tokens = re.compile(
        _COMMENT
        + rb"|(?P<comment><!--)|</(?P<end>%b)\s*>|<(?P<start>%b)(?=[\s/>])(?P<empty>[^<>]*/>)?" % (names, names)
    )
    data, line, tag, damage, more = b"", 1, "", None, True
    cited = False  # whether the open article already has its citation
    seen = 0  # tags before this offset are processed
    with open_bytes(path) as file:
        while more:
            try:
                chunk = file.read(CHUNK)
            except DAMAGED as error:
                chunk, damage = b"", error
            more = bool(chunk)
            data += chunk
            first = 0  # offset of the open piece
            limit = max(seen, data.rfind(b"<"))  # all tags before the last "<" are complete
            if not more or len(data) - limit > LONGEST:
                limit = len(data)
            for token in tokens.finditer(data, seen, limit):
                if token["comment"]:
                    if more and _may_end(data, token.end()) and limit - token.start() < LONGEST:
                        limit = token.start()
                        break
                    continue
                start, end = (token["start"] or b"").decode(), (token["end"] or b"").decode()
                cuts = []
                if (start, tag) == ("MedlineCitation", "PubmedArticle") and not cited:
                    cited = True  # an article has one citation: a second one belongs to an article whose tag is damaged
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
    """Whether an open comment may end after the data: the first two hyphens in a row must end it."""
    hyphens = data.find(b"--", begin)
    return hyphens < 0 or data[hyphens : hyphens + 3] in (b"--", b"-->")
