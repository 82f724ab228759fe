"""Reads untrusted XML record by record: entities are not expanded, and no DTD or other resource is loaded.

libxml2's limits on depth and text size apply, and one on the size of a record. Its recovery of broken XML is not used,
since it changes text silently. Records are elements of one name, in any namespace; one of another kind or with entities
that are not expanded is counted.

A malformed file loses only its damaged records: it is cut at the tags of records, and each record is parsed alone,
after the head of the file: the XML declaration with its encoding, the entities of an internal DTD, the namespaces of
the root. So a control character or a stray ``<`` costs only its own record. An unclosed record costs itself only, since
the next record's tag ends it. Data between records is reported only if it holds parts of a document: then it is a
record whose own tag is damaged. This is slower than the parser alone and needs memory for the longest record.

Cutting needs an encoding in which the byte of ``<`` means nothing else: UTF-8, as NLM uses, the ISO-8859 family and
others, but not UTF-16. A malformed file in UTF-16 is reported as a whole.
"""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lxml import etree

from rerank_plugin.base.records import Document
from rerank_plugin.corpora.problems import MALFORMED_XML, NO_RECORDS, UNEXPANDED, Problems
from rerank_plugin.corpora.records import Record, usable_documents
from rerank_plugin.files.text_files import DAMAGED, damaged, open_bytes, rereadable

LONGEST = 1 << 26  # bytes of a record; longer data are not a record
_DECLARED = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml\s[^<>?]*?\sencoding\s*=\s*["']([\w.:-]+)""")
SAFELY = dict(
    resolve_entities=False, load_dtd=False, dtd_validation=False, no_network=True, huge_tree=False,
    remove_comments=True, remove_pis=True,
)  # fmt: skip


class MalformedXmlError(Exception):
    """XML is not well-formed from ``line`` on; ``reason`` is the parser's."""

    def __init__(self, line: int, reason: str):
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


class Records:
    """Iterates over the elements of a file that have one of ``tags``; each is freed when the next is requested.

    Iterating raises `MalformedXmlError` or an exception in `text_files.DAMAGED`, after all records before the damage.
    After the end of a well-formed file, ``root`` is the root element, without the records.
    """

    root: Any = None

    def __init__(self, path: Path, *tags: str):
        self.path, self.tags = path, tags

    def __iter__(self) -> Iterator[Any]:
        with open_bytes(self.path) as file:
            bounded = _Bounded(file)
            reader = etree.iterparse(bounded, events=("end",), tag=self.tags, **SAFELY)
            try:
                for _, record in reader:
                    bounded.left, bounded.line = LONGEST, record.sourceline
                    elements = [record, *record.iterancestors()][:-1]
                    yield record
                    # Otherwise the tree would grow to the size of the file. The record itself stays until the next one
                    # is complete, since the parser continues there.
                    for element in elements:
                        while element.getprevious() is not None:
                            del element.getparent()[0]
            except etree.XMLSyntaxError as error:
                raise malformed(error, reader.error_log) from None
            self.root = reader.root


class _Bounded:
    """A file of which at most `LONGEST` bytes may be read from one record to the next."""

    def __init__(self, file: BinaryIO):
        self.file, self.left, self.line = file, LONGEST, 1  # the line of the last record

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        if self.left == LONGEST and self.line == 1:
            data = with_known_encoding(data)
        self.left -= len(data)
        if self.left < 0:
            raise MalformedXmlError(self.line, f"no record begins and ends within {LONGEST:,} bytes after this line")
        return data


def with_known_encoding(head: bytes) -> bytes:
    """The beginning of a file, whose declaration has the parser's name of an encoding of ISO 8859 (``latin-1``)."""
    if (match := _DECLARED.match(head)) is None:
        return head
    with suppress(LookupError):
        name = lookup(match[1].decode()).name
        if name.startswith("iso8859-"):
            return head[: match.start(1)] + name.upper().replace("ISO8859", "ISO-8859").encode() + head[match.end(1) :]
    return head


def parse_record(head: bytes, data: bytes, tag: str) -> Any:
    """Parse ``data``, one element with this tag, after the ``head`` of its file.

    Raises:
        MalformedXmlError: its line counts from the first line of ``data``.
    """
    # A pull parser does not need the end of the file, so the elements that the head opens may stay open.
    parser = etree.XMLPullParser(events=("end",), tag=f"{{*}}{tag}", **SAFELY)
    try:
        parser.feed(head)
        parser.feed(data)
        for _, element in parser.read_events():
            return element
        parser.close()  # raises the error of an unfinished element, or an earlier error that was only logged
    except etree.XMLSyntaxError as error:
        first = malformed(error, parser.feed_error_log)
        # A reason's own line numbers ("b line 3 and i") are not those of the file.
        raise MalformedXmlError(first.line - head.count(b"\n"), re.sub(r" line \d+", "", first.reason)) from None
    raise MalformedXmlError(1, f"no <{tag}>")


def malformed(error: etree.XMLSyntaxError, errors: Any) -> MalformedXmlError:
    """The first of the parser's errors; the exception itself may only report the end of the data."""
    line, reason = (errors[0].line, errors[0].message) if len(errors) else (error.lineno, error.msg)
    return MalformedXmlError(line, " ".join(str(reason).split()))


CHUNK = 1 << 20

_COMMENT = rb"<!--[^-]*(?:-[^-]+)*-->"
PUBMED = ("PubmedArticle", "PubmedBookArticle", "MedlineCitation", "DeleteCitation", "DeleteDocument")
_DEFAULT_ROOT = b"<records>"  # for a file without a root that can be parsed
_PART = re.compile(_COMMENT + rb"|(?P<part><(?:PMID|ArticleTitle|BookTitle|Abstract)\b)")
# A record's own PMID comes before these; later PMIDs are those of articles that it mentions.
_PMID = re.compile(rb"<(?:PMID\b[^<>]*>\s*(?:(\d{1,9})\s*<)?|Article|Book\b|BookTitle|Abstract)")
_BLANK = re.compile(rb"^(?:\xef\xbb\xbf|\s)+")
_DECLARATION = re.compile(rb"<\?xml[^<>]*\?>")
_ROOT = re.compile(rb"<([A-Za-z_][\w.-]*)[^<>]*>")


class _Section(NamedTuple):
    """A record with its tag, or the data between records with the tag ""; ``line`` is the line of its first byte."""

    line: int
    tag: str
    data: bytes


def well_formed_records(
    path: Path, error: MalformedXmlError, report: Callable[[str], None], tags: tuple[str, ...] = PUBMED
) -> Iterator[Any]:
    """The records of a file in which the parser raised ``error``: its elements with these local names.

    Each unreadable record is reported as ``file:7, PMID 12 (reason)``; without any, the error itself is reported. May
    raise the exceptions in `text_files.DAMAGED`, after all records before the damage.
    """
    head, read, reported, section = None, 0, 0, _Section(1, "", b"")
    for section in _sections(path, tags):
        try:
            if head is None:  # the first section precedes the first record
                head = _head(section.data)
                if head is None:
                    break
            if section.tag:
                record = parse_record(head, section.data, section.tag)
                read += 1
                yield record
            elif part := next((match for match in _PART.finditer(section.data) if match["part"]), None):
                raise MalformedXmlError(
                    section.data.count(b"\n", 0, part.start()) + 1, "the tags around it are damaged"
                )
        except MalformedXmlError as malformed:
            reported += 1
            match = _PMID.search(section.data)
            pmid = f", PMID {match[1].decode()}" if match and match[1] else ""
            report(f"{path}:{section.line + malformed.line - 1}{pmid} ({malformed.reason})")
    if not reported or head is None:
        report(f"{path}:{error.line} ({error.reason}{'' if read else '; no record of this file could be read'})")
    elif not section.tag and b"</" not in section.data and _ROOT.search(head.removesuffix(_DEFAULT_ROOT)):
        report(f"{path}:{section.line} (the file breaks off after this record)")


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


def _sections(path: Path, tags: tuple[str, ...]) -> Iterator[_Section]:
    """The sections of a file; the first is not a record. An unclosed record ends where the next one begins."""
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
            first = 0  # offset of the open section
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
                    yield _Section(line, tag, data[first:cut])
                    line += data.count(b"\n", first, cut)
                    first, tag, cited = cut, following, False
            if limit - first > LONGEST:
                yield _Section(line, tag, data[first:limit])
                line += data.count(b"\n", first, limit)
                first, tag = limit, ""
            data, seen = data[first:], limit - first
    if damage is not None:
        raise damage
    yield _Section(line, tag, data)


def _may_end(data: bytes, begin: int) -> bool:
    """Whether an open comment may end after the data: the first two hyphens in a row must end it."""
    hyphens = data.find(b"--", begin)
    return hyphens < 0 or data[hyphens : hyphens + 3] in (b"--", b"-->")


def documents(
    paths: Iterable[Path], problems: Problems, ids_required: bool, tag: str, record_of: Callable[[Any], Record]
) -> Iterator[Document]:
    """Stream the documents of files; ``record_of`` reads an element, whose names have no namespaces."""
    return usable_documents(_records([*paths], problems, tag, record_of), problems, ids_required)


def _records(
    paths: list[Path], problems: Problems, tag: str, record_of: Callable[[Any], Record]
) -> Iterator[tuple[str, Record]]:
    with rereadable(paths):
        for path in paths:
            number = 0
            try:
                for number, element in enumerate(_elements(path, problems, tag), 1):
                    where = f"{path}: {tag} {number}"
                    if entities := sorted({entity.text for entity in element.iter(etree.Entity)}):
                        problems.add(UNEXPANDED, f"{where} ({', '.join(entities[:3])})")
                    yield where, record_of(element)
            except DAMAGED as damage:
                problems.add(damaged(path), f"{path}: after {tag} {number} ({damage})")


def _elements(path: Path, problems: Problems, tag: str) -> Iterator[Any]:
    """The elements with this name; what precedes the damage of a malformed file is parsed, but not given, twice."""
    given = 0
    records = Records(path, f"{{*}}{tag}")
    try:
        for element in records:
            given += 1
            yield _without_namespaces(element)
    except MalformedXmlError as error:
        readable = well_formed_records(path, error, lambda where: problems.add(MALFORMED_XML, where), (tag,))
        yield from map(_without_namespaces, islice(readable, given, None))
    else:
        if not given:
            problems.add(NO_RECORDS, f"{path} (<{records.root.tag}>)")


def _without_namespaces(element: Any) -> Any:
    for part in element.iter("{*}*"):
        if part.tag[0] == "{":
            part.tag = etree.QName(part).localname
    return element
