"""Words of a query that no document has, and the words of the index that may be meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from time import perf_counter
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.metadata_fields import UNSTEMMED
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.lucene_reader import similar_terms
from rerank_plugin.indexes.strategy_query import StrategyQueries
from rerank_plugin.text.near_words import replaced

SHORTEST = 4  # letters of a word that may be misspelled
TWO_EDITS = 6  # letters of a word in which two letters may be wrong
MOST_WORDS = 5  # that are looked up
MOST_SECONDS = 0.1  # for all of them
MOST_READ = 200  # similar words
RARE, COMMONER = 2, 50  # documents with a word that may be misspelled where little is found; times as many have another


def suggest(index: Index, text: str, words: str, found_little: bool = False) -> tuple[list[str], str | None]:
    """Notes that name the words of a query that no document has, and the query with words that are meant instead.

    Args:
        text: the query as it was written.
        words: its words that are to be found.
        found_little: whether words that hardly any document has may be misspelled, too.
    """
    query = index.forward.query(words)
    frequency = index.forward.document_frequency["text"]
    known = {word: int(frequency[term]) if term >= 0 else 0 for word, term in zip(query.terms, query.ids.tolist())}
    doubtful = [
        word
        for word, documents in known.items()
        if len(word) >= SHORTEST and word.isalpha() and documents <= (RARE if found_little else 0)
    ]
    if not doubtful:
        return [], None
    notes, meant = [], text
    written = {token.lower(): token for token in re.findall(r"\w+", text)}  # TNFa has spellings that tnfa has not
    with suppress(InputError):  # not of a cluster
        similar = _Similar(index, index.shared_reader)
        for word in doubtful[:MOST_WORDS]:
            other = None
            if similar.is_known(written.get(word, word)):
                other = similar.nearest(word, COMMONER * max(1, known[word])) if found_little else None
            else:
                other = similar.nearest(word)
                notes.append(f"no document has '{word:.60}'" + (f": did you mean {other}?" if other else ""))
            if other is not None:
                meant = replaced(meant, word, other)
    return notes, None if meant == text else meant


class _Similar:
    """Looks up words and similar ones in the terms of an index, for at most `MOST_SECONDS`."""

    def __init__(self, index: Index, reader: Any):
        self.reader, self.queries = reader, StrategyQueries(reader, index.description["lucene"])
        self.fields = [name for name in UNSTEMMED if name in self.queries.fields]
        self.until = perf_counter() + MOST_SECONDS  # loading classes takes longer, once

    def is_known(self, word: str) -> bool:
        """Whether a document has the word, by its stem, in any spelling."""
        query = self.queries.loose(word)
        return query is None or self.queries.searcher.count(query) > 0

    def nearest(self, word: str, least: int = 1) -> str | None:
        """The commonest word of the index with one other letter, or else with two; ``least`` documents have it."""
        for edits in (1, 2) if len(word) >= TWO_EDITS else (1,):
            found = [pair for pair in self._within(word, edits) if pair[1] >= least and pair[0] != word]
            if found:
                return max(found, key=lambda pair: (pair[1], pair[0]))[0]
        return None

    def _within(self, word: str, edits: int) -> Iterator[tuple[str, int]]:
        """The words of the index that begin alike, within so many edits, and the documents that have each."""
        for field in self.fields:
            if perf_counter() > self.until:
                return
            for found in islice(similar_terms(self.reader, field, word, edits), MOST_READ):
                yield found
                if perf_counter() > self.until:
                    return
