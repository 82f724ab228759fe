"""The records of a corpus that a filter selects, as a search with this filter selects documents of an index."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import DATES, FILTERS, PMID_VERSION, Filter, folded, years
from rerank_plugin.base.metadata_fields import COMPARED, TERMS
from rerank_plugin.base.records import Document
from rerank_plugin.concepts.headings import Headings
from rerank_plugin.corpora.records import Deletion, DocumentStream

Groups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
SUBJECTS = ("mesh", "major")  # filters whose values are headings


def with_narrower(filter: Filter, headings: Headings) -> Filter:
    """A filter whose headings of MeSH stand for those below them, too, as in PubMed; entry terms are headings.

    Raises:
        InputError: the filter has a heading that is none of these.
    """

    def below(value: str) -> list[str]:
        if (heading := headings.heading(value)) is None:
            raise InputError(f"{headings.base.folder} has no heading or entry term {value!r}")
        return [folded(name) for name in (heading, *headings.below(heading))]

    def narrower(groups: Groups) -> Groups:
        return tuple(
            (field, tuple(dict.fromkeys(name for value in values for name in below(value))))
            if field in SUBJECTS
            else (field, values)
            for field, values in groups
        )

    return Filter(narrower(filter.values), narrower(filter.excluded))


class Selection:
    """The records that a filter selects.

    Args:
        filter: without a strategy; None selects all.
        refused: articles of earlier files whose newest version, above 1, was not selected, with this version; those of
            the streams are added.
    """

    def __init__(self, filter: Filter | None, refused: dict[str, int] | None = None):
        self._refused = {} if refused is None else refused
        nothing: Groups = ()
        self._required = nothing if filter is None else filter.values
        self._excluded = nothing if filter is None else filter.excluded

    def selects(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether a record with this metadata is selected."""
        return all(_has_one(metadata or {}, *group) for group in self._required) and not any(
            _has_one(metadata or {}, *group) for group in self._excluded
        )

    def of(self, documents: DocumentStream) -> DocumentStream:
        """The selected documents of a stream; one that is not selected deletes and refuses itself and those before."""
        if not (self._required or self._excluded):
            return documents
        others: list[Deletion] = []

        def selected() -> Iterator[Document]:
            for document in documents:
                last = (document.metadata or {}).get(PMID_VERSION, 1)
                if last < self._refused.get(document.id, 0):
                    continue
                if self.selects(document.metadata):
                    self._refused.pop(document.id, None)
                    yield document
                else:
                    self._refused |= {document.id: last} if last > 1 else {}
                    others.extend(Deletion(document.id, version) for version in range(1, last + 1))

        return DocumentStream(selected(), [*documents.lists, others])


def _has_one(metadata: Mapping[str, Any], field: str, values: Collection[str]) -> bool:
    """Whether metadata have one of the values of a filter, as Lucene's query for it finds them."""
    terms = set(TERMS[COMPARED[FILTERS[field]]](metadata))
    if field in DATES:
        return any(first <= term < f"{last}~" for first, last in map(years, values) for term in terms)
    return not terms.isdisjoint(values) or (field == "retracted" and "no" in values and "yes" not in terms)
