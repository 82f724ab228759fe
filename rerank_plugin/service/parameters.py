"""The parameters of searches, and the form in which documents are shown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SHORTENED = ("abstract", "body", "content", "contents", "text")  # fields of a document that max_doc_length cuts


class DocumentForm(BaseModel):
    """How a stored document is shown."""

    model_config = ConfigDict(extra="forbid")

    parse: bool = Field(True, description="Whether a document is an object, or the string that is stored.")
    fields: str | None = Field(
        None, description="Fields of a document to show, with commas: title,date. All if absent."
    )
    max_doc_length: int | None = Field(None, ge=0, description="Characters after which texts of a document are cut.")

    def shown(self, document: Any) -> Any:
        """The stored document in this form."""
        if not self.parse:
            raw = document.raw()
            return raw if raw is None or self.max_doc_length is None else raw[: self.max_doc_length]
        found = dict(document.fields) or {"id": document.docid(), "contents": document.contents()}
        if self.fields is not None:
            found = {name: found[name] for name in self.fields.split(",") if name in found}
        if self.max_doc_length is not None:
            found |= {
                name: found[name][: self.max_doc_length] for name in SHORTENED if isinstance(found.get(name), str)
            }
        return found


class SearchParameters(DocumentForm):
    """The parameters of a search."""

    query: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1, description="May be repeated.")
    hits: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=100_000, description="Hits to pass over: page 2 of ten hits each begins at 10.")
    reranker: str | None = Field(
        None, description="A served reranker, none for the first stage alone, or a cascade, as in delta,bert@20."
    )
    first_stage: str | None = Field(None, description="A first stage that the index serves.")
    depth: int | None = Field(None, ge=1, description="Candidates that the first stage retrieves and are re-ranked.")
    filter: list[str] = Field([], description="As year:2015-2020 or type:Review; may be repeated.")
    sort: Literal["score", "date"] = Field("score", description="date: the newest of the candidates first.")
    k1: float | None = Field(None, ge=0, le=1000, allow_inf_nan=False, description="Of BM25.")
    b: float | None = Field(None, ge=0, le=1, description="Of BM25.")
    field: Literal["contents", "title", "abstract"] | None = Field(None, description="Field that Lucene searches.")


class SimilarParameters(DocumentForm):
    """The parameters of a search for similar documents."""

    docid: str
    hits: int = Field(10, ge=1, le=1000)
