"""Click logs, and the relevance of documents that they tell ([D18] 4.1, [D17] 3.1 and appendix A).

A log is a tab-separated file, also .gz, with a header that names its columns, in any order:

    query             the text as it was searched for
    document          the document's id
    impressions       how often the document was shown for the query
    summary_clicks    clicks on it that led to its summary page (title and abstract)
    full_text_clicks  clicks from there to its full text
    full_text         1 if its full text is available, else 0
    query_id          optional: an id of the query

A line holds the counts of some time, a day for example; lines of the same query and document are added up. Other
columns are ignored. What the papers leave open is decided here:

* Full text is a matter of the document: it counts as available if any line of the document says so.
* Without query ids, queries are the same when their texts differ only in white space and, once the filters have read
  the capitals, in letter case (`merged`). Their ids are derived from the text, so a query has the same id in any log.
* A document is clicked if there was a click of either kind. Impressions are read and added up, but no formula uses
  them: a document is one of a query's documents because a line says so.
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


class Counts(NamedTuple):
    """What happened to one document of one query."""

    impressions: int
    summary_clicks: int
    full_text_clicks: int

    @property
    def clicked(self) -> bool:
        return self.summary_clicks + self.full_text_clicks > 0


class LoggedQuery(NamedTuple):
    """A query's text, white space made single, and its documents."""

    text: str
    documents: dict[str, Counts]


class ClickLog(NamedTuple):
    """A log, added up."""

    queries: dict[str, LoggedQuery]  # by id
    full_text: set[str]  # ids of the documents whose full text is available
    ids_given: bool  # whether the log has ids of its own; otherwise they are `derived_id` of the text


def derived_id(text: str) -> str:
    """A query's id derived from its text: a 64-bit hash, so that collisions are unlikely among a billion queries."""
    return "q" + hashlib.sha256(text.encode()).hexdigest()[:16]


def read(*paths: Path, progress: Callable[[Iterable], Iterable] = iter) -> ClickLog:
    """Read the files of a log, their lines through ``progress``. An invalid line is an InputError that names it."""
    queries: dict[str, LoggedQuery] = {}
    available: set[str] = set()
    documents: dict[str, str] = {}  # one string for an id, however many queries have it
    by_name: dict[str, tuple[str, LoggedQuery]] = {}  # by id or text as written, so that each text is read once
    ids_given = False
    for where, values in progress(chain.from_iterable(rows(path, COLUMNS, (OPTIONAL,)) for path in paths)):
        text, document, impressions, summary, full_text_clicks, full_text, *id = values
        if queries and bool(id) != ids_given:
            raise InputError(f"{where}: some files of the log have {OPTIONAL} and others not: read them one by one")
        ids_given = bool(id)
        name = id[0] if id else text
        if name not in by_name:
            single = " ".join(text.split())
            if not single:
                raise InputError(f"{where}: the query is empty: remove the line")
            key = _id(OPTIONAL, name, where) if id else derived_id(single)
            by_name[name] = text, queries.setdefault(key, LoggedQuery(single, {}))
        written, query = by_name[name]
        if written != text and query.text != " ".join(text.split()):
            raise InputError(
                f"{where}: the query id {name} is that of {query.text!r} and here of {text!r}: give each its own"
            )
        known = documents.get(document) or documents.setdefault(document, _id("document", document, where))
        counts = _counts((impressions, summary, full_text_clicks), full_text, where)
        query.documents[known] = _sum(query.documents.get(known), counts)
        if full_text == "1":
            available.add(known)
    if not queries:
        raise InputError(f"{', '.join(map(str, paths))}: holds no clicks: expected lines below the header")
    return ClickLog(queries, available, ids_given)


def merged(queries: Mapping[str, LoggedQuery]) -> dict[str, LoggedQuery]:
    """The queries with those put together whose texts differ in letter case only, under ids derived from lower case.

    The text is the spelling with the most clicks; ties are broken alphabetically.
    """
    spellings: dict[str, list[LoggedQuery]] = defaultdict(list)
    for query in queries.values():
        spellings[query.text.casefold()].append(query)
    result = {}
    for text, same in spellings.items():
        documents: dict[str, Counts] = {}
        for query in same:
            for document, counts in query.documents.items():
                documents[document] = _sum(documents.get(document), counts)
        best = min(same, key=lambda query: (-sum(sum(one[1:]) for one in query.documents.values()), query.text))
        result[derived_id(text)] = LoggedQuery(best.text, documents)
    return result


def _sum(first: Counts | None, second: Counts) -> Counts:
    return second if first is None else Counts(*map(sum, zip(first, second)))


def _counts(texts: tuple[str, str, str], full_text: str, where: str) -> Counts:
    for name, text in zip(COUNTS, texts):
        if not (text.isascii() and text.isdigit()):
            raise InputError(f"{where}: {name} is {text!r}: expected a whole number from 0 on")
    counts = Counts(*map(int, texts))
    if full_text not in ("0", "1"):
        raise InputError(f"{where}: full_text is {full_text!r}: expected 0 or 1")
    if counts.full_text_clicks and full_text == "0":
        raise InputError(f"{where}: full_text_clicks is {counts.full_text_clicks} where full_text is 0: correct one")
    return counts


def _id(name: str, text: str, where: str) -> str:
    if text.split() != [text]:
        raise InputError(f"{where}: {name} is {text!r}: expected an id without white space")
    return text
