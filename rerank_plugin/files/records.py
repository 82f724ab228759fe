"""The records of the public interface."""

from typing import NamedTuple


class Document(NamedTuple):
    """A title and an abstract, each possibly empty, under an external id."""

    id: str
    title: str
    abstract: str


class Query(NamedTuple):
    """A query's id and its text as the user wrote it."""

    id: str
    text: str


# Judgments are {query id: {document id: relevance}}: the shape that pytrec_eval and ir_measures take. A whole grade is
# an int; others, as the relevance levels of click logs are, a float.
Judgments = dict[str, dict[str, float]]
