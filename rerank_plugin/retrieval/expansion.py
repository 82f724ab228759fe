"""What else the words of a query find: other spellings, names as phrases, subjects, and the names of MeSH headings.

Without any of them the query is Anserini's bag of words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.concepts.headings import Headings
from rerank_plugin.indexes.lucene_reader import clauses
from rerank_plugin.java.jvm import java_class
from rerank_plugin.text.spelling import spellings

SPELLINGS, PHRASES, SUBJECTS, MESH = "spellings", "phrases", "subjects", "mesh"
KINDS = (SPELLINGS, PHRASES, SUBJECTS, MESH)
SUBJECTS_WEIGHT = 0.3  # of a match in headings, chemicals and keywords, beside one in the text
MESH_WEIGHT = 0.3  # of another name of a heading
MOST_NAMES = 20  # of a heading


def kinds_of(expand: str) -> frozenset[str]:
    """The kinds in a list with commas; an `InputError` for an unknown one."""
    kinds = [kind.strip() for kind in expand.split(",") if kind.strip()]
    if wrong := next((kind for kind in kinds if kind not in KINDS), None):
        raise InputError(unknown("kind of expansion", wrong, KINDS))
    return frozenset(kinds)


class Expansion:
    """Builds Lucene's query of a text with these kinds of expansion.

    Args:
        kinds: of `KINDS`.
        field: the field of texts that is searched.
        tokens: the terms of a text in that field.
        headings: of MeSH; an `InputError` without them if they are asked for.
    """

    def __init__(
        self, kinds: frozenset[str], field: str, tokens: Callable[[str], Sequence[str]], headings: Headings | None
    ):
        if MESH in kinds and headings is None:
            raise InputError("expansion by mesh needs an index with MeSH: build it with a knowledge base")
        self.kinds, self.field, self.tokens, self.headings = kinds, field, tokens, headings
        package = "org.apache.lucene"
        self.term, self.term_query = (java_class(f"{package}.{name}") for name in ("index.Term", "search.TermQuery"))

    def query(self, text: str) -> Any:
        """The query of a text; it matches nothing if that has no word."""
        words = text.split()
        parts = [part for word in words for part in self._word(word)]
        if SUBJECTS in self.kinds:
            terms = dict.fromkeys(token for word in words for token in self.tokens(word))
            parts += [self._weighted(self._term("subjects", term), SUBJECTS_WEIGHT) for term in terms]
        if MESH in self.kinds:
            parts += [self._weighted(part, MESH_WEIGHT) for part in self._names(words)]
        if not parts:
            return java_class("org.apache.lucene.search.MatchNoDocsQuery")()
        return clauses(*((part, "SHOULD") for part in parts))

    def _word(self, word: str) -> list[Any]:
        """The queries of a word: its terms; of names as phrases and other spellings the best."""
        own = tuple(self.tokens(word))
        if not own:
            return []
        forms = [own, *(tuple(self.tokens(form)) for form in (spellings(word) if SPELLINGS in self.kinds else ()))]
        forms = [form for form in dict.fromkeys(forms) if form]
        if len(own) == 1:
            return [self._best([self._same([form[0] for form in forms if len(form) == 1]), *self._phrases(forms)])]
        others = forms if PHRASES in self.kinds else forms[1:]
        single = [form[0] for form in others if len(form) == 1]
        more = [*self._phrases(others), *([self._same(single)] if single else [])]
        return [*(self._term(self.field, term) for term in own), *([self._best(more)] if more else [])]

    def _names(self, words: list[str]) -> list[Any]:
        """The queries of the other names of the headings that words name."""
        assert self.headings is not None, "checked"
        queries, words = [], [word.strip(",;.?:()") for word in words]
        while words:
            count, heading = self.headings.longest(words) or (1, "")
            if heading:
                own = tuple(self.tokens(" ".join(words[:count])))
                names = [tuple(self.tokens(name)) for name in self.headings.names(heading)[:MOST_NAMES]]
                if others := [name for name in dict.fromkeys(names) if name and {*name} != {*own}]:
                    single = [self._term(self.field, name[0]) for name in others if len(name) == 1]
                    queries.append(self._best([*single, *self._phrases(others)]))
            words = words[count:]
        return queries

    def _term(self, field: str, term: str) -> Any:
        return self.term_query(self.term(field, term))

    def _same(self, terms: Sequence[str]) -> Any:
        """The query of terms that count as one."""
        if len(terms) == 1:
            return self._term(self.field, terms[0])
        builder = java_class("org.apache.lucene.search.SynonymQuery$Builder")(self.field)
        for term in terms:
            builder.addTerm(self.term(self.field, term))
        return builder.build()

    def _phrases(self, forms: Iterable[tuple[str, ...]]) -> list[Any]:
        phrases = []
        for form in forms:
            if len(form) > 1:
                builder = java_class("org.apache.lucene.search.PhraseQuery$Builder")()
                for term in form:
                    builder.add(self.term(self.field, term))
                phrases.append(builder.build())
        return phrases

    def _best(self, queries: list[Any]) -> Any:
        if len(queries) == 1:
            return queries[0]
        of_all = java_class("java.util.ArrayList")()
        for query in queries:
            of_all.add(query)
        return java_class("org.apache.lucene.search.DisjunctionMaxQuery")(of_all, 0.0)

    def _weighted(self, query: Any, weight: float) -> Any:
        return java_class("org.apache.lucene.search.BoostQuery")(query, weight)
