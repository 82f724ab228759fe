"""The records of the public interface."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rerank_plugin.base.filters import Filter


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


# Judgments are {query id: {document id: relevance}}, as in pytrec_eval and ir_measures. Integer grades are ints, others
# (the relevance levels of click logs) floats.
Judgments = dict[str, dict[str, float]]
