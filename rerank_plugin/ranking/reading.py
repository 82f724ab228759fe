"""What a typed text means: plain words to rank by, or a strategy in PubMed's language, an id, an author or a journal.

A strategy becomes part of the query's filter, as every other filter, and its words rank the documents that match.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.base.strategy import ALL, OR, Group, Strategy, Term, ranking_words
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.pipeline import MOST_RANKED, Reading
from rerank_plugin.text.pubmed_syntax import Reader, is_strategy

PLAIN: Literal["plain"] = "plain"
PUBMED: Literal["pubmed"] = "pubmed"
SYNTAXES = (PLAIN, PUBMED)
MOST_IDS = 1000
_PREFIX = re.compile(r"\s*(?:pmid|pubmed id|https?://pubmed\.ncbi\.nlm\.nih\.gov/)[:\s]*(?=\d)", re.IGNORECASE)
_DOI = re.compile(r"\s*(?:doi:\s*|https?://(?:dx\.)?doi\.org/)?(10\.\d{4,9}/\S+?)\s*", re.IGNORECASE)
_PMC = re.compile(r"\s*(PMC\d{1,9})\s*", re.IGNORECASE)
# A last name of up to four words, and initials; or names that all begin with a capital letter.
_AUTHOR = re.compile(r"\s*(?:[^\W\d_][\w'’.-]*,? ){1,4}(?:[^\W\d_]\.? ?){1,3}\s*")
_CAPITALS = re.compile(
    r"\s*(?:[^\W\d_a-zß-ÿ][\w'’.&-]*|of|the|and|de|&)(?: (?:[^\W\d_a-zß-ÿ][\w'’.&-]*|of|the|and|de|&))+\s*"
)
_WORD = re.compile(r"\s*(?=[\w/+-]*[^\W\d_])[\w/+'’-]+\s*")


def read(index: Index, query: Query, syntax: str = PUBMED, rank_by: str | None = None) -> Reading:
    """Read the text of a query.

    Args:
        syntax: ``plain`` for words only, ``pubmed`` for strategies, too.
        rank_by: the text that ranks a strategy's set, instead of its own words.

    Raises:
        InputError: an unknown syntax, or a malformed strategy, of which the message names the place and the cure.
    """
    if syntax not in SYNTAXES:
        raise InputError(unknown("query syntax", syntax, SYNTAXES))
    reader, text = Reader(), query.text.encode(errors="replace").decode()  # a terminal may pass half a character
    strategy = None if syntax == PLAIN else _strategy(index, text, reader)
    if strategy is None:
        if rank_by is not None:
            raise InputError(
                "a text to rank by is for a strategy in PubMed's language, as cats AND dogs; plain words rank by "
                "themselves"
            )
        return Reading(query)
    filter = replace(query.filter or Filter(()), strategy=strategy)
    matches = index.matches(filter)
    words = ranking_words(strategy) if rank_by is None else rank_by
    notes = [*reader.notes, *matches.notes]
    if matches.total > MOST_RANKED:
        notes.append(f"{matches.total:,} documents match: {MOST_RANKED:,} of them are ranked")
    return Reading(query._replace(text=words, filter=filter), str(strategy), matches.total, tuple(notes))


def _strategy(index: Index, text: str, reader: Reader) -> Strategy | None:
    """The strategy that a text is; None for plain words."""
    if is_strategy(text):
        return reader.read(text)
    if ids := _ids(index, text, reader):
        return ids
    if match := _DOI.fullmatch(text):
        return Term(match[1].rstrip(".,;"), "doi")
    if match := _PMC.fullmatch(text):
        return Term(match[1], "pmc")
    stripped = " ".join(text.split())
    candidates = []
    if _AUTHOR.fullmatch(text) or (_CAPITALS.fullmatch(text) and len(stripped.split()) < 4):
        candidates.append(Term(stripped, "au"))
    if _CAPITALS.fullmatch(text):
        candidates.append(Term(stripped, "ta"))
    elif _WORD.fullmatch(text):
        candidates = [Term(stripped, ALL), Term(stripped, "au"), Term(stripped, "ta")]
    return next((term for term in candidates if index.matches(Filter((), strategy=term)).total), None)


def _ids(index: Index, text: str, reader: Reader) -> Strategy | None:
    """The documents of a text of ids only, of which the index has one or more; those that it lacks get a note."""
    ids = re.split(r"[\s,;]+", _PREFIX.sub("", text, count=1).strip(" \t\n/,;"))
    if len(ids) > MOST_IDS or not all(any(map(str.isdigit, id)) for id in ids):
        return None
    known = index.forward.rows(ids) >= 0
    if not known.any() or not (known.all() or all(id.isdecimal() for id in ids)):
        return None
    if lacking := [id for id, has in zip(ids, known) if not has]:
        reader.notes.append(f"the index has no document {', '.join(lacking[:10])}{' ...' if lacking[10:] else ''}")
    terms = tuple(Term(id, "pmid") for id, has in zip(ids, known) if has)
    return terms[0] if len(terms) == 1 else Group(OR, terms)
