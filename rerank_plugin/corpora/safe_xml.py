"""Reads untrusted XML record by record: entities are not expanded, and no DTD or other resource is loaded.

libxml2's limits on depth and text size stay in force. Its recovery of broken XML is not used, since it changes text
without notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from rerank_plugin.files.text_files import open_bytes

SAFELY = dict(
    resolve_entities=False, load_dtd=False, dtd_validation=False, no_network=True, huge_tree=False,
    remove_comments=True, remove_pis=True,
)  # fmt: skip


class Malformed(Exception):
    """XML that is not well-formed, from its ``line`` on, and the parser's ``reason``."""

    def __init__(self, line: int, reason: str):
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


class Records:
    """Iterates over the elements of a file that have one of ``tags``; each is freed when the next is requested.

    Iterating raises `Malformed` or an exception in `text_files.DAMAGED`, after all records before the damage. After the
    end of a well-formed file, ``root`` is the root element, without the records.
    """

    def __init__(self, path: Path, *tags: str):
        self.path, self.tags, self.root = path, tags, None

    def __iter__(self) -> Iterator[Any]:
        with open_bytes(self.path) as file:
            reader = etree.iterparse(file, events=("end",), tag=self.tags, **SAFELY)
            try:
                for _, record in reader:
                    parent = record.getparent()
                    yield record
                    # Else the tree would grow to the size of the file. The record itself stays until the next one is
                    # complete: the parser goes on from there.
                    while parent is not None and record.getprevious() is not None:
                        del parent[0]
            except etree.XMLSyntaxError as error:
                raise malformed(error, reader.error_log) from None
            self.root = reader.root


def alone(head: bytes, data: bytes, tag: str) -> Any:
    """The element of this tag that ``data`` is, read behind the ``head`` of its file. Raises `Malformed`, its line
    counted from the first of ``data``."""
    # A pull parser need not be given the end of the file, so that nothing has to be known of what the head opens.
    parser = etree.XMLPullParser(events=("end",), tag=tag, **SAFELY)
    try:
        parser.feed(head)
        parser.feed(data)
        for _, element in parser.read_events():
            return element
        parser.close()  # raises what it waited for, or had met before without an exception
    except etree.XMLSyntaxError as error:
        found = malformed(error, parser.feed_error_log)
        # The lines that a reason names ("b line 3 and i") are not those of the file.
        raise Malformed(found.line - head.count(b"\n"), re.sub(r" line \d+", "", found.reason)) from None
    raise Malformed(1, f"no <{tag}>")


def malformed(error: etree.XMLSyntaxError, errors: Any) -> Malformed:
    """The first of the parser's errors: its exception may only say that there is nothing more."""
    line, reason = (errors[0].line, errors[0].message) if len(errors) else (error.lineno, error.msg)
    return Malformed(line, " ".join(str(reason).split()))
