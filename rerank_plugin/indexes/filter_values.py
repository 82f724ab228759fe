"""The values by which an index can be filtered, with the numbers of documents that have them, and similar values."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing, suppress
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import DATES, FILTERS, Filter, compared, folded
from rerank_plugin.base.metadata_fields import COMPARED, TERMS, texts
from rerank_plugin.indexes.lucene_reader import filter_query, matching_numbers, similar_terms, stored_text, value_query
from rerank_plugin.java.jvm import java_class

MOST_TERMS = 50_000  # of a field, to list its commonest values; others are listed by their beginning
MOST_READ = 2_000  # terms with a beginning
CANDIDATES = 100  # commonest values that are counted again within a filter
FEW = 200  # documents of a value, which are read one by one
NEAREST = 3
AS_TERMS = ("retracted", "notices", "subheadings")  # whose values are shown as they are compared
FULL = {"authors": "full_names", "journal": "full_journal_title"}  # further spellings of each value


class Value(NamedTuple):
    """A value of a filter, as documents have it, and their number."""

    value: str
    documents: int


def emptied(index: Any, filter: Filter | None) -> str | None:
    """`FilterValues.emptied` of a filter; None without one, and for an index on a cluster."""
    if filter is None:
        return None
    with suppress(InputError), closing(FilterValues(index)) as values:
        return values.emptied(filter)
    return None


class FilterValues:
    """Lists the values of an `Index`. It is thread-safe; its constructor starts Java."""

    def __init__(self, index: Any):
        self.index, self.reader = index, index.open_lucene()
        self.searcher = java_class("org.apache.lucene.search.IndexSearcher")(self.reader)
        self._terms = cache(self._read_terms)
        self._listed = cache(self._rows_of_values)

    def values(self, field: str, begins: str = "", filter: Filter | None = None, limit: int = 20) -> list[Value]:
        """The commonest values of a field, the commonest first; years in their order, the latest first.

        Args:
            begins: the beginning of the values, or of another form of them.
            filter: counts only documents that match it.

        Raises:
            InputError: no document has the field, or it has too many values to list them without a beginning.
        """
        self.index.check_filter(Filter(((field, ("",)),)))
        name, begins = FILTERS[field], begins.strip()
        fits = None if filter is None else self.index.fitting(filter)
        if field in DATES:
            counts = self._years(field, begins, fits)
            return [Value(*pair) for pair in sorted(counts.items(), reverse=True) if pair[1]][:limit]
        prefix = compared(field, begins) if begins else ""
        terms = self._read_terms(name, prefix) if prefix else self._terms(name)
        if terms is None:
            raise InputError(f"the index has more than {MOST_TERMS:,} values of {field}: give their beginning")
        if not terms and prefix:  # of another form of a value
            forms = (self._read_terms(COMPARED[name], prefix) or [])[:CANDIDATES]
            found = dict.fromkeys(folded(self._as_stored(COMPARED[name], form)) for form, _ in forms)
            terms = [(term, len(self._rows(self._term_query(name, term)))) for term in found]
        if fits is not None or self.reader.hasDeletions():
            listed = self._listed(name) if not prefix else self._rows_of_terms(name, terms)
            terms = list(_counts(listed, fits).items())
        ranked = sorted((pair for pair in terms if pair[1]), key=lambda pair: (-pair[1], pair[0]))
        return [Value(self._as_stored(name, term), documents) for term, documents in ranked[:limit]]

    def nearest(self, field: str, value: str) -> list[str]:
        """Values like a value: with at most two other letters, or with its beginning."""
        if field in DATES or field == "retracted":
            return [year for year, _ in self.values(field)[:1]] if field in DATES else []
        value, found = compared(field, value), list[str]()
        for name in dict.fromkeys((FILTERS[field], COMPARED[FILTERS[field]])):  # forms if no value is like it
            similar = list(islice(similar_terms(self.reader, name, value, edits=2), MOST_READ))
            similar.sort(key=lambda pair: (-pair[1], pair[0]))
            found = found or [self._as_stored(name, term) for term, _ in similar[:NEAREST]]
        with suppress(InputError):
            found += [value for value, _ in self.values(field, value.split(" ")[0], limit=NEAREST)]
        return list(dict.fromkeys(found))[:NEAREST]

    def emptied(self, filter: Filter) -> str | None:
        """Which part of a filter no document matches, with the nearest values; None if some document matches it."""
        groups = [Filter((group,)) for group in filter.values] + [Filter((), (group,)) for group in filter.excluded]
        if self.searcher.count(filter_query(filter)):
            return None
        counts = [int(self.searcher.count(filter_query(group))) for group in groups]
        if 0 not in counts:
            parts = (f"{count:,} {group}" for group, count in zip(groups, counts))
            return f"no document matches all filters together; documents of each: {', '.join(parts)}"
        empty = groups[counts.index(0)]
        nearest = [near for field, values in empty.values for value in values for near in self.nearest(field, value)]
        return f"no document has {empty}" + (f"; the nearest values: {'; '.join(nearest)}" if nearest else "")

    def close(self) -> None:
        self.reader.close()

    def _term_query(self, name: str, term: str) -> Any:
        return java_class("org.apache.lucene.search.TermQuery")(java_class("org.apache.lucene.index.Term")(name, term))

    def _rows(self, query: Any) -> np.ndarray:
        """The rows of the documents that match, uint32 [n], without deleted ones."""
        rows = np.asarray(self.index.forward.lucene_rows)[np.flatnonzero(matching_numbers(self.reader, query))]
        return rows[rows < len(self.index.forward)]

    def _rows_of_values(self, name: str) -> dict[str, np.ndarray]:
        """The rows of each of the commonest values of a Lucene field, or of each year: kept to be counted in a set."""
        field = next(field for field, of_filter in FILTERS.items() if of_filter == name)
        if field in DATES:
            years = dict.fromkeys(date[:4] for date, _ in self._terms(name) or [])
            return {year: self._rows(value_query(field, year)) for year in years}
        return self._rows_of_terms(name, self._terms(name) or [])

    def _rows_of_terms(self, name: str, terms: list[tuple[str, int]]) -> dict[str, np.ndarray]:
        rows = dict[str, np.ndarray]()
        for term, documents in terms[:CANDIDATES]:
            few = documents <= FEW
            rows[term] = self._few_rows(name, term, documents) if few else self._rows(self._term_query(name, term))
        return rows

    def _few_rows(self, name: str, term: str, documents: int) -> np.ndarray:
        """`_rows` of a term that so many documents have, one by one."""
        postings = self._postings(name, term)
        rows = np.asarray(self.index.forward.lucene_rows)[[int(postings.nextDoc()) for _ in range(documents)]]
        return rows[rows < len(self.index.forward)]

    def _read_terms(self, name: str, begins: str = "") -> list[tuple[str, int]] | None:
        """The terms of a Lucene field that begin so, with their documents, the commonest first; None for too many."""
        terms = java_class("org.apache.lucene.index.MultiTerms").getTerms(self.reader, name)
        if terms is None:
            return []
        each, read = terms.iterator(), list[tuple[str, int]]()
        if begins:
            status = each.seekCeil(java_class("org.apache.lucene.util.BytesRef")(begins.encode()))
            term = None if status.toString() == "END" else each.term()
        else:
            term = each.next()
        while term is not None and (text := term.utf8ToString()).startswith(begins):
            read.append((text, int(each.docFreq())))
            if len(read) == (MOST_READ if begins else MOST_TERMS):
                if not begins:
                    return None
                break
            term = each.next()
        return sorted(read, key=lambda pair: (-pair[1], pair[0]))

    def _years(self, field: str, begins: str, fits: np.ndarray | None) -> dict[str, int]:
        """The documents of each year, or of each date that begins so; ``fits``: only these, bool [R]."""
        name, counts = FILTERS[field], Counter[str]()
        if fits is None and not self.reader.hasDeletions():
            for date, documents in self._terms(name) or []:
                if date.startswith(begins):
                    counts[date[:4]] += documents
            return counts
        return {year: count for year, count in _counts(self._listed(name), fits).items() if year.startswith(begins[:4])}

    def _as_stored(self, name: str, term: str) -> str:
        """The value of a term as the first document with it has it."""
        entry = next(entry for entry, searched in COMPARED.items() if name in (entry, searched))
        number = None if entry in AS_TERMS else self._first_with(name, term)
        record = json.loads((None if number is None else stored_text(self.reader, number)[0]) or "{}")
        values, full = texts(record, entry), texts(record, FULL.get(entry, entry))
        pairs = zip(values, full) if len(values) == len(full) else zip(values, values)
        return next((value for value, other in pairs if term in TERMS[name]({entry: [value, other]})), term)

    def _first_with(self, name: str, term: str) -> int:
        """The number of the first document with a term, which may have been deleted since."""
        return int(self._postings(name, term).nextDoc())

    def _postings(self, name: str, term: str) -> Any:
        bytes_ref = java_class("org.apache.lucene.util.BytesRef")(term.encode())
        return java_class("org.apache.lucene.index.MultiTerms").getTermPostingsEnum(self.reader, name, bytes_ref)


def _counts(rows: dict[str, np.ndarray], fits: np.ndarray | None) -> dict[str, int]:
    """The number of rows of each value; ``fits``: of those that fit, bool [R]."""
    if fits is None:
        return {value: len(of_value) for value, of_value in rows.items()}
    return {value: int(np.count_nonzero(fits[of_value])) for value, of_value in rows.items()}
