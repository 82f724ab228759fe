"""Lucene's query of a Boolean strategy (:mod:`rerank_plugin.base.strategy`), built of objects and never of a text.

Words without a tag and without quotes are found as in a ranked search, by their stems, and in their other spellings;
phrases, truncated words and words with a tag as they stand, as PubMed does. An index of another program has no fields
of words as they stand: there, stems are searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from rerank_plugin.base.filters import Filter, compared
from rerank_plugin.base.metadata_fields import UNSTEMMED
from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.base.strategy import ALL, AND, AUTHORS, NOT, OR, WORDS, Dates, Strategy, Term
from rerank_plugin.indexes.lucene_analysis import PORTER, analyzer, normalizer_of, unstemmed_analyzer
from rerank_plugin.indexes.lucene_reader import CONTENTS, clauses, filter_query, indexed_fields
from rerank_plugin.java.jvm import java_class
from rerank_plugin.text.spelling import spellings

_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)  # a word that also is the year of a document
MOST_FORMS = 1000  # terms that a truncated word stands for in a field
MOST_COMPARED = 200  # of them, to find the commonest
MOST_FORMS_TOGETHER = 100_000  # of a strategy
NONE = "no document of the index has"  # begins notes that hold for a cluster if they do for each of its indexes
MOST_SHOWN = 5  # values that no document has
MOST_CLAUSES = 1 << 16  # of Lucene's query, fields and spellings included
FIELDS_OF_TAGS = {
    ALL: ("title", "abstract", "subjects", "other_text"),
    "ti": ("title",),
    "ab": ("abstract",),
    "tiab": ("title", "abstract", "other_text"),
    "tw": ("title", "abstract", "subjects", "other_text"),
}  # of texts
STEMMED = (CONTENTS, "subjects", "other_text")
VALUES = {
    "vi": ("volume", "volume"),
    "ip": ("issue", "issue"),
    "pg": ("pages", "pages"),
    "rn": ("registry_numbers chemicals", "chemical"),
    "au": ("author_names", "author"),
    "1au": ("first_author", "author"),
    "ta": ("journal_names", "journal"),
    "mh": ("mesh", "mesh"),
    "majr": ("major_topics", "major"),
    "sh": ("subheadings", "subheading"),
    "pt": ("type_names", "type"),
    "la": ("language_names", "language"),
    "nm": ("chemicals", "chemical"),
    "ot": ("keywords", "keyword"),
    "dp": ("date electronic_date", "year"),
    "ppdat": ("date", "year"),
    "epdat": ("electronic_date", "year"),
    "edat": ("entry_date", "entered"),
    "crdt": ("create_date", "entered"),
}  # of entire values: the fields in Lucene, and the filter that compares them
_INITIALS = re.compile(r".*\S (?:[^\W\d_]{1,2}|[A-Z]{3,4})")  # behind a last name
_RANGE = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
IDS = {"pmid": ("id", "pmid"), "doi": ("doi",), "pmc": ("pmc",)}


class StrategyQueries:
    """Builds Lucene's queries of strategies over one index.

    Args:
        reader: an IndexReader.
        lucene: the part ``lucene`` of the index's description.

    Attributes:
        notes: what the index could not answer, in the order of the strategy.
    """

    def __init__(self, reader: Any, lucene: dict):
        package = "org.apache.lucene"
        self.reader, self.notes, self.fields = reader, dict[str, None](), frozenset(indexed_fields(reader))
        self.forms = 0  # read of all truncated words
        self.missing = dict[str, None]()  # values that no document has
        self.built = dict[Strategy, Any]()  # a part that is repeated is built once
        self.searcher = java_class(f"{package}.search.IndexSearcher")(reader)
        self.searcher.setMaxClauseCount(MOST_CLAUSES)
        self.analyzer, self.read = analyzer(lucene.get("analyzer", PORTER)), normalizer_of(lucene)
        builder = java_class(f"{package}.util.QueryBuilder")
        self.unstemmed_analyzer = unstemmed_analyzer()
        self.stems, self.as_they_stand = builder(self.analyzer), builder(self.unstemmed_analyzer)
        self.term, self.term_query = java_class(f"{package}.index.Term"), java_class(f"{package}.search.TermQuery")

    def query(self, strategy: Strategy) -> Any:
        """The query; it matches nothing where no part of the strategy can match."""
        query = self._query(strategy) or java_class("org.apache.lucene.search.MatchNoDocsQuery")()
        for value in list(self.missing)[:MOST_SHOWN]:
            self._note(f"{NONE} {value}")
        if len(self.missing) > MOST_SHOWN:
            self._note(f"{NONE} {len(self.missing) - MOST_SHOWN} more of its values")
        return query

    def _query(self, strategy: Strategy) -> Any | None:
        """The query of a part; None for one of stop words only, which is left out."""
        if strategy not in self.built:
            self.built[strategy] = self._new_query(strategy)
        return self.built[strategy]

    def _new_query(self, strategy: Strategy) -> Any | None:
        stop_if_asked()
        if isinstance(strategy, Dates):
            return self._dates(strategy)
        if isinstance(strategy, Term):
            if strategy.field in WORDS:
                return self._words(strategy)
            if strategy.field == "sb":
                return self._with_abstract(strategy)
            return self._ids(strategy) if strategy.field in IDS else self._value(strategy)
        if not strategy.parts:
            return java_class("org.apache.lucene.search.MatchAllDocsQuery")()
        queries = [self._query(part) for part in strategy.parts]
        kept = [query for query in queries if query is not None]
        if strategy.role == OR:
            return _any(kept)
        if strategy.role == AND:
            return clauses(*((query, "FILTER") for query in kept)) if kept else None
        assert strategy.role == NOT
        if queries[0] is None:
            return None
        return clauses((queries[0], "FILTER"), *((query, "MUST_NOT") for query in kept[1:]))

    def _words(self, term: Term) -> Any | None:
        if term.near is not None:
            return self._in_fields(term, self._near)
        if term.truncated:
            return self._in_fields(term, self._truncated)
        if term.phrase:
            return self._in_fields(term, self._phrase)
        if term.field == ALL:
            return self.loose(term.text)
        together = self._in_fields(term, self._phrase)
        if " " not in term.text or (together is not None and self.searcher.count(together)):
            return together
        words = [self._in_fields(term._replace(text=word), self._phrase) for word in term.text.split()]
        return clauses(*((word, "FILTER") for word in words if word is not None)) if any(words) else None

    def _in_fields(self, term: Term, query_in: Callable[[str, Term, Any], Any | None]) -> Any | None:
        """The query of a term in any of its fields of words as they stand, or else of stems."""
        names = FIELDS_OF_TAGS[term.field]
        if not self.fields.isdisjoint(UNSTEMMED):
            unstemmed = [name for name, stemmed in UNSTEMMED.items() if stemmed in names and name in self.fields]
            queries = [query_in(name, term, self.as_they_stand) for name in unstemmed]
        else:
            stemmed = [name for name in names if name in self.fields] or [CONTENTS]
            queries = [query_in(name, term, self.stems) for name in stemmed]
        return _any([query for query in queries if query is not None])

    def _phrase(self, field: str, term: Term, builder: Any) -> Any | None:
        return builder.createPhraseQuery(field, self.read(term.text))

    def loose(self, text: str) -> Any | None:
        """The query of a word by its stem, in each of its spellings."""
        names = [name for name in STEMMED if name in self.fields]
        queries = [self.stems.createPhraseQuery(name, form) for form in spellings(text) for name in names]
        if _YEAR.fullmatch(text) and "date" in self.fields:
            queries.append(self._dates(Dates("dp", text, text)))
        return _any([query for query in queries if query is not None])

    def _tokens(self, text: str, builder: Any) -> list[str]:
        used = self.unstemmed_analyzer if builder is self.as_they_stand else self.analyzer
        return list(java_class("io.anserini.analysis.AnalyzerUtils").analyze(used, self.read(text)).toArray())

    def _near(self, field: str, term: Term, builder: Any) -> Any | None:
        spans = "org.apache.lucene.queries.spans.Span"
        near = java_class(f"{spans}NearQuery").newUnorderedNearQuery(field)
        tokens = list(dict.fromkeys(self._tokens(term.text, builder)))
        if len(tokens) < 2:
            return self._phrase(field, term, builder)
        for token in tokens:
            near.addClause(java_class(f"{spans}TermQuery")(self.term(field, token)))
        return near.setSlop(term.near).build()

    def _truncated(self, field: str, term: Term, builder: Any) -> Any | None:
        """The query of a truncated word, or of a phrase whose last word is truncated."""
        *before, last = self._tokens(term.text, builder) or [self.read(term.text).lower()]
        if builder is self.stems:  # of a stemmed word, the beginning may be longer than its stem
            last = self.read(term.text).lower().split()[-1]
        if not before and builder is self.as_they_stand and (query := self._beginning(field, last)):
            return query
        forms = self._forms(field, last, term)
        if builder is self.stems:
            forms += self._tokens(last, builder)
        if not forms:
            return java_class("org.apache.lucene.search.MatchNoDocsQuery")()
        if not before:
            return self._any_term(field, forms)
        phrase = java_class("org.apache.lucene.search.MultiPhraseQuery$Builder")()
        for token in before:
            phrase.add([self.term(field, token)])
        return phrase.add([self.term(field, form) for form in forms]).build()

    def _beginning(self, field: str, beginning: str) -> Any | None:
        """The query of the terms with a beginning, which Lucene counts in a fraction of the time; None if too many."""
        from jnius import JavaException, cast

        prefix, multi = java_class("org.apache.lucene.search.PrefixQuery"), "org.apache.lucene.search.MultiTermQuery"
        listed = prefix(self.term(field, beginning), java_class(multi).SCORING_BOOLEAN_REWRITE)
        with suppress(JavaException):  # more than MOST_CLAUSES
            forms = cast("org.apache.lucene.search.BooleanQuery", listed.rewrite(self.searcher)).clauses().size()
            if forms <= MOST_FORMS and self.forms + forms <= MOST_FORMS_TOGETHER:
                self.forms += forms
                return prefix(self.term(field, beginning))
        return None

    def _any_term(self, field: str, terms: Iterable[str]) -> Any:
        text, values = java_class("org.apache.lucene.util.BytesRef"), java_class("java.util.ArrayList")()
        for term in terms:
            values.add(text(term.encode()))
        return java_class("org.apache.lucene.search.TermInSetQuery")(field, values)

    def _forms(self, field: str, beginning: str, term: Term) -> list[str]:
        """The terms of a field with a beginning, at most `MOST_FORMS`."""
        terms = java_class("org.apache.lucene.index.MultiTerms").getTerms(self.reader, field)
        if terms is None:
            return []
        iterator, forms = terms.iterator(), list[str]()
        end = java_class("org.apache.lucene.index.TermsEnum$SeekStatus").END
        if iterator.seekCeil(java_class("org.apache.lucene.util.BytesRef")(beginning.encode())) == end:
            return []
        value = iterator.term()
        while value is not None and (form := value.utf8ToString()).startswith(beginning):
            if len(forms) == MOST_FORMS:
                self._note(f"{term.text}* has more than {MOST_FORMS:,} forms: the first in the alphabet are searched")
                break
            if self.forms == MOST_FORMS_TOGETHER:
                self._note(
                    f"{term.text}* has not all its forms: a strategy has at most {MOST_FORMS_TOGETHER:,} of all its "
                    "truncated words"
                )
                break
            self.forms += 1
            forms.append(form)
            value = iterator.next()
        return forms

    def commonest(self, term: Term) -> str:
        """The text of a truncated word or phrase in the form that most titles have."""
        field = "title_exact" if "title_exact" in self.fields else CONTENTS
        *before, beginning = self.read(term.text).lower().split() or [""]
        if (terms := java_class("org.apache.lucene.index.MultiTerms").getTerms(self.reader, field)) is None:
            return term.text
        listed, best = terms.iterator(), (0, beginning)
        found = listed.seekCeil(java_class("org.apache.lucene.util.BytesRef")(beginning.encode()))
        value = None if found.toString() == "END" else listed.term()
        for _ in range(MOST_COMPARED):
            if value is None or not (form := value.utf8ToString()).startswith(beginning):
                break
            best, value = max(best, (int(listed.docFreq()), form)), listed.next()
        return " ".join((*before, best[1]))

    def _value(self, term: Term) -> Any:
        names, compared_as = self._names(term), VALUES[term.field][1]
        value = compared(compared_as, term.text)
        if term.truncated:
            prefix = java_class("org.apache.lucene.search.PrefixQuery")
            return _any([prefix(self.term(name, value)) for name in names])
        exact = term.field in AUTHORS and term.phrase and _INITIALS.fullmatch(term.text) and "authors" in self.fields
        if exact and term.field == "au":
            names = ["authors"]
        values = [value, *(compared(compared_as, heading) for heading in term.below or ())]
        known = [name for name in names if name in self.fields]
        if known and not any(self.reader.docFreq(self.term(name, each)) for name in known for each in values):
            longer = self._longer(known[0], value)
            self.missing[f"{term} ({longer} is there)" if longer else str(term)] = None
        query = _any([self._any_term(name, values) for name in names])
        if exact and term.field == "1au":  # and an author of the document has these initials alone
            return clauses((query, "FILTER"), (self.term_query(self.term("authors", value)), "FILTER"))
        return query

    def _names(self, part: Term | Dates) -> list[str]:
        """The fields of values that a part searches; those that the index has, or else with a note."""
        names = VALUES[part.field][0].split()
        if known := [name for name in names if name in self.fields]:
            return known
        self._note(f"{NONE} what [{part.field}] searches: {part} matches none")
        return names

    def _longer(self, field: str, beginning: str) -> str | None:
        """The first value of a field that begins so and goes on with another word; None if none does."""
        listed = java_class("org.apache.lucene.index.MultiTerms").getTerms(self.reader, field).iterator()
        found = listed.seekCeil(java_class("org.apache.lucene.util.BytesRef")(f"{beginning} ".encode()))
        value = "" if found.toString() == "END" else listed.term().utf8ToString()
        return value if value.startswith(f"{beginning} ") else None

    def _with_abstract(self, term: Term) -> Any | None:
        """The query of documents with an abstract; None for an index of another program, which does not tell."""
        field = next(name for name, text in UNSTEMMED.items() if text == "abstract")
        if field not in self.fields:
            self._note(f"{term} is not indexed here, and is left out")
            return None
        return java_class("org.apache.lucene.search.FieldExistsQuery")(field)

    def _ids(self, term: Term) -> Any:
        value = term.text.lower() if term.field != "pmid" else term.text
        if term.field == "pmid" and (match := _RANGE.fullmatch(value)):
            interval = java_class("org.apache.lucene.util.automaton.Automata").makeDecimalInterval
            numbers, query = (
                interval(*map(int, match.groups()), 0),
                java_class("org.apache.lucene.search.AutomatonQuery"),
            )
            return _any([query(self.term(field, ""), numbers) for field in IDS["pmid"]])
        return _any([self.term_query(self.term(field, value)) for field in IDS[term.field]])

    def _dates(self, dates: Dates) -> Any:
        first = dates.first
        while first.endswith("-01"):  # a date without day or month is at its beginning
            first = first[:-3]
        term_range = java_class("org.apache.lucene.search.TermRangeQuery")
        last = f"{dates.last}~"  # which sorts after digits and hyphens
        return _any([term_range.newStringRange(name, first, last, True, False) for name in self._names(dates)])

    def _note(self, note: str) -> None:
        self.notes[note] = None


def matching_query(filter: Filter, reader: Any, lucene: dict, notes: list[str] | None = None) -> Any:
    """Lucene's query for the documents that match a filter and its strategy.

    Args:
        reader, lucene: as of `StrategyQueries`.
        notes: its notes are added here.
    """
    if filter.strategy is None:
        return filter_query(filter)
    queries = StrategyQueries(reader, lucene)
    query = queries.query(filter.strategy)
    if notes is not None:
        notes += queries.notes
    return filter_query(filter, query)


def _any(queries: Iterable[Any]) -> Any | None:
    queries = list(queries)
    if len(queries) < 2:
        return queries[0] if queries else None
    return clauses(*((query, "SHOULD") for query in queries))
