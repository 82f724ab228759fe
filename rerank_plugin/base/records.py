"""The records of the public interface."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from rerank_plugin.base.filters import Filter

BYTE_ORDER_MARKS = ("\ufeff", "\ufffe")  # readers of files, and of Java's texts, take them off, or swap what follows


def is_id(value: Any) -> TypeGuard[str]:
    """Whether a value can be the id of a document: a text without white space, which separates a run's columns."""
    return isinstance(value, str) and value.split() == [value] and not value.startswith(BYTE_ORDER_MARKS)


class Document(NamedTuple):
    """A title and an abstract, each possibly empty, under an external id.

    Attributes:
        metadata: values by field name (:mod:`rerank_plugin.base.filters`); None if there are none.
    """

    id: str
    title: str
    abstract: str
    metadata: Mapping[str, Any] | None = None


class Query(NamedTuple):
    """A query: its id, its text as the user wrote it, and a filter of the documents (None: all documents)."""

    id: str
    text: str
    filter: Filter | None = None


class Missing(NamedTuple):
    """The shards of an index that did not answer a search, so that its ranking lacks their documents.

    Attributes:
        shards: their numbers, increasing, from 0 on.
        of: the number of all shards.
        share: of all documents, those in the missing shards.
    """

    shards: tuple[int, ...]
    of: int
    share: float

    def __str__(self) -> str:
        shards = f"shard{'s' if self.shards[1:] else ''} {', '.join(map(str, self.shards))} of {self.of}"
        return f"{shards} did not answer: {100 * self.share:.1f} % of the documents are missing from this ranking"


# Judgments are {query id: {document id: relevance}}, as in pytrec_eval and ir_measures. Integer grades are ints, others
# (the relevance levels of click logs) floats.
Judgments = dict[str, dict[str, float]]
