"""The records of a corpus that a filter selects, as a search with this filter selects documents of an index."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import DATES, FILTERS, PMID_VERSION, Filter, folded, years
from rerank_plugin.base.metadata_fields import COMPARED, TERMS
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.records import Deletion, DocumentStream

Groups: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
SUBJECTS = ("mesh", "major")  # filters whose values are headings


def with_narrower(filter: Filter, mesh: str) -> Filter:
    """A filter whose headings of MeSH stand for those below them in its trees, too, as in PubMed.

    Args:
        mesh: the descriptors, as for ``rerank-plugin knowledge compile``.

    Raises:
        InputError: the descriptors cannot be read, or lack a heading of the filter.
    """
    from rerank_plugin.knowledge.mesh import PARENT
    from rerank_plugin.knowledge.sources import open_source

    source = open_source(mesh)
    names: dict[str, str] = {}  # by id
    ids: dict[str, str] = {}  # by heading or entry term
    for concept in source.concepts:
        names[concept.id] = folded(concept.name)
        ids[folded(concept.name)] = concept.id
        for synonym in concept.synonyms:
            ids.setdefault(folded(synonym), concept.id)
    children: dict[str, list[str]] = {}
    for child, relation, parent in source.relations:
        if relation == PARENT:
            children.setdefault(parent, []).append(child)

    def below(heading: str) -> list[str]:
        if heading not in ids:
            raise InputError(f"{mesh} has no heading or entry term {heading!r}")
        found, waiting = set[str](), [ids[heading]]
        while waiting:
            if (id := waiting.pop()) not in found:
                found.add(id)
                waiting += children.get(id, ())
        return sorted(names[id] for id in found if id in names)

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
    """

    def __init__(self, filter: Filter | None):
        nothing: Groups = ()
        self._required = nothing if filter is None else filter.values
        self._excluded = nothing if filter is None else filter.excluded

    def selects(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether a record with this metadata is selected."""
        return all(_has_one(metadata or {}, *group) for group in self._required) and not any(
            _has_one(metadata or {}, *group) for group in self._excluded
        )

    def of(self, documents: DocumentStream) -> DocumentStream:
        """The selected documents of a stream; a version that is not selected deletes itself and those before it."""
        if not (self._required or self._excluded):
            return documents
        others: list[Deletion] = []

        def selected() -> Iterator[Document]:
            for document in documents:
                if self.selects(document.metadata):
                    yield document
                else:
                    last = (document.metadata or {}).get(PMID_VERSION, 1)
                    others.extend(Deletion(document.id, version) for version in range(1, last + 1))

        return DocumentStream(selected(), [*documents.lists, others])


def _has_one(metadata: Mapping[str, Any], field: str, values: Collection[str]) -> bool:
    """Whether metadata have one of the values of a filter, as Lucene's query for it finds them."""
    terms = set(TERMS[COMPARED[FILTERS[field]]](metadata))
    if field in DATES:
        return any(first <= term < f"{last}~" for first, last in map(years, values) for term in terms)
    return not terms.isdisjoint(values) or (field == "retracted" and "no" in values and "yes" not in terms)
