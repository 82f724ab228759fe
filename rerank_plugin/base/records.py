"""The records of the public interface."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rerank_plugin.base.filters import Filter


class Document(NamedTuple):
    """A title and an abstract, each possibly empty, under an external id.

    Attributes:
        metadata: what else is known of it, by the names of the fields that filters search; None for nothing.
    """

    id: str
    title: str
    abstract: str
    metadata: Mapping[str, Any] | None = None


class Query(NamedTuple):
    """A query's id, its text as the user wrote it, and the filter that the documents must fit; None for all."""

    id: str
    text: str
    filter: Filter | None = None


# Judgments are {query id: {document id: relevance}}: the shape that pytrec_eval and ir_measures take. A whole grade is
# an int; others, as the relevance levels of click logs are, a float.
Judgments = dict[str, dict[str, float]]
