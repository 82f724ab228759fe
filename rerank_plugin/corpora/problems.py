"""Problems with the records of a corpus: counts and examples by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, is_id
from rerank_plugin.text.markup import without_markup

BAD_JSON_LINE = "bad JSON line"
EMPTY_DOCUMENT = "empty document"
MALFORMED_XML = "malformed XML"
MISSING_ID = "missing id"
NO_RECORDS = "file without records"
NOT_PUBMED = "file without PubMed records"
OTHER_ENCODING = "file of another encoding than UTF-8"
TOO_LONG = "too long document"
UNDECODABLE_LINE = "undecodable line"
UNEXPANDED = "unexpanded entity"
UNREAD_PART = "unreadable part of a text"
UNREAD_TEXT = "document with its text under an unknown key"
UNUSABLE_METADATA = "unusable metadata entry"
UNUSABLE_ID = "unusable id"

KEPT = (
    OTHER_ENCODING,
    UNDECODABLE_LINE,
    UNEXPANDED,
    UNREAD_PART,
    UNREAD_TEXT,
    UNUSABLE_METADATA,
)  # kinds of problems whose records are kept, without the unreadable part

_PLURALS = {
    MALFORMED_XML: MALFORMED_XML,
    NO_RECORDS: "files without records",
    NOT_PUBMED: "files without PubMed records",
    OTHER_ENCODING: "files of other encodings than UTF-8",
    UNEXPANDED: "unexpanded entities",
    UNREAD_PART: "unreadable parts of texts",
    UNREAD_TEXT: "documents with their text under an unknown key",
    UNUSABLE_METADATA: "unusable metadata entries",
}

EXAMPLES = 5  # of each kind
LONGEST = 20_000_000  # characters of a document; a whole book has a million


class Problems:
    """Counts problems by kind, and keeps the places of the first few of each kind.

    A kind is a singular noun ("bad JSON line"). With ``strict`` the first problem raises an InputError.
    """

    def __init__(self, strict: bool = False):
        self.strict = strict
        self.counts: dict[str, int] = {}
        self.examples: dict[str, list[str]] = {}

    def add(self, kind: str, where: str) -> None:
        """Add one problem; ``where`` is a place such as ``file.jsonl:17``, or an id."""
        if self.strict:
            raise InputError(f"{kind}: {where}: repair or remove it, or read the corpus without strict checking")
        self.counts[kind] = self.counts.get(kind, 0) + 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(where)

    def include(self, counts: Mapping[str, int], examples: Mapping[str, list[str]]) -> None:
        """Add problems that another object counted."""
        for kind, count in counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.examples[kind] = [*self.examples.get(kind, ()), *examples[kind]][:EXAMPLES]

    @property
    def total(self) -> int:
        """The number of problems of all kinds."""
        return sum(self.counts.values())

    def summary(self, kept: bool | None = None) -> list[str]:
        """One line per kind, most frequent first: ``3 bad JSON lines: a.jsonl:17, a.jsonl:19, b.jsonl:2``.

        Args:
            kept: True for the kinds whose records are kept, False for those whose records are left out, None for all.
        """
        lines = []
        for kind, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0])):
            if kept is None or kept == (kind in KEPT):
                more = ", ..." if count > len(self.examples[kind]) else ""
                noun = kind if count == 1 else _PLURALS.get(kind, f"{kind}s")
                lines.append(f"{count:,} {noun}: {', '.join(self.examples[kind])}{more}")
        return lines


def usable(
    id: object,
    title: str,
    abstract: str,
    where: str,
    problems: Problems,
    ids_required: bool,
    metadata: Mapping[str, Any] | None = None,
) -> Document | None:
    """The document of a record; None for an unusable record, which is added to ``problems``.

    A usable record has a title or an abstract, together at most `LONGEST` characters, and, with ``ids_required``, an
    id (:func:`~rerank_plugin.base.records.is_id`). ``metadata`` has the form of
    :mod:`rerank_plugin.base.filters`. Its texts lose inline markup.
    """
    title, abstract = without_markup(title), without_markup(abstract)
    if not ids_required:
        id = id if isinstance(id, str) else ""
    elif id is None or id == "":
        problems.add(MISSING_ID, where)
        return None
    elif not is_id(id):
        problems.add(UNUSABLE_ID, f"{where} ({id!r:.50})")
        return None
    if not title.strip() and not abstract.strip():
        problems.add(EMPTY_DOCUMENT, where if where.endswith(id) else f"{where} ({id})")
        return None
    if (length := len(title) + len(abstract)) > LONGEST:
        problems.add(TOO_LONG, f"{where} ({id}: {length:,} characters of at most {LONGEST:,})")
        return None
    return Document(id, title, abstract, metadata)
