"""Reads click logs ([D18] 4.1, [D17] 3.1 and appendix A).

A log is a tab-separated file, also .gz, with a header that names its columns, in any order:

    query             the text of the query as the user entered it
    document          the document's id
    impressions       how often the document was shown for the query
    summary_clicks    clicks to its summary page (title and abstract)
    full_text_clicks  clicks from there to its full text
    full_text         1 if its full text is available, else 0
    query_id          optional: an id of the query

A line holds the counts of a period, such as a day; the counts of lines with the same query and document are summed.
Other columns are ignored. The papers leave these choices open:

* The full text of a document is available if any line of the document has 1.
* Without query ids, queries are equal if their texts differ only in white space and, after the filters, which depend on
  capitals, in letter case (`merged`). Their ids are derived from the text, so a query has the same id in any log.
* A document is clicked if it has a click of either kind. Impressions are summed, but no formula uses them: a query's
  documents are the documents of its lines.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.columns import rows

COUNTS = ("impressions", "summary_clicks", "full_text_clicks")
COLUMNS = ("query", "document", *COUNTS, "full_text")
OPTIONAL = "query_id"
LONGEST = 12  # digits of a count


class Counts(NamedTuple):
    """The counts of a document for a query."""

    impressions: int
    summary_clicks: int
    full_text_clicks: int

    @property
    def clicked(self) -> bool:
        return self.summary_clicks + self.full_text_clicks > 0


class LoggedQuery(NamedTuple):
    """A query's text, with single spaces, and its documents."""

    text: str
    documents: dict[str, Counts]


class ClickLog(NamedTuple):
    """The summed counts of a log."""

    queries: dict[str, LoggedQuery]  # by id
    full_text: set[str]  # ids of the documents with an available full text
    ids_given: bool  # whether the log has query ids; otherwise they are the `derived_id` of the text


def derived_id(text: str) -> str:
    """A query's id derived from its text: a 64-bit hash, so collisions are unlikely among a billion queries."""
    return "q" + hashlib.sha256(text.encode()).hexdigest()[:16]


def read(*paths: Path, progress: Callable[[Iterable], Iterable] = iter) -> ClickLog:
    """Read the files of a log; ``progress`` wraps the lines. An invalid line is an InputError that names it."""
    queries: dict[str, LoggedQuery] = {}
    available: set[str] = set()
    documents: dict[str, str] = {}  # each id once, shared by all queries
    by_name: dict[str, tuple[str, LoggedQuery]] = {}  # by id or by the text as written, so each text is parsed once
    ids_given = False
    for where, values in progress(chain.from_iterable(rows(path, COLUMNS, (OPTIONAL,)) for path in paths)):
        text, document, impressions, summary, full_text_clicks, full_text, *id = values
        if queries and bool(id) != ids_given:
            raise InputError(f"{where}: some files of the log have {OPTIONAL} and others not: convert them separately")
        ids_given = bool(id)
        name = id[0] if id else text
        if name not in by_name:
            normalized = " ".join(text.split())
            if not normalized:
                raise InputError(f"{where}: the query is empty: remove the line")
            key = _id(OPTIONAL, name, where) if id else derived_id(normalized)
            by_name[name] = text, queries.setdefault(key, LoggedQuery(normalized, {}))
        written, query = by_name[name]
        if written != text and query.text != " ".join(text.split()):
            raise InputError(
                f"{where}: the query id {name} belongs to {query.text!r} and here to {text!r}: give each its own id"
            )
        doc_id = documents.get(document) or documents.setdefault(document, _id("document", document, where))
        counts = _counts((impressions, summary, full_text_clicks), full_text, where)
        query.documents[doc_id] = _sum(query.documents.get(doc_id), counts)
        if full_text == "1":
            available.add(doc_id)
    if not queries:
        raise InputError(f"{', '.join(map(str, paths))}: holds no clicks: expected lines below the header")
    return ClickLog(queries, available, ids_given)


def merged(queries: Mapping[str, LoggedQuery]) -> dict[str, LoggedQuery]:
    """Merge queries whose texts differ in letter case only; the ids are derived from the case-folded text.

    The text is the spelling with the most clicks; ties are broken alphabetically.
    """
    spellings: dict[str, list[LoggedQuery]] = defaultdict(list)
    for query in queries.values():
        spellings[query.text.casefold()].append(query)
    result = {}
    for text, variants in spellings.items():
        documents: dict[str, Counts] = {}
        for query in variants:
            for document, counts in query.documents.items():
                documents[document] = _sum(documents.get(document), counts)
        best = min(variants, key=lambda query: (-_clicks(query), query.text))
        result[derived_id(text)] = LoggedQuery(best.text, documents)
    return result


def _clicks(query: LoggedQuery) -> int:
    return sum(counts.summary_clicks + counts.full_text_clicks for counts in query.documents.values())


def _sum(first: Counts | None, second: Counts) -> Counts:
    return second if first is None else Counts(*map(sum, zip(first, second)))


def _counts(texts: tuple[str, str, str], full_text: str, where: str) -> Counts:
    for name, text in zip(COUNTS, texts):
        if not (text.isascii() and text.isdigit() and len(text) <= LONGEST):
            raise InputError(f"{where}: {name} is {text!r:.50}: expected a whole number from 0 to {10**LONGEST - 1:,}")
    counts = Counts(*map(int, texts))
    if full_text not in ("0", "1"):
        raise InputError(f"{where}: full_text is {full_text!r}: expected 0 or 1")
    if counts.full_text_clicks and full_text == "0":
        raise InputError(f"{where}: full_text_clicks is {counts.full_text_clicks} but full_text is 0: correct one")
    return counts


def _id(name: str, text: str, where: str) -> str:
    if text.split() != [text]:
        raise InputError(f"{where}: {name} is {text!r}: expected an id without white space")
    return text
