"""Words of a query that no document has, read as words that documents have where that is plain.

They are in another spelling by rule (:mod:`rerank_plugin.text.spelling`), or the model does not know them either and
they are one letter away from a word that it knows and documents have: the commonest, if documents have it at least
`PLAIN` times as often as the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np

from rerank_plugin.base.records import Query
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.text.near_words import NearWords, replaced
from rerank_plugin.text.spelling import spellings
from rerank_plugin.text.vocabulary import Vocabulary

PLAIN = 2
MOST_WORDS = 16  # of a query that are looked for
KEPT = 1024  # last queries: notes and searches ask for the same


class MeantWords:
    """Reads the words of queries over an index, for a model with this vocabulary. It is thread-safe."""

    def __init__(self, forward: ForwardIndex, vocabulary: Vocabulary):
        self.forward, self.vocabulary = forward, vocabulary
        self._of_text = lru_cache(KEPT)(self._meant)

    def of(self, text: str) -> dict[str, str]:
        """The words of a text that are read as others, and those."""
        return dict(self._of_text(text))

    def read(self, query: Query) -> Query:
        """The query with the words that are meant; the same if there are no others."""
        for word, other in self._of_text(query.text):
            query = query._replace(text=replaced(query.text, word, other))
        return query

    def known(self, query: Query) -> Query:
        """The query without the words that neither a document has nor the model knows; the same if it has no others."""
        terms = self.forward.query(query.text)
        unknown = {word for word, id in zip(terms.terms, terms.ids.tolist()) if id < 0 and word not in self.vocabulary}
        if unknown == set(terms.terms):
            return query
        for word in unknown:
            query = query._replace(text=replaced(query.text, word, ""))
        return query

    @cached_property
    def _near(self) -> NearWords:
        words = self.vocabulary.words
        return NearWords(words[id] for id in np.flatnonzero(self.forward.terms.find(words) >= 0).tolist())

    def _meant(self, text: str) -> tuple[tuple[str, str], ...]:
        terms = self.forward.query(text)
        absent = dict.fromkeys(word for word, id in zip(terms.terms, terms.ids.tolist()) if id < 0)
        pairs = ((word, self._other(word)) for word in list(absent)[:MOST_WORDS])
        return tuple((word, other) for word, other in pairs if other is not None)

    def _other(self, word: str) -> str | None:
        """The word that an absent one is read as; None if none is plain."""
        if counted := self._counted(spellings(word)[1:]):
            return counted[0][1]
        counted = [] if word in self.vocabulary else self._counted(self._near.find(word))
        return counted[0][1] if counted[:1] and sum(PLAIN * n > counted[0][0] for n, _ in counted) == 1 else None

    def _counted(self, words: Iterable[str]) -> list[tuple[int, str]]:
        """Those of the words that documents have, with the number of these, the commonest first."""
        queries = [self.forward.query(word) for word in words]
        frequency = self.forward.document_frequency["text"]
        single = [one for one in queries if len(one.terms) == 1 and one.ids[0] >= 0]
        return sorted(((int(frequency[one.ids[0]]), one.terms[0]) for one in single), reverse=True)
