"""The parameters of searches, and the form in which answers have documents."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rerank_plugin.base.filters import CONTROL
from rerank_plugin.base.settings import settings
from rerank_plugin.retrieval.lucene import LuceneConfig

SHORTENED = ("abstract", "body", "content", "contents", "text")  # document fields that max_doc_length cuts
MOST_FILTERS = 100  # of a request
WHITE = re.compile(r"[^\S ]")  # white space but the space


def encodable(text: str) -> str:
    """The text; a `ValueError` if it has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half a character (a lone surrogate)") from None
    return text


def spaced(text: str) -> str:
    """The text with a space for every tab, line end and other white space.

    Raises:
        ValueError: it has another control character, or a lone surrogate.
    """
    if control := CONTROL.search(encodable(text)):
        raise ValueError(f"the text has the control character U+{ord(control[0]):04X}: remove it")
    return WHITE.sub(" ", text)


def spaced_lines(text: str) -> str:
    """`spaced` for each line of a text, whose tabs stay: they are between the columns of a history."""
    return "\n".join("\t".join(map(spaced, line.split("\t"))) for line in text.split("\n"))


FILTER_FORMS = (
    "FIELD:VALUE. year, entered: 2015, 2015-2020, 2015-, 2015-03. journal: abbreviation, full title or initials. "
    "author: last name, with or without initials. type: Review, RCT. language: English or its code. mesh, major (a "
    "main topic), keyword, chemical, subheading: a value. notice: retraction in. retracted: yes or no. A field twice: "
    "any of its values; 'AND FIELD:VALUE' requires each, 'NOT FIELD:VALUE' excludes."
)
QueryString = Annotated[str, AfterValidator(spaced)]
QueryLines = Annotated[str, AfterValidator(spaced_lines)]  # a strategy may be of numbered lines
Hits = Annotated[int, Field(ge=1, le=1000, description="Documents to return.")]
RerankerName = Annotated[
    str | None, Field(description="A served reranker; none: the first stage alone; delta,bert@20: a cascade.")
]
StageName = Annotated[str | None, Field(description="A first stage of the index.")]
Depth = Annotated[int | None, Field(ge=1, description="Candidates to retrieve and re-rank.")]


def setting_of(config: type, name: str, **more: Any) -> Any:
    """The parameter for a configuration's setting, with its help and bounds; absent by default."""
    declared, _ = settings(config)[name]
    help = f"{declared.help[0].upper()}{declared.help[1:]}."
    return Field(default=None, description=help, **declared.bounds, **more)


class DocumentForm(BaseModel):
    """The form of a stored document in an answer."""

    model_config = ConfigDict(extra="forbid")

    parse: bool = Field(default=True, description="Return a document as an object; if false, as the stored string.")
    fields: str | None = Field(
        default=None, description="Fields of a document to return, separated by commas: title,date. All if absent."
    )
    max_doc_length: int | None = Field(
        default=None, ge=0, description="Length in characters to which texts of a document are cut."
    )

    def render(self, document: Any) -> Any:
        """The stored document in this form."""
        if not self.parse:
            raw = document.raw()
            return raw if raw is None or self.max_doc_length is None else raw[: self.max_doc_length]
        fields = dict(document.fields) or {"id": document.docid(), "contents": document.contents()}
        if self.fields is not None:
            names = map(str.strip, self.fields.split(","))
            fields = {name: fields[name] for name in names if name in fields}
        if self.max_doc_length is not None:
            fields |= {
                name: fields[name][: self.max_doc_length] for name in SHORTENED if isinstance(fields.get(name), str)
            }
        return fields


class QuerySyntax(BaseModel):
    """How the text of a query is read."""

    query_syntax: Literal["plain", "pubmed"] = Field(
        default="plain",
        description="plain: words to rank by. pubmed: PubMed's language, too (AND, OR, NOT, tags, phrases, word*), an "
        "id, a DOI, an author or a journal alone; the strategy decides the set, which is ranked as a whole.",
    )
    rank_by: QueryString | None = Field(
        default=None, min_length=1, description="Text that ranks a strategy's set, instead of its own words."
    )

    term_mapping: bool = Field(
        default=True,
        description="Words of a strategy without a tag that name a MeSH heading also find it and those below it, where "
        "the index has MeSH.",
    )

    def text(self, query: str) -> str:
        """The text of a query: lines are of strategies only."""
        return spaced(query) if self.query_syntax == "plain" else query


class DocumentParameters(DocumentForm, QuerySyntax):
    """The parameters of a document."""

    query: QueryLines = Field(default="", description="Query whose words are highlighted.")


class SearchParameters(DocumentForm, QuerySyntax):
    """The parameters of a search."""

    query: list[QueryLines] = Field(
        default=[""],
        min_length=1,
        fail_fast=True,
        description="May be repeated; may be left out where there is a filter.",
        examples=[["statins and breast cancer"]],
    )
    hits: Hits = 10
    offset: int = Field(default=0, ge=0, le=100_000, description="Hits to skip: page 2 of ten hits each begins at 10.")
    reranker: RerankerName = None
    first_stage: StageName = None
    depth: Depth = None
    filter: list[str] = Field(default=[], max_length=MOST_FILTERS, description=f"May be repeated. {FILTER_FORMS}")
    sort: Literal["score", "date"] = Field(
        default="score",
        description="date: the newest first, of all documents that match the strategy, or have all words of the query.",
    )
    k1: float | None = setting_of(LuceneConfig, "k1")
    b: float | None = setting_of(LuceneConfig, "b")
    field: Literal["contents", "title", "abstract"] | None = setting_of(LuceneConfig, "field")
    expand: str | None = setting_of(LuceneConfig, "expand", max_length=100)


class SimilarParameters(DocumentForm):
    """The parameters of a search for similar documents."""

    docid: str = Field(description="Id of a document of the index.")
    hits: Hits = 10
