"""Reads untrusted XML record by record: entities are not expanded, and no DTD or other resource is loaded.

libxml2's limits on depth and text size apply, and one on the size of a record. Its recovery of broken XML is not used,
since it changes text silently.
"""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from lxml import etree

from rerank_plugin.files.text_files import open_bytes

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
